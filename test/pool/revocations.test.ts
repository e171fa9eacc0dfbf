/** Revoked tokens at the doors and in the Hubs: who is refused, what is closed, and what that costs. */
import { evictAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Attachment } from "../../src/objects/hub/attachment.ts";
import { Group } from "../../src/objects/channel/group.ts";
import { Directory } from "../../src/objects/channel/directory.ts";
import { RevokedTokens } from "../../src/objects/channel/revoked-tokens.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { REVOKED_TOKENS_MAX } from "../../src/engine/revocations.ts";
import { BRIDGE_SUBPROTOCOL } from "../../src/wire/bridge.ts";
import { hex, subscribe, U16, unsubscribe } from "../support/frames/index.ts";
import { get, openSocket, type SocketDoor } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf, nowS, tokenOf } from "../support/pool/tokens.ts";
import { calling, expectProblem, fieldsOf, gotOf, type Calling } from "../support/pool/v1-calls.ts";

const WS = "/throttr/7.3/uint16";
const LIST = "/v1/tokens/revocations";
const REVOKED = { code: 1008, reason: expect.stringMatching(/^token_revoked: /) as string };

const server = exports.default as unknown as Fetcher;

const encoder = new TextEncoder();

let namespaces = 0;
const freshName = (): string => `revoked-${++namespaces}`;
let ids = 0;
const freshId = (): string => `token-${++ids}`;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

type Claims = Parameters<typeof bearerOf>[0];

const callsOf = async (claims: Claims): Promise<Calling> => calling(await bearerOf(claims));

/** Calls of an operator of a namespace, whose token is issued in this second. */
const operatorOf = async (ns: string): Promise<Calling> =>
  await callsOf({ ns, scopes: ["admin"], iat: nowS(), jti: freshId() });

async function revoke(ns: string, json: object): Promise<void> {
  expect((await (await operatorOf(ns))("POST", LIST, { json })).status).toBe(204);
}

const directory = (ns: string): DurableObjectStub<Directory> => env.DIRECTORY.getByName(ns);

/** Opens a WebSocket that has been answered once. */
async function opened(headers: Record<string, string>): Promise<SocketDoor> {
  const door = await openSocket(WS, headers);
  expect(hex(await door.exchange(U16.query("a"), 1))).toBe("00");
  return door;
}

/** An object of an earlier release lacks a method. */
const lacking = (method: string): Error =>
  new TypeError(`The RPC receiver does not implement the method "${method}".`);

/** Still serves. */
async function expectOpen(door: SocketDoor): Promise<void> {
  expect(hex(await door.exchange(U16.query("a"), 1))).toBe("00");
}

/** Lets time pass for tokens, and no timer run. */
function pass(ms: number): Promise<void> {
  vi.useFakeTimers({ now: Date.now() + ms, toFake: ["Date"] });
  return Promise.resolve();
}

