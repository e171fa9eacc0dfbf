/** Commands over every door: equal replies to equal streams, however they are cut; refusals; limits. */
import { reset } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { InitialShards } from "../support/shards.ts";
import { readSettings } from "../../src/base/settings.ts";
import { Command } from "../../src/wire/edge/command.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import type { RateLimitConfiguration } from "../../src/wire/ratelimit/configuration.ts";
import type { ScopeName } from "../../src/wire/throttr/requests.ts";
import { requestArbitrary } from "../support/engine/arbitraries.ts";
import { commandArbitrary, key } from "../support/commands/arbitraries.ts";
import { refusalOf } from "../support/commands/calls.ts";
import {
  bytesOf,
  change,
  commandFrame,
  commandReplies,
  compareAndSet,
  concat,
  configurationBytes,
  expire,
  FOREVER,
  frameOf,
  hex,
  HOURS,
  increment,
  INFO,
  insert,
  limit,
  LIST,
  peek,
  purge,
  read,
  refund,
  reserve,
  remove,
  scan,
  set,
  stat,
  STATS,
  subscribe,
  type Ttl,
  U64,
  WHOAMI,
} from "../support/frames/index.ts";
import { takeReplies, timeless } from "../support/commands/streams.ts";
import type { ModelRequest } from "../support/models/requests.ts";
import { open } from "../support/pool/binding.ts";
import { get, openPort, openSocket, type SocketDoor, type TcpDoor } from "../support/pool/doors.ts";
import { bearerOf } from "../support/pool/tokens.ts";

const server = exports.default as unknown as Fetcher;
const seed = inject("seed");
const PATH = "/throttr/edge";
const PORT = 9030;

const request = (request: ModelRequest): Uint8Array => frameOf(U64, request);

let namespaces = 0;
const freshNamespace = (): string => `commands-${namespaces++}`;

beforeAll(() => {
  Object.assign(readSettings(env), { TCP_PORTS: `${PORT}=edge` });
});
afterEach(async () => {
  await reset();
});

async function post(body: BodyInit, headers: HeadersInit = {}): Promise<Response> {
  return await server.fetch(`http://localhost${PATH}`, { method: "POST", body, headers });
}

async function expectProblem(response: Response, status: number, code: string): Promise<void> {
  expect(await response.json()).toMatchObject({ status, code });
  expect(response.status).toBe(status);
}

/** Sends frames on a connection, in pieces, and takes as many replies. */
async function sendInPieces(
  door: SocketDoor | TcpDoor,
  frames: readonly Uint8Array[],
  cuts: readonly number[] = [],
): Promise<Uint8Array[]> {
  const bytes = concat(frames);
  const ends = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])];
  let at = 0;
  for (const end of ends.toSorted((a, b) => a - b)) {
    const piece = bytes.slice(at, end);
    if ("socket" in door) door.socket.send(piece);
    else await door.write(piece);
    at = end;
    if (cuts.length > 0) await scheduler.wait(0);
  }
  return await takeAll(door, frames);
}

/** Takes the replies to frames from a connection, until it ends or time is up. */
async function takeAll(
  door: SocketDoor | TcpDoor,
  frames: readonly Uint8Array[],
): Promise<Uint8Array[]> {
  const types = frames.map((frame) => frame[0]!);
  let received: Uint8Array = new Uint8Array(0);
  for (;;) {
    const { replies, rest } = takeReplies(types, received);
    if (replies.length === frames.length) {
      expect(rest).toHaveLength(0);
      return replies;
    }
    const more = await door.inbox.take(1);
    if (more.length === 0) return replies;
    received = concat([received, more, await door.inbox.take(0)]);
  }
}

type Send = (frames: readonly Uint8Array[], cuts: readonly number[]) => Promise<Uint8Array[]>;

/** Sends a whole stream over a door that nobody has used. */
const DOORS: Readonly<Record<string, Send>> = {
  RPC: async (frames) => {
    const replies = await open(freshNamespace()).exchange(concat(frames));
    return wholeReplies(frames, replies);
  },
  HTTP: async (frames) => {
    const response = await post(concat(frames), await bearerOf({ ns: freshNamespace() }));
    expect(response.status).toBe(200);
    return wholeReplies(frames, new Uint8Array(await response.arrayBuffer()));
  },
  WebSocket: async (frames, cuts) => {
    const door = await openSocket(PATH, await bearerOf({ ns: freshNamespace() }));
    const replies = await sendInPieces(door, frames, cuts);
    await door.close();
    return replies;
  },
  TCP: async (frames, cuts) => {
    await reset();
    const door = await openPort(PORT);
    const replies = await sendInPieces(door, frames, cuts);
    await door.close();
    return replies;
  },
};

