/** What subscribers and callers can't make grow: subscriptions, unread pushes, runs of a body, Hubs. */
import { evictAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import {
  CHANNELS,
  concat,
  connectionRow,
  CONNECTIONS,
  hex,
  INFO,
  LIST,
  stat,
  STATS,
  subscribe,
  subscribersOf,
  U16,
  U32,
  unsubscribe,
  WHOAMI,
} from "../support/frames/index.ts";
import { connectTcp, openPort, openSocket, post, type Door } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const PATH = "/throttr/7.3/uint16";

let namespaces = 0;
const freshNamespace = (): string => `limits-${namespaces++}`;

async function statusOf(door: Door, request: Uint8Array): Promise<number> {
  return (await door.exchange(request, 1))[0]!;
}

describe("subscriptions of a connection", () => {
  it.each([
    ["without prefixes", [], 8, 380],
    ["with long names", [], 255, 48],
    [
      "with as many prefixes as a token has",
      ["c", ...Array.from({ length: 15 }, () => "p".repeat(255))],
      8,
      140,
    ],
  ])(
    "subscriptions of a connection %s fit into what outlives hibernation",
    async (_, prefixes, nameBytes, atLeast) => {
      const ns = freshNamespace();
      const claims = { ns, keyPrefixes: prefixes, channelPrefixes: prefixes };
      const door = await openSocket(PATH, await bearerOf(claims));
      const names = Array.from({ length: 500 }, (_name, i) => `c${i}`.padEnd(nameBytes, "-"));
      const statuses = await door.exchange(concat(names.map(subscribe)), names.length);
      const taken = statuses.indexOf(0);
      expect(taken).toBeGreaterThanOrEqual(atLeast);
      expect(statuses.subarray(taken).every((status) => status === 0)).toBe(true);
      // The bytes of an unfinished frame must fit beside them.
      door.socket.send(U16.set("c", new Uint8Array(1023)).subarray(0, 8 + 1000));
      await scheduler.wait(20);
      await evictAllDurableObjects();
      door.socket.send(new Uint8Array(23));
      expect((await door.inbox.take(1))[0]).toBe(1);
      const last = names[taken - 1]!;
      expect(await statusOf(door, unsubscribe(names[taken]!))).toBe(0);
      expect(await statusOf(door, unsubscribe(last))).toBe(1);
      expect(await statusOf(door, subscribe(last))).toBe(1);
      await door.close();
    },
  );

  it("subscriptions of a Hub are limited", async () => {
    await withSettings({ HUB_SUBSCRIPTIONS_MAX: 3 }, async () => {
      const headers = await bearerOf({ ns: freshNamespace() });
      const [a, b] = [await openSocket(PATH, headers), await openSocket(PATH, headers)];
      const many = concat(["1", "2", "3", "4"].map(subscribe));
      expect(hex(await a.exchange(many, 4))).toBe("01010100");
      expect(await statusOf(b, subscribe("1"))).toBe(0);
      expect(await statusOf(a, unsubscribe("3"))).toBe(1);
      expect(await statusOf(b, subscribe("1"))).toBe(1);
      await a.close();
      await expect.poll(() => b.exchange(many, 4).then(hex)).toBe("01010100");
      await b.close();
    });
  });
});

describe("a subscriber with unread pushes", () => {
  it("a WebSocket subscriber with too many unread pushes is closed unless it sends pings", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const [silent, heard, publisher] = [
      await openSocket(PATH.replace("16", "32"), headers),
      await openSocket(PATH.replace("16", "32"), headers),
      await openSocket(PATH.replace("16", "32"), headers),
    ];
    await silent.exchange(subscribe("c"), 1);
    await heard.exchange(subscribe("c"), 1);
    const message = U32.publish("c", new Uint8Array(1_000_000));
    for (let i = 0; i < 9; i++) {
      expect(await statusOf(publisher, message)).toBe(1);
      heard.socket.send("ping");
      await scheduler.wait(5);
    }
    expect(await silent.closed).toMatchObject({
      code: 1013,
      reason: "push_bytes: more than 8388608 bytes of pushes were left unread",
    });
    expect((await heard.inbox.take(9 * 1_000_007)).length).toBe(9 * 1_000_007);
    await heard.close();
    await publisher.close();
  });

  it("a TCP subscriber with too many unread pushes is closed, and the others are served", async () => {
    const unread = connectTcp(9004);
    const writer = (unread.writable as WritableStream<Uint8Array>).getWriter();
    await writer.write(subscribe("fire"));
    const [reader, publisher] = [await openPort(9004), await openPort(9004)];
    await reader.exchange(subscribe("fire"), 1);
    const message = U32.publish("fire", new Uint8Array(1_000_000));
    const subscribers = async (): Promise<number> => {
      const door = await openPort(9004);
      const count = (await door.exchange(subscribersOf("fire"), 9))[1]!;
      await door.close();
      return count;
    };
    await expect.poll(subscribers).toBe(2);
    for (let i = 0; i < 12; i++) {
      expect(await statusOf(publisher, message)).toBe(1);
      expect((await reader.inbox.take(1_000_010)).length).toBe(1_000_010);
    }
    expect(await subscribers()).toBe(1);
    await reader.close();
    await publisher.close();
    await unread.close();
  });
});