describe("a revoked token over HTTP", () => {
  it("a token that is revoked by its ID is refused, and no other one", async () => {
    const ns = freshName();
    const [stolen, other] = [freshId(), freshId()];
    const call = await callsOf({ ns, jti: stolen });
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    await revoke(ns, { id: stolen, expiresAtMs: Date.now() + 3_600_000 });
    expectProblem(await call("GET", "/v1/counters/a"), "token_revoked");
    expect((await get("/metrics", await bearerOf({ ns, jti: stolen }))).status).toBe(401);
    for (const claims of [{ ns, jti: other }, { ns }, { ns: freshName(), jti: stolen }]) {
      expectProblem(await (await callsOf(claims))("GET", "/v1/counters/a"), "key_absent");
    }
  });

  it.each([
    ["POST", "/throttr/7.3/uint16", U16.insert("a", 1)],
    ["PUT", "/v1/counters/a", encoder.encode('{"quota": 1, "ttlMs": 60000}')],
    ["POST", "/channels/a", encoder.encode("m")],
  ])(
    "a %s of %s is refused if its token is revoked, or expires, while its body arrives",
    async (method, path, body) => {
      const ns = freshName();
      const jti = freshId();
      const ending: [Claims, () => Promise<void>, string][] = [
        [{ ns, jti }, () => revoke(ns, { id: jti }), "token_revoked"],
        [{ ns, exp: nowS() + 60 }, () => pass(61_000), "token_expired"],
      ];
      for (const [claims, end, code] of ending) {
        const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
        const headers = await bearerOf(claims);
        const init = { method, headers, body: readable };
        const answer = server.fetch(`http://localhost${path}`, init);
        const writer = writable.getWriter();
        await writer.write(body);
        await end();
        await writer.close();
        expectProblem(await gotOf(await answer), code);
      }
      vi.useRealTimers();
      const call = await callsOf({ ns });
      expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    },
  );

  it("all tokens that were issued before a moment are refused, and those that don't say when", async () => {
    const ns = freshName();
    const tokens: [Claims, string][] = [
      [{ ns, iat: nowS() - 100 }, "token_revoked"],
      [{ ns, iat: nowS() - 11, jti: freshId() }, "token_revoked"],
      [{ ns }, "token_revoked"],
      [{ ns, iat: nowS() - 10 }, "key_absent"],
      [{ ns, iat: nowS() }, "key_absent"],
    ];
    await revoke(ns, { issuedBeforeMs: (nowS() - 10) * 1000 });
    for (const [claims, code] of tokens) {
      expectProblem(await (await callsOf(claims))("GET", "/v1/counters/a"), code as "key_absent");
    }
    // An earlier moment takes nothing back.
    await revoke(ns, { issuedBeforeMs: 1 });
    const call = await callsOf({ ns, iat: nowS() - 100 });
    expectProblem(await call("GET", "/v1/counters/a"), "token_revoked");
  });

  it("only the first request of an isolate calls the Directory for the list of revoked tokens", async () => {
    const spy = vi.spyOn(Directory.prototype, "revokedTokens");
    const ns = freshName();
    const call = await callsOf({ ns, jti: freshId() });
    for (let i = 0; i < 50; i++) await call("GET", "/v1/counters/a");
    expect(spy).toHaveBeenCalledTimes(1);
  });

  it("a door with a list from before a revocation refuses the token after 60 s", async () => {
    const ns = freshName();
    const jti = freshId();
    const call = await callsOf({ ns, jti });
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    // As another isolate does it: this one is not told.
    await directory(ns).revokeToken(jti, null);
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60_000 });
    expectProblem(await call("GET", "/v1/counters/a"), "token_revoked");
  });

  it("a list that can't be read lets valid tokens in, and is logged as an error", async () => {
    const errors = vi.spyOn(console, "error").mockImplementation(() => {});
    const reading = vi.spyOn(Directory.prototype, "revokedTokens").mockImplementation(() => {
      throw new Error("the Directory is broken");
    });
    const ns = freshName();
    const jti = freshId();
    await directory(ns).revokeToken(jti, null);
    const call = await callsOf({ ns, jti });
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    expect(errors.mock.calls.join("\n")).toContain('"event":"revocations_unread"');
    reading.mockRestore();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 5000 });
    await expect
      .poll(async () => (await call("GET", "/v1/counters/a")).json["code"])
      .toBe("token_revoked");
  });

  it("a Directory of an earlier release has no list, and lets valid tokens in", async () => {
    const errors = vi.spyOn(console, "error");
    vi.spyOn(Directory.prototype, "revokedTokens").mockImplementation(() => {
      throw new TypeError('The RPC receiver does not implement the method "revokedTokens".');
    });
    const call = await callsOf({ ns: freshName(), jti: freshId() });
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
    expect(errors).not.toHaveBeenCalled();
  });

  it("revocations outlive restarts of the Directory, and its daily look", async () => {
    const ns = freshName();
    const jti = freshId();
    await revoke(ns, { id: jti });
    await evictAllDurableObjects();
    await runDurableObjectAlarm(directory(ns));
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 95_000 });
    await runDurableObjectAlarm(directory(ns));
    await runInDurableObject(directory(ns), async (instance) => await instance.alarm());
    await evictAllDurableObjects();
    const { json } = await (await operatorOf(ns))("GET", LIST);
    expect(json).toMatchObject({ tokens: [{ id: jti }] });
  });
});