function wholeReplies(frames: readonly Uint8Array[], bytes: Uint8Array): Uint8Array[] {
  const taken = takeReplies(
    frames.map((frame) => frame[0]!),
    bytes,
  );
  expect(taken.rest).toHaveLength(0);
  expect(taken.pushes).toHaveLength(0);
  return taken.replies;
}

const SLOW: RateLimitConfiguration[] = [
  { strategy: "token_bucket", burst: 5, rate: 1e-6 },
  { strategy: "leaky_bucket", burst: 3, rate: 1e-6 },
  { strategy: "gcra", burst: 4, rate: 1e-6 },
  { strategy: "fixed_window", quotas: [{ name: "a", limit: 4, windowNs: 10n ** 17n }] },
  {
    strategy: "composite",
    primary: { strategy: "fixed_window", quotas: [{ name: "a", limit: 6, windowNs: 10n ** 17n }] },
    secondary: { strategy: "token_bucket", burst: 4, rate: 1e-6 },
  },
];
const BUCKET = configurationBytes(SLOW[0]!);

/** TTLs that nobody sees the end of. */
const endless: fc.Arbitrary<Ttl> = fc.constantFrom(FOREVER, FOREVER, FOREVER, {
  unit: HOURS,
  count: 0n,
});
const requestFrame = requestArbitrary({ dialect: "7.3", valueSize: 8 })
  .filter((request) => !(request.type === "update" && request.attribute === 1))
  .map((request): Uint8Array => {
    if (request.type !== "insert" && request.type !== "set") return frameOfRequest(request);
    return frameOfRequest({ ...request, ttlType: HOURS, ttl: 1_000_000n });
  });
const frameOfRequest = (made: ModelRequest): Uint8Array => request(made);

const prefix = fc.constantFrom("", "a", "user:", "\xff");
const frameArbitrary: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 12, arbitrary: commandArbitrary(fc.constantFrom(...SLOW), endless) },
  { weight: 3, arbitrary: requestFrame },
  { weight: 1, arbitrary: key.map(stat) },
  { weight: 1, arbitrary: fc.constantFrom(LIST, INFO, U64.publish("news", "hello"), STATS) },
  {
    weight: 1,
    arbitrary: fc.tuple(prefix, fc.constantFrom(1, 2, 1000)).map(([key, max]) => scan(key, max)),
  },
  { weight: 1, arbitrary: fc.tuple(prefix, fc.nat(2)).map(([key, flags]) => remove(key, flags)) },
);

/** One of each. */
const EACH: Uint8Array[] = [
  insert("a", 5n, FOREVER),
  insert("a", 5n, FOREVER),
  read("a"),
  read("absent"),
  increment("a", 2n ** 64n - 1n, FOREVER),
  increment("b", 7n, FOREVER, { once: "id" }),
  increment("b", 7n, FOREVER, { once: "id" }),
  increment("b", 8n, FOREVER, { once: "id" }),
  change("a", 2, 6n),
  change("a", 1, 1n),
  expire("a", 0, FOREVER),
  set("text", bytesOf("value"), FOREVER),
  set("a", bytesOf("value"), FOREVER),
  compareAndSet("text", 1, bytesOf("value"), bytesOf("other"), FOREVER),
  compareAndSet("text", 0, bytesOf(""), bytesOf("other"), FOREVER),
  request({ type: "query", key: "a" }),
  request({ type: "get", key: "text" }),
  stat("a"),
  limit("limited", BUCKET, 3),
  limit("limited", BUCKET, 3),
  peek("limited", BUCKET),
  refund("limited", BUCKET, 1),
  limit("limited", BUCKET, NaN),
  scan("", 2),
  scan("", 1000, "b"),
  U64.publish("news", "hello"),
  LIST,
  INFO,
  STATS,
  purge("a"),
  purge("a"),
  read("a", { flags: 4 }),
  remove("te", 0),
  remove("", 1),
  scan("", 1000),
];