describe("a body", () => {
  it("a body may have 500 runs of requests of one kind, and no more", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const pair = concat([U16.query("k"), U16.publish("c", "")]);
    const fine = await post(
      "7.3",
      "uint16",
      concat(Array.from({ length: 250 }, () => pair)),
      headers,
    );
    expect(hex(new Uint8Array(await fine.arrayBuffer()))).toBe("00".repeat(500));
    const body = concat(Array.from({ length: 251 }, () => pair));
    const refused = await post("7.3", "uint16", body, headers);
    expect(await refused.json()).toMatchObject({ status: 413, code: "runs_max" });
    // Each request on the namespace is a run, though nothing changes between two of them.
    const infos = await post("7.3", "uint16", new Uint8Array(501).fill(0x08), headers);
    expect(await infos.text()).toContain("each request on the namespace is one");
  });

  it("a body with a request that needs a connection is not applied at all", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const response = await post("7.3", "uint16", concat([U16.insert("a", 5), WHOAMI]), headers);
    expect(await response.json()).toMatchObject({
      status: 400,
      code: "needs_connection",
      detail: expect.stringContaining("WHOAMI at byte 8") as string,
    });
    const query = await post("7.3", "uint16", U16.query("a"), headers);
    expect(hex(new Uint8Array(await query.arrayBuffer()))).toBe("00");
  });
});

describe("rights", () => {
  it("a refused request without a status closes the connection", async () => {
    const headers = await bearerOf({ ns: freshNamespace(), scopes: ["subscribe"] });
    const door = await openSocket("/throttr/7.1/uint16", headers);
    door.socket.send(concat([subscribe("c"), LIST]));
    expect(hex(await door.inbox.take(1))).toBe("01");
    expect(await door.closed).toMatchObject({
      code: 1008,
      reason: "scope_missing: LIST needs the scope read",
    });
  });

  it.each([
    ["subscribe", subscribe("c")],
    ["subscribe", unsubscribe("*")],
    ["publish", U16.publish("c", "")],
    ["read", LIST],
    ["read", INFO],
    ["read", STATS],
    ["read", stat("a")],
    ["admin", CONNECTIONS],
    ["admin", connectionRow(new Uint8Array(16))],
    ["admin", CHANNELS],
    ["admin", subscribersOf("*")],
  ] as const)("without %s a request is answered 00", async (scope, request) => {
    const all = ["read", "write", "publish", "subscribe", "admin"] as const;
    const scopes = all.filter((name) => name !== scope);
    const door = await openSocket(PATH, await bearerOf({ ns: freshNamespace(), scopes }));
    expect(hex(await door.exchange(concat([request, WHOAMI]), 18)).slice(0, 4)).toBe("0001");
    await door.close();
  });

  it("without subscribe no message is pushed, neither to everybody nor to the connection itself", async () => {
    const ns = freshNamespace();
    const door = await openSocket(PATH, await bearerOf({ ns, scopes: ["publish"] }));
    const id = hex((await door.exchange(WHOAMI, 17)).subarray(1));
    expect(hex(await door.exchange(U16.publish("*", ""), 1))).toBe("00");
    const direct = U16.publish(id, "");
    expect(hex(await door.exchange(direct, 1))).toBe("00");
    await door.close();
  });

  it("prefixes of channels bind SUBSCRIBE, PUBLISH and messages to everybody", async () => {
    const ns = freshNamespace();
    const door = await openSocket(PATH, await bearerOf({ ns, channelPrefixes: ["room:"] }));
    const id = hex((await door.exchange(WHOAMI, 17)).subarray(1));
    expect(hex(await door.exchange(concat(["room:1", "other"].map(subscribe)), 2))).toBe("0100");
    expect(hex(await door.exchange(U16.publish("other", ""), 1))).toBe("00");
    const free = await openSocket(PATH, await bearerOf({ ns }));
    expect((await free.exchange(U16.publish("*", ""), 6)).length).toBe(6);
    const direct = U16.publish(id, "");
    expect(hex(await free.exchange(direct, 1))).toBe("01");
    // What was meant for everybody has not come; what was meant for this connection has.
    expect(hex(await door.inbox.take(4))).toBe(hex(U16.push(id, "")).slice(0, 8));
    await door.close();
    await free.close();
  });
});