describe("the routes about revoked tokens", () => {
  it("the list has the revocations that are in force", async () => {
    const ns = freshName();
    const call = await operatorOf(ns);
    expect((await call("GET", LIST)).json).toEqual({ issuedBeforeMs: null, tokens: [] });
    const issuedBeforeMs = Date.now() - 1_000_000;
    const expiresAtMs = Date.now() + 5000;
    await revoke(ns, { issuedBeforeMs });
    await revoke(ns, { id: "a", expiresAtMs });
    await revoke(ns, { id: "b" });
    const revokedAtMs = expect.any(Number) as number;
    expect((await call("GET", LIST)).json).toEqual({
      issuedBeforeMs,
      tokens: [
        { id: "a", revokedAtMs, expiresAtMs },
        { id: "b", revokedAtMs, expiresAtMs: null },
      ],
    });
    vi.useFakeTimers({ toFake: ["Date"], now: expiresAtMs + 60_000 });
    expect((await call("GET", LIST)).json).toMatchObject({ tokens: [{ id: "b" }] });
  });

  it.each([
    [{}, ""],
    [{ id: "a", issuedBeforeMs: 1 }, ""],
    [{ id: "" }, "id"],
    [{ id: "a b" }, "id"],
    [{ id: "x".repeat(65) }, "id"],
    [{ issuedBeforeMs: Date.now() + 3_600_000 }, "issuedBeforeMs"],
    [{ issuedBeforeMs: -1 }, "issuedBeforeMs"],
    [{ id: "a", expiresAtMs: nowS() }, "expiresAtMs"],
    [{ id: "a", expiresAtMs: Date.now() - 86_460_000 }, "expiresAtMs"],
    [{ id: "a", expiresAtMs: 1.5 }, "expiresAtMs"],
  ])(
    "a revocation that says too little, too much or nonsense is refused: %j",
    async (json, field) => {
      const got = await (await operatorOf(freshName()))("POST", LIST, { json });
      expectProblem(got, "body_invalid");
      expect(Object.keys(fieldsOf(got))).toEqual([field]);
    },
  );

  it.each([1, null, [], {}, ""])(
    "the ID of a revocation is refused with its range: %j",
    async (id) => {
      const got = await (await operatorOf(freshName()))("POST", LIST, { json: { id } });
      expectProblem(got, "body_invalid");
      expect(fieldsOf(got)["id"]).toMatch(
        /^expected 1 to 64 ASCII characters without spaces, got /,
      );
    },
  );

  it("a token with prefixes can't revoke tokens", async () => {
    const prefixes = [{ keyPrefixes: ["a:"] }, { channelPrefixes: ["a:"] }];
    for (const claims of prefixes) {
      const call = await callsOf({ ns: freshName(), ...claims });
      expectProblem(await call("POST", LIST, { json: { id: "a" } }), "prefix_missing");
    }
  });

  it("a full list refuses another ID with the way out, and has room once all were revoked", async () => {
    const ns = freshName();
    await runInDurableObject(directory(ns), (_, { storage }) => {
      const revokedAtMs = Date.now() - 60_000;
      const tokens = Array.from({ length: REVOKED_TOKENS_MAX }, (__, i) => ({
        id: `many-${i}`,
        revokedAtMs,
        expiresAtMs: null,
      }));
      storage.kv.put("revocations", { version: 7, issuedBeforeMs: 0, tokens });
    });
    const call = await operatorOf(ns);
    const got = await call("POST", LIST, { json: { id: "more" } });
    expectProblem(got, "revocations_max");
    expect(got.json["detail"]).toContain("issuedBeforeMs");
    await revoke(ns, { issuedBeforeMs: Date.now() - 1000 });
    await revoke(ns, { id: "more" });
  });

  it("a revocation costs two rows and an alarm", async () => {
    const ns = freshName();
    await revoke(ns, { id: "a" });
    await runDurableObjectAlarm(directory(ns));
    const counted = await runInDurableObject(directory(ns), async (instance, { storage }) => {
      const put = vi.spyOn(storage.kv, "put");
      const setAlarm = vi.spyOn(storage, "setAlarm");
      await instance.revokeToken("b", null);
      return [put.mock.calls.length, setAlarm.mock.calls.length];
    });
    expect(counted).toEqual([2, 1]);
  });
});