describe("every door", () => {
  it("every door answers each command with the same bytes", async () => {
    const answers: Record<string, string[]> = {};
    for (const [name, send] of Object.entries(DOORS)) {
      const replies = await send(EACH, []);
      answers[name] = replies.map((reply, i) => timeless(EACH[i]![0]!, reply));
      expect(answers[name]).toHaveLength(EACH.length);
      expect(answers[name]).toEqual(answers.RPC);
    }
    const statuses = answers.RPC!.map((reply) => reply.slice(0, 2)).join(" ");
    expect(statuses).toBe(
      // One for each: 1 success, 2 an error, 0 what 7.3 says of a message that nobody took.
      "01 01 01 01 01 01 01 02 01 01 01 01 02 01 01 01 01 01 01 01 01 01 02 01 01 00 01 1, 01 01 01 02 01 01 01",
    );
  });

  it("every door answers equal streams alike, however they are cut", async () => {
    const property = fc.asyncProperty(
      fc.array(frameArbitrary, { minLength: 1, maxLength: 40 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      async (frames, cuts) => {
        const types = frames.map((frame) => frame[0]!);
        const masked = async (send: Send): Promise<string[]> =>
          (await send(frames, cuts)).map((reply, i) => timeless(types[i]!, reply));
        const expected = await masked(DOORS.RPC!);
        for (const name of ["HTTP", "WebSocket", "TCP"]) {
          expect([name, ...(await masked(DOORS[name]!))]).toEqual([name, ...expected]);
        }
      },
    );
    await fc.assert(property, { seed, numRuns: 15 });
  });

  it.each(["WebSocket", "TCP"])("%s takes a stream byte by byte", async (name) => {
    const frames = EACH.filter((frame) => frame[0] !== INFO[0]).slice(0, 20);
    const bytes = concat(frames).length;
    const cuts = Array.from({ length: bytes }, (_, i) => i);
    const whole = await DOORS.RPC!(frames, []);
    const cut = await DOORS[name]!(frames, cuts);
    const masked = (replies: Uint8Array[]): string[] =>
      replies.map((reply, i) => timeless(frames[i]![0]!, reply));
    expect(masked(cut)).toEqual(masked(whole));
  });
});

describe("pushes", () => {
  it.each(["WebSocket", "TCP"])(
    "pushes come between the replies of a %s connection",
    async (name) => {
      const isTcp = name === "TCP";
      const namespace = isTcp ? "default" : freshNamespace();
      const door = isTcp
        ? await openPort(PORT)
        : await openSocket(PATH, await bearerOf({ ns: namespace }));
      expect(await sendInPieces(door, [subscribe("news")])).toEqual([Uint8Array.of(1)]);
      const frames = [
        increment("k", 1n, FOREVER),
        U64.publish("news", "own"),
        read("k"),
        scan("", 10),
        U64.publish("news", ""),
        INFO,
        increment("k", 1n, FOREVER),
      ];
      const types = frames.map((frame) => frame[0]!);
      const bytes = concat(frames);
      if ("socket" in door) door.socket.send(bytes);
      else await door.write(bytes);
      expect(await open(namespace).publish("news", "other's")).toBe(true);
      let received: Uint8Array = new Uint8Array(0);
      await expect
        .poll(async () => {
          received = concat([received, await door.inbox.take(0)]);
          const { replies, pushes } = takeReplies(types, received);
          return [replies.length, pushes.length];
        })
        .toEqual([frames.length, 3]);
      const { replies, pushes, places, rest } = takeReplies(types, received);
      expect(rest).toHaveLength(0);
      expect(replies.map((reply) => reply[0])).toEqual([1, 1, 1, 1, 1, 1, 1]);
      const own = pushes.map(hex).indexOf(hex(U64.push("news", "own")));
      const empty = pushes.map(hex).indexOf(hex(U64.push("news", "")));
      expect([places[own], places[empty]]).toEqual([1, 4]);
      expect(pushes.map(hex)).toContain(hex(U64.push("news", "other's")));
      await door.close();
    },
  );

  it("pushes do not come between the parts of long answers", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const inserts = Array.from({ length: 3000 }, (_, i) => insert(`key:${i}`, 1n, FOREVER));
    await stub.exchange(concat(inserts));
    const door = await openSocket(PATH, await bearerOf({ ns: namespace }));
    await sendInPieces(door, [subscribe("news")]);
    const frames = [LIST, scan("", 1000), read("key:1"), STATS, scan("key:2", 1000)];
    const publishers = Array.from({ length: 30 }, async (_, i) => {
      await scheduler.wait(i);
      await stub.publish("news", `${i}`);
    });
    const types = frames.map((frame) => frame[0]!);
    door.socket.send(concat(frames));
    let received: Uint8Array = new Uint8Array(0);
    await Promise.all(publishers);
    await expect
      .poll(async () => {
        received = concat([received, await door.inbox.take(0)]);
        const { replies, pushes } = takeReplies(types, received);
        return [replies.length, pushes.length];
      })
      .toEqual([frames.length, 30]);
    expect(takeReplies(types, received).rest).toHaveLength(0);
    await door.close();
  });
});

/** Commands by the scopes they need, each on the key "user:1". */
const NEEDS: readonly [string, ScopeName[], Uint8Array][] = [
  ["READ", ["read"], read("user:1")],
  ["INSERT", ["write"], insert("user:1", 1n, FOREVER)],
  ["INCREMENT", ["write"], increment("user:1", 1n, FOREVER)],
  ["CHANGE", ["write"], change("user:1", 1, 1n)],
  ["EXPIRE", ["write"], expire("user:1", 1, FOREVER)],
  ["PURGE", ["write"], purge("user:1")],
  ["SET", ["write"], set("user:1", bytesOf("x"), FOREVER)],
  [
    "COMPARE_AND_SET",
    ["read", "write"],
    compareAndSet("user:1", 0, bytesOf(""), bytesOf("x"), FOREVER),
  ],
  ["LIMIT", ["write"], limit("user:1", BUCKET, 1)],
  ["PEEK", ["read"], peek("user:1", BUCKET)],
  ["REFUND", ["write"], refund("user:1", BUCKET, 1)],
  ["RESERVE", ["write"], reserve("user:1", BUCKET, 1)],
  ["SCAN", ["read"], scan("", 1)],
  ["REMOVE", ["admin"], remove("", 0)],
];
const ALL: ScopeName[] = ["read", "write", "publish", "subscribe", "admin"];

describe.each(NEEDS)("%s needs the scopes %j", (name, needed, frame) => {
  const expectedText = `scope_missing: ${name} needs the scope ${needed.join(" and ")}`;

  it.each(needed)(
    "a command without the scope %s is refused alone on a connection, and with all others elsewhere",
    async (scope) => {
      const ns = freshNamespace();
      const scopes = ALL.filter((other) => other !== scope);
      const headers = await bearerOf({ ns, scopes });
      const door = await openSocket(PATH, headers);
      const [before, refused, after] = await sendInPieces(door, [WHOAMI, frame, WHOAMI]);
      expect([before![0], after![0]]).toEqual([1, 1]);
      const [reply] = commandReplies(refused!);
      expect(reply!.code).toBe("scope_missing");
      expect(new TextDecoder().decode(reply!.body)).toBe(expectedText);
      await door.close();
      await expectProblem(await post(frame, headers), 403, "scope_missing");
      expect(await refusalOf(open(ns, { scopes }).exchange(frame))).toBe(
        `${expectedText.replace(name, `${name} at byte 0`)}; nothing was applied`,
      );
    },
  );

  it("a command needs no other scopes than its own", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns, scopes: needed });
    const door = await openSocket(PATH, headers);
    expect((await sendInPieces(door, [frame]))[0]![0]).toBe(1);
    await door.close();
    expect((await post(frame, headers)).status).toBe(200);
    expect((await open(ns, { scopes: needed }).exchange(frame))[0]).toBe(1);
  });

  it("a command needs a key with a prefix of the token, if the token has prefixes", async () => {
    const ns = freshNamespace();
    const claims = { ns, keyPrefixes: ["other:", "user:"] };
    const door = await openSocket(PATH, await bearerOf(claims));
    expect(commandReplies((await sendInPieces(door, [frame]))[0]!)[0]!.code).toBe("");
    await door.close();
    const stranger = { ns, keyPrefixes: ["user:2", "User:"] };
    const isOnKey = name !== "REMOVE" && name !== "SCAN";
    const headers = await bearerOf(stranger);
    const refusing = await openSocket(PATH, headers);
    const [reply] = commandReplies((await sendInPieces(refusing, [frame]))[0]!);
    expect(reply!.code).toBe(isOnKey ? "prefix_missing" : "");
    await refusing.close();
    if (!isOnKey) return;
    await expectProblem(await post(frame, headers), 403, "prefix_missing");
    const stub = open(ns, { scopes: ALL, keyPrefixes: stranger.keyPrefixes });
    expect(await refusalOf(stub.exchange(frame))).toMatch(/^prefix_missing: /);
  });
});