describe("Hubs", () => {
  const openFrom = async (colo: string, headers: Record<string, string>): Promise<WebSocket> => {
    const request = new Request(`http://localhost${PATH}`, {
      headers: { upgrade: "websocket", ...headers },
      cf: { colo },
    } as RequestInit);
    const response = await (exports.default as unknown as Fetcher).fetch(request);
    response.webSocket!.accept();
    return response.webSocket!;
  };

  it("Hubs are spread over the locations of clients, and filled one after the other", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const sockets = [await openFrom("FRA", headers)];
    for (let i = 0; i < 21; i++) sockets.push(await openFrom("LHR", headers));
    const directory = env.DIRECTORY.getByName(ns);
    expect((await directory.hubs()).toSorted()).toEqual([
      `${ns}/FRA/0`,
      `${ns}/LHR/0`,
      `${ns}/LHR/1`,
    ]);
    const answer = await post("7.3", "uint16", CONNECTIONS, headers);
    const fragments = Math.ceil(22 / 8);
    expect((await answer.arrayBuffer()).byteLength).toBe(9 + fragments * 16 + 22 * 237);
    for (const socket of sockets) socket.close(1000);
    await expect.poll(() => directory.hubs()).toEqual([]);
  });

  it("Hubs that have died are forgotten when the namespace is asked next", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    await openFrom("CDG", headers);
    const hub = env.HUB.getByName(`${ns}/CDG/0`);
    await expect(runInDurableObject(hub, (_, ctx) => ctx.abort("died"))).rejects.toThrow("died");
    const directory = env.DIRECTORY.getByName(ns);
    expect(await directory.hubs()).toEqual([`${ns}/CDG/0`]);
    const info = new Uint8Array(await (await post("7.3", "uint16", INFO, headers)).arrayBuffer());
    expect(info[1 + 8 * 51]).toBe(0);
    expect(await directory.hubs()).toEqual([]);
  });

  it("ids of connections name their Hubs, and look random", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const door = await openSocket(PATH, headers);
        return (await door.exchange(WHOAMI, 17)).subarray(1);
      }),
    );
    expect(new Set(ids.map((id) => hex(id.subarray(13)))).size).toBe(20);
    for (const id of ids) {
      expect(hex(id)).toMatch(/^.{12}4.{3}[89ab].{15}$/);
      const row = await post("7.3", "uint16", connectionRow(id), headers);
      expect((await row.arrayBuffer()).byteLength).toBe(238);
    }
    expect(await runInDurableObject(hubStub(0, ns), (instance) => instance.roster.size)).toBe(20);
  });
});