describe("connections of a revoked token", () => {
  const READING = { "sec-websocket-protocol": BRIDGE_SUBPROTOCOL };

  it.each([
    ["a WebSocket", {}],
    ["a gateway's connection", READING],
  ])("%s is closed at once, and those of other tokens stay", async (_, more) => {
    const ns = freshName();
    const jti = freshId();
    const door = await openSocket(WS, { ...(await bearerOf({ ns, jti })), ...more });
    const other = await opened(await bearerOf({ ns, jti: freshId() }));
    await revoke(ns, { id: jti });
    expect(await door.closed).toEqual(REVOKED);
    await expectOpen(other);
    await other.close();
  });

  it("a listener of Server-Sent Events whose token is revoked is closed at once", async () => {
    const ns = freshName();
    const jti = freshId();
    const headers = await bearerOf({ ns, jti });
    const response = await server.fetch("http://localhost/channels/news", { headers });
    const reader = response.body!.getReader();
    const ended = (async () => {
      try {
        while (!(await reader.read()).done);
      } catch {
        // Cut off, which is an end.
      }
      return "ended";
    })();
    await revoke(ns, { id: jti });
    expect(await ended).toBe("ended");
    expect((await server.fetch("http://localhost/channels/news", { headers })).status).toBe(401);
  });

  it("a live overview whose token is revoked ends with its next event", async () => {
    const ns = freshName();
    const jti = freshId();
    const response = await get("/v1/overview/live", await bearerOf({ ns, jti }));
    const reader = response.body!.getReader();
    expect((await reader.read()).done).toBe(false);
    await revoke(ns, { id: jti });
    // What was on its way when the token was revoked may come before the end.
    const next = await reader.read();
    expect(next.done || (await reader.read()).done).toBe(true);
  });

  it("connections of a hibernated Hub are closed, and an idle Hub is not woken for anything else", async () => {
    const ns = freshName();
    const jti = freshId();
    const door = await opened(await bearerOf({ ns, jti }));
    const other = await opened(await bearerOf({ ns }));
    await evictAllDurableObjects();
    const calls = vi.spyOn(Hub.prototype, "endRevoked");
    await revoke(ns, { id: jti });
    expect(await door.closed).toEqual(REVOKED);
    await expectOpen(other);
    await other.close();
    expect(calls).toHaveBeenCalledTimes(1);
  });

  it("a client whose token is revoked is not served any more when it does not close its half, also after its Hub has slept", async () => {
    const ns = freshName();
    const jti = freshId();
    const door = await openSocket(WS, await bearerOf({ ns, jti }), false);
    const other = await opened(await bearerOf({ ns }));
    await revoke(ns, { id: jti });
    expect(await door.closed).toEqual(REVOKED);
    await evictAllDurableObjects();
    door.socket.send(U16.insert("late", 1));
    await scheduler.wait(100);
    expect(hex(await other.exchange(U16.query("late"), 1))).toBe("00");
    expect(await hubStub(0, ns).figures()).toMatchObject({ connections: 1 });
    await other.close();
    await door.close();
  });

  it("all connections of tokens that were issued before a moment are closed", async () => {
    const ns = freshName();
    const old = await opened(await bearerOf({ ns, iat: nowS() - 100 }));
    const unknown = await opened(await bearerOf({ ns }));
    const recent = await opened(await bearerOf({ ns, iat: nowS() }));
    await revoke(ns, { issuedBeforeMs: Date.now() - 50_000 });
    expect(await old.closed).toEqual(REVOKED);
    expect(await unknown.closed).toEqual(REVOKED);
    await expectOpen(recent);
    await recent.close();
  });

  it("connections of release 0.4 don't say their token: they count as the oldest ones", async () => {
    const ns = freshName();
    const jti = freshId();
    const door = await opened(await bearerOf({ ns, jti, iat: nowS() }));
    // What was counted is stored first, or it would bring the token back.
    await evictAllDurableObjects();
    await runInDurableObject(hubStub(0, ns), (_, state) => {
      for (const socket of state.getWebSockets()) {
        const { access, ...attachment } = socket.deserializeAttachment() as Attachment;
        const { token: __, ...old } = access;
        socket.serializeAttachment({ ...attachment, access: old });
      }
    });
    await evictAllDurableObjects();
    await revoke(ns, { id: jti });
    await runDurableObjectAlarm(directory(ns));
    await expectOpen(door);
    await revoke(ns, { issuedBeforeMs: Date.now() - 1_000_000 });
    expect(await door.closed).toEqual(REVOKED);
  });

  it("a connection with the longest ID and the longest prefixes survives hibernation", async () => {
    const ns = `${freshName()}-`.padEnd(64, "n");
    const jti = "i".repeat(64);
    const keyPrefixes = Array.from({ length: 16 }, (_, i) => `${i}`.padEnd(255, "k"));
    const channelPrefixes = Array.from({ length: 16 }, (_, i) =>
      i === 0 ? "0" : `${i}`.padEnd(255, "c"),
    );
    const claims = { ns, jti, iat: nowS(), keyPrefixes, channelPrefixes };
    const door = await openSocket(WS, await bearerOf(claims));
    const channelOf = (i: number): string => String(i).padStart(255, "0");
    let room = 0;
    while (hex(await door.exchange(subscribe(channelOf(room)), 1)) === "01") room++;
    expect(room).toBeGreaterThan(5);
    await evictAllDurableObjects();
    expect(hex(await door.exchange(unsubscribe(channelOf(room - 1)), 1))).toBe("01");
    await revoke(ns, { id: jti });
    expect(await door.closed).toEqual(REVOKED);
  });

  it("connections without a token stay when all tokens are revoked", async () => {
    const door = await openSocket(WS);
    await revoke("default", { issuedBeforeMs: 1 });
    await runDurableObjectAlarm(directory("default"));
    expect(hex(await door.exchange(U16.query("absent"), 1))).toBe("00");
    await door.close();
  });

  it("a connection that a door opened by its old list is closed when no door has such a list any more", async () => {
    const ns = freshName();
    const jti = freshId();
    const headers = await bearerOf({ ns, jti });
    await (await opened(headers)).close();
    await directory(ns).revokeToken(jti, null);
    await runDurableObjectAlarm(directory(ns));
    const late = await opened(headers);
    // A door trusts its list for 60 s, and then may take 25 s to open a connection.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 85_000 });
    await runDurableObjectAlarm(directory(ns));
    await expectOpen(late);
    // The round is for all changes of five seconds.
    vi.setSystemTime(Date.now() + 10_000);
    await runDurableObjectAlarm(directory(ns));
    expect(await late.closed).toEqual(REVOKED);
  });

  it.each([
    ["fails", new Error("the Hub is broken")],
    ["runs a release that does not know the call", lacking("endRevoked")],
  ])(
    "a Hub that %s is asked again to close the connections of a revoked token",
    async (_title, error) => {
      vi.spyOn(console, "warn").mockImplementation(() => {});
      const ns = freshName();
      const jti = freshId();
      const door = await opened(await bearerOf({ ns, jti }));
      vi.spyOn(Hub.prototype, "endRevoked").mockImplementationOnce(() => {
        throw error;
      });
      await directory(ns).revokeToken(jti, null);
      await runDurableObjectAlarm(directory(ns));
      await expectOpen(door);
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
      await runDurableObjectAlarm(directory(ns));
      expect(await door.closed).toEqual(REVOKED);
    },
  );

  it("a token that is revoked during the daily look of the Directory loses its connections, and stays revoked", async () => {
    const ns = freshName();
    const jti = freshId();
    const door = await opened(await bearerOf({ ns, jti }));
    const look = vi.spyOn(Group.prototype, "lookThrough");
    const ended = Promise.withResolvers<void>();
    look.mockImplementationOnce(async function (this: Group, hasOtherData) {
      await revoke(ns, { id: jti });
      // As where all Hubs that are listed have died.
      if (!hasOtherData!())
        await runInDurableObject(directory(ns), (_, s) => s.storage.deleteAll());
      await runInDurableObject(directory(ns), (_, { storage }) =>
        storage.setAlarm(Date.now() + 86_400_000),
      );
      ended.resolve();
    });
    await runInDurableObject(directory(ns), async (instance) => await instance.alarm());
    await ended.promise;
    expect(await door.closed).toEqual(REVOKED);
    const { json } = await (await operatorOf(ns))("GET", LIST);
    expect(json).toMatchObject({ tokens: [{ id: jti }] });
  });

  it("a Directory whose clock is behind that of alarms learns by how much once, not with each revocation", async () => {
    const ns = freshName();
    await directory(ns).revokeToken(freshId(), null);
    const rings = vi.spyOn(Directory.prototype, "alarm");
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 300_000 });
    const ringsOf = async (): Promise<number> => {
      rings.mockClear();
      await directory(ns).revokeToken(freshId(), null);
      // Those that ring at once, ring by then.
      for (let last = -1; last !== rings.mock.calls.length; await scheduler.wait(300)) {
        last = rings.mock.calls.length;
      }
      return rings.mock.calls.length;
    };
    // From a second to 512 by doubling, and the one for the change.
    expect(await ringsOf()).toBeLessThanOrEqual(11);
    expect(await ringsOf()).toBeLessThanOrEqual(2);
    expect(await ringsOf()).toBeLessThanOrEqual(2);
  });

  it("a Directory that dies before it has told its Hubs tells them when it starts again", async () => {
    const ns = freshName();
    const jti = freshId();
    const other = await opened(await bearerOf({ ns, jti: freshId() }));
    await runInDurableObject(directory(ns), (_, { storage }) => {
      const token = { id: jti, revokedAtMs: Date.now(), expiresAtMs: null };
      storage.kv.put("revocations", { version: 1, issuedBeforeMs: 0, tokens: [token] });
      const dueAtMs = Date.now() + 1000;
      const telling = { changedAtMs: dueAtMs, dueAtMs, isAgain: false, after: null };
      storage.kv.put("revocations:telling", telling);
      return storage.setAlarm(dueAtMs);
    });
    const told = vi.spyOn(Hub.prototype, "endRevoked");
    await evictAllDurableObjects();
    await expect.poll(() => told.mock.calls.length).toBe(1);
    await expectOpen(other);
    await other.close();
  });
});