describe("forbidden commands", () => {
  it("a forbidden command is refused in its place between allowed ones, whatever the shards", async () => {
    const ns = freshNamespace();
    const door = await openSocket(PATH, await bearerOf({ ns, keyPrefixes: ["a", "b"] }));
    const keys = Array.from({ length: 100 }, (_, i) => `${"abc"[i % 3]}${i}`);
    const replies = await sendInPieces(
      door,
      keys.flatMap((key) => [insert(key, 1n, FOREVER), request({ type: "query", key })]),
    );
    keys.forEach((key, i) => {
      const [reply] = commandReplies(replies[2 * i]!);
      expect(reply!.code).toBe(key.startsWith("c") ? "prefix_missing" : "");
      expect(replies[2 * i + 1]![0]).toBe(key.startsWith("c") ? 0 : 1);
    });
    await door.close();
    expect((await open(ns).list()).records).toHaveLength(67);
  });

  it("a forbidden command keeps the rest of a body from being applied", async () => {
    const ns = freshNamespace();
    const body = concat([insert("a", 1n, FOREVER), insert("b", 1n, FOREVER)]);
    const limited = { keyPrefixes: ["a"] };
    await expectProblem(
      await post(body, await bearerOf({ ns, ...limited })),
      403,
      "prefix_missing",
    );
    const stub = open(ns, limited);
    expect(await refusalOf(stub.exchange(body))).toMatch(
      /^prefix_missing: INSERT at byte 25 may only use keys /,
    );
    expect((await open(ns).list()).records).toHaveLength(0);
  });

  it("a forbidden call of its own is refused, also where the reply has no room for an error", async () => {
    const namespace = freshNamespace();
    const reader = open(namespace, { scopes: ["read"] });
    expect(await refusalOf(reader.publish("news", "x"))).toBe(
      "scope_missing: PUBLISH needs the scope publish",
    );
    expect(await refusalOf(reader.increment("a", { ttlMs: 1 }))).toBe(
      "scope_missing: INCREMENT needs the scope write",
    );
    const limited = open(namespace, { channelPrefixes: ["room:"], keyPrefixes: ["a"] });
    expect(await refusalOf(limited.publish("news", "x"))).toBe(
      "prefix_missing: PUBLISH may only use channels that begin with room:",
    );
    expect(await refusalOf(limited.query("b"))).toBe(
      "prefix_missing: READ may only use keys that begin with a",
    );
    expect(await limited.publish("room:1", "x")).toBe(false);
    const writer = open(namespace, { scopes: ["write"] });
    expect(await refusalOf(writer.info())).toBe("scope_missing: INFO needs the scope read");
  });

  it("a forbidden command is refused alone in a batch of operations", async () => {
    const stub = open(freshNamespace(), { keyPrefixes: ["a"], scopes: ["write"] });
    const outcomes = await stub.batch([
      ["increment", "a", { ttlMs: 1000 }],
      ["increment", "b", { ttlMs: 1000 }],
      ["query", "a"],
      ["publish", "news", "x"],
      ["info"],
      ["list"],
      ["increment", "a", { ttlMs: 1000 }],
    ]);
    const codes = outcomes.map((outcome) => (outcome.ok ? outcome.value : outcome.error.code));
    expect(codes).toEqual([
      1n,
      "prefix_missing",
      "scope_missing",
      "scope_missing",
      "scope_missing",
      "scope_missing",
      2n,
    ]);
  });
});