describe("a revoked token for all namespaces", () => {
  it("a token for all namespaces is revoked in each of them, with its connections", async () => {
    const names = [freshName(), freshName()];
    const jti = freshId();
    const token = await tokenOf({ ns: "*", jti });
    const doors: SocketDoor[] = [];
    for (const ns of names) {
      const headers = { authorization: `Bearer ${token}~${ns}` };
      expectProblem(await calling(headers)("GET", "/v1/counters/a"), "key_absent");
      doors.push(await opened(headers));
    }
    const own = await opened(await bearerOf({ ns: names[0]!, jti }));
    await expect
      .poll(async () => {
        const { json } = await (await operatorOf("*"))("GET", "/v1/namespaces?limit=1000");
        return (json["namespaces"] as { name: string }[]).map(({ name }) => name);
      })
      .toEqual(expect.arrayContaining(names));
    await revoke("*", { id: jti });
    for (const door of doors) expect(await door.closed).toEqual(REVOKED);
    for (const ns of names) {
      const call = calling({ authorization: `Bearer ${token}~${ns}` });
      expectProblem(await call("GET", "/v1/counters/a"), "token_revoked");
    }
    // A namespace's own token of the same ID is another one.
    await expectOpen(own);
    await own.close();
  });

  it("a revoked token for all namespaces loses its connections in a namespace that is used for channels alone", async () => {
    const ns = freshName();
    const jti = freshId();
    const headers = { authorization: `Bearer ${await tokenOf({ ns: "*", jti })}~${ns}` };
    const door = await openSocket(WS, headers);
    expect(hex(await door.exchange(subscribe("news"), 1))).toBe("01");
    await revoke("*", { id: jti });
    expect(await door.closed).toEqual(REVOKED);
  });

  it("a token for all namespaces that names one revokes tokens of that one", async () => {
    const ns = freshName();
    const jti = freshId();
    const call = calling({ authorization: `Bearer ${await tokenOf({ ns: "*" })}~${ns}` });
    expect((await call("POST", LIST, { json: { id: jti } })).status).toBe(204);
    expectProblem(await (await callsOf({ ns, jti }))("GET", "/v1/counters/a"), "token_revoked");
    const { json } = await (await operatorOf("*"))("GET", LIST);
    expect(JSON.stringify(json)).not.toContain(jti);
  });

  it("the deployment tells many namespaces in steps", async () => {
    await runInDurableObject(directory("*"), (instance) => {
      for (let i = 0; i < 205; i++) instance.registerNamespace(`many.${1000 + i}`);
    });
    const told = vi.spyOn(Directory.prototype, "endConnections").mockResolvedValue();
    await directory("*").revokeToken(freshId(), null);
    await expect.poll(() => told.mock.calls.length).toBeGreaterThan(205);
    expect(told).toHaveBeenCalledTimes((await directory("*").namespacesPage(null, 1000)).length);
  });
});

it.each([
  ["fails", new Error("broken")],
  ["runs a release that does not know the call", lacking("endConnections")],
])(
  "a namespace that %s does not keep others from learning of a revocation, and is called again until it answers",
  async (_title, error) => {
    vi.spyOn(console, "warn").mockReturnValue();
    await runInDurableObject(directory("*"), (instance) => {
      for (let i = 0; i < 205; i++) instance.registerNamespace(`page.${1000 + i}`);
    });
    const told: string[] = [];
    let isBroken = true;
    vi.spyOn(Directory.prototype, "endConnections").mockImplementation(async function (
      this: Directory,
    ) {
      const name = (this as unknown as { ctx: DurableObjectState }).ctx.id.name!;
      if (isBroken && name === "page.1003") throw error;
      told.push(name);
    });
    const names = (await directory("*").namespacesPage(null, 1000)).map(({ name }) => name);
    await directory("*").revokeToken(freshId(), null);
    await expect.poll(() => told.length).toBe(names.length - 1);
    isBroken = false;
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
    await runDurableObjectAlarm(directory("*"));
    await expect.poll(() => told.toSorted()).toEqual(names.toSorted());
  },
);

const toldAll = async () => ({ after: null, missed: [] });

it("a revocation that a full disk has refused is not in the list until it is repeated and stored", async () => {
  await runInDurableObject(directory("full"), async (_, { storage }) => {
    /** Rows that the disk still takes. */
    let room = 0;
    const put = (key: string, value: unknown): void => {
      if (room-- <= 0) throw new Error("database or disk is full: SQLITE_FULL");
      storage.kv.put(key, value);
    };
    const disk = {
      kv: { get: (key: string) => storage.kv.get(key), put },
      transactionSync: (work: () => void) => storage.transactionSync(work),
      setAlarm: async () => {},
    } as unknown as DurableObjectStorage;
    const tokens = new RevokedTokens(disk, toldAll);
    const id = freshId();
    for (const rows of [0, 1]) {
      room = rows;
      await expect(tokens.revoke(id, null)).rejects.toThrow(/SQLITE_FULL/);
      expect(tokens.isStored).toBe(false);
      expect(new RevokedTokens(disk, toldAll).isStored).toBe(false);
    }
    room = Infinity;
    expect(await tokens.revoke(id, null)).toBe(true);
    const { list } = new RevokedTokens(disk, toldAll);
    expect(list.tokens.map((token) => token.id)).toEqual([id]);
  });
});