describe("limits", () => {
  const FRAME_BYTES_MAX = 1 << 20;
  const header = set("", new Uint8Array(0), FOREVER).length;
  const fits = set("", new Uint8Array(FRAME_BYTES_MAX - header), FOREVER);
  const large = set("", new Uint8Array(FRAME_BYTES_MAX - header + 1), FOREVER);

  it("the limits of a frame hold at every door", async () => {
    for (const [name, send] of Object.entries(DOORS)) {
      const [reply] = await send([fits], []);
      expect([name, hex(reply!)]).toEqual([name, "010100000001"]);
    }
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const body = concat([insert("k", 1n, FOREVER), large]);
    await expectProblem(await post(body, headers), 413, "frame_too_large");
    expect(await refusalOf(open(ns).exchange(body))).toMatch(
      /^frame_too_large: the frame at byte 25 .*nothing was applied$/,
    );
    expect(
      await refusalOf(open(ns).set("", new Uint8Array(FRAME_BYTES_MAX), { ttlMs: 1 })),
    ).toMatch(/^frame_too_large: /);
    expect((await open(ns).list()).records).toHaveLength(0);
    const door = await openSocket(PATH, headers);
    door.socket.send(body.subarray(0, 100));
    expect(await takeAll(door, [body])).toHaveLength(1);
    expect(await door.closed).toMatchObject({ code: 1009 });
    const port = await openPort(PORT);
    await port.write(body.subarray(0, 100));
    expect(await takeAll(port, [body])).toHaveLength(1);
    await port.closed;
  });

  it("the limits of a body hold over HTTP and RPC", async () => {
    const body = concat(Array.from({ length: 9 }, () => fits)).subarray(0, (8 << 20) + 1);
    const headers = await bearerOf({ ns: freshNamespace() });
    await expectProblem(await post(body, headers), 413, "body_too_large");
    expect(await refusalOf(open(freshNamespace()).exchange(body))).toMatch(/^body_too_large: /);
    const whole = concat(Array.from({ length: 8 }, () => fits));
    expect(whole).toHaveLength(8 << 20);
    expect((await post(whole, headers)).status).toBe(200);
    expect(await open(freshNamespace()).exchange(whole)).toHaveLength(8 * 6);
  });

  it("an announced size above a limit is refused before its bytes come", async () => {
    const announced = commandFrame(Command.set, "k");
    new DataView(announced.buffer).setUint32(3, 0xffffffff, true);
    const headers = await bearerOf({ ns: freshNamespace() });
    await expectProblem(await post(announced, headers), 413, "frame_too_large");
    const door = await openSocket(PATH, headers);
    door.socket.send(announced);
    expect(await door.closed).toMatchObject({ code: 1009 });
  });

  it.each([0, 10, 26, 31, 62, 63, 64, 128, 255])(
    "the unknown type %i ends a connection behind earlier replies, and refuses a body elsewhere",
    async (type) => {
      const headers = await bearerOf({ ns: freshNamespace() });
      const body = concat([increment("k", 1n, FOREVER), Uint8Array.of(type), new Uint8Array(40)]);
      await expectProblem(await post(body, headers), 400, "request_type_unknown");
      expect(await refusalOf(open(freshNamespace()).exchange(body))).toMatch(
        /^request_type_unknown: byte 25: dialect edge has no request type 0x[0-9a-f]{2}; nothing was applied$/,
      );
      const door = await openSocket(PATH, headers);
      door.socket.send(body);
      const [reply] = await takeAll(door, [body]);
      // It was not applied over HTTP: this is the first.
      expect(commandReplies(reply!)[0]!.body[0]).toBe(1);
      expect(new DataView(reply!.buffer).getBigUint64(24, true)).toBe(1n);
      expect(await door.closed).toMatchObject({ code: 1002 });
      const port = await openPort(PORT);
      await port.write(body);
      expect(await takeAll(port, [body])).toHaveLength(1);
      await port.closed;
    },
  );

  it("a body that ends inside a command is refused", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const body = concat([increment("k", 1n, FOREVER), read("k")]);
    for (let cut = 26; cut < body.length; cut++) {
      await expectProblem(await post(body.subarray(0, cut), headers), 400, "body_truncated");
    }
    expect(await refusalOf(open(freshNamespace()).exchange(body.subarray(0, 30)))).toMatch(
      /^body_truncated: the body ends in the middle of the frame that begins at byte 25; nothing was applied$/,
    );
    expect(await open(freshNamespace()).exchange(new Uint8Array(0))).toHaveLength(0);
    const response = await post(body, headers);
    const replies = commandReplies(new Uint8Array(await response.arrayBuffer()));
    expect(new DataView(replies[1]!.body.buffer).getBigUint64(19, true)).toBe(1n);
  });

  it("commands that need a connection are refused over HTTP and RPC", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const body = concat([increment("k", 1n, FOREVER), subscribe("news")]);
    await expectProblem(await post(body, headers), 400, "needs_connection");
    expect(await refusalOf(open(freshNamespace()).exchange(body))).toMatch(/^needs_connection: /);
  });

  it("a path with a size is not found, as the dialect has no size", async () => {
    const sized = await server.fetch(`http://localhost${PATH}/uint16`, {
      method: "POST",
      body: read("k"),
    });
    await expectProblem(sized, 404, "protocol_unknown");
    await expectProblem(await get(PATH), 426, "upgrade_required");
  });
});

describe("INFO", () => {
  it("INFO counts commands among all requests, and as one sum, as it has no place for each", async () => {
    const stub = open(freshNamespace());
    await stub.exchange(concat([...EACH.slice(0, 5), scan("", 1), remove("", 0)]));
    // What a door has counted may be on its way to the Directory for a moment.
    await expect
      .poll(async () => {
        const { requests, requestsByType } = await stub.info();
        const totals = Object.values(requestsByType).map(({ total }) => total);
        const infos = requestsByType.info!.total;
        return [
          requests - infos,
          requestsByType.other!.total,
          totals.reduce((sum, total) => sum + total, 0) - infos,
        ];
      })
      .toEqual([7, 7, 7]);
    expect((await stub.info()).requestsByType.info!.total).toBeGreaterThan(1);
  });
});

describe("replies over RPC", () => {
  const MEGABYTE = 1_000_000;

  it("replies of many megabytes come whole over RPC, and are refused beyond what a call carries", async () => {
    const stub = open(freshNamespace());
    const keys = Array.from({ length: 8 }, (_, i) => `large:${i}`);
    for (const [i, key] of keys.entries()) {
      await stub.set(key, new Uint8Array(MEGABYTE).fill(i), { ttlMs: 3_600_000 });
    }
    const reads = (count: number): Uint8Array =>
      concat(Array.from({ length: count }, (_, i) => read(keys[i % keys.length]!)));
    const replies = commandReplies(await stub.exchange(reads(20)));
    replies.forEach(({ body }, i) => {
      expect([body.length, body[19], body.at(-1)]).toEqual([19 + MEGABYTE, i % 8, i % 8]);
    });
    for (const count of [25, 26, 28, 30, 32, 33, 35, 40, 60]) {
      const message = await refusalOf(stub.exchange(reads(count)));
      expect(message.replace(/: .*/, "")).toBe(count > 25 ? "reply_too_large" : "");
    }
  });

  it("too many replies over RPC stop the call, and commands behind them are not executed", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const map = new InitialShards(namespace, 4, "");
    const shardOf = (key: string): number =>
      map.shardOf(Keyspace.throttr, bytesOf(key), 0, key.length);
    const neighbour = Array.from({ length: 100 }, (_, i) => `k${i}`).find(
      (key) => shardOf(key) === shardOf("large"),
    )!;
    await stub.set("large", new Uint8Array(MEGABYTE), { ttlMs: 3_600_000 });
    const reads = Array.from({ length: 40 }, () => read("large"));
    const frames = concat([...reads, insert(neighbour, 1n, FOREVER)]);
    expect(await refusalOf(stub.exchange(frames))).toMatch(/^reply_too_large: /);
    expect(await stub.query(neighbour)).toBeNull();
  });

  it("calls over RPC take bytes, and refuse other values", async () => {
    const stub = open(freshNamespace());
    const wrong = ["text", null, undefined, 5, [1, 2], new ArrayBuffer(5), { length: 1 }];
    for (const frames of wrong) {
      expect(await refusalOf(stub.exchange(frames as unknown as Uint8Array))).toMatch(
        /^frames_invalid: /,
      );
    }
  });
});
