/** What has gone wrong once: races, failures of other objects at bad times, and clients that ask for much. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, onTestFinished } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import {
  CONNECTION_HEADER,
  encodeOpenRequest,
  type OpenRequest,
} from "../../src/base/calls/open-request.ts";
import { Channel } from "../../src/objects/channel/channel.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { CHANNEL_GROUPS } from "../../src/dispatch/placement.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import {
  bytesOf,
  concat,
  hex,
  HOURS,
  LIST,
  parseFragments,
  subscribe,
  U16,
  U32,
  unsubscribe,
  WHOAMI,
  WHOAMI_REPLY_BYTES,
} from "../support/frames/index.ts";
import { openPort, openSocket, post, type Door } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf, nowS } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";
import { groupOf } from "../support/pool/groups.ts";
import { emptyBatch, InitialShards } from "../support/shards.ts";

const server = exports.default as unknown as Fetcher;
const WS = "/throttr/7.3/uint16";
const SHARDS = 4;

type HeaderFields = Record<string, string>;

let namespaces = 0;
const freshNamespace = (): string => `regressions-${namespaces++}`;

async function statusOf(door: Door, request: Uint8Array): Promise<number> {
  return (await door.exchange(request, 1))[0]!;
}

/** The object that has a channel. */
async function listen(
  channel: string,
  headers: HeaderFields,
  lastEventId: number | null = null,
): Promise<Response> {
  const since: HeaderFields = lastEventId === null ? {} : { "last-event-id": String(lastEventId) };
  return await server.fetch(`http://localhost/channels/${channel}`, {
    headers: { ...headers, ...since },
  });
}

async function publishOverHttp(
  channel: string,
  headers: HeaderFields,
  body: BodyInit,
): Promise<{ delivered: number; sequence: number | null }> {
  const url = `http://localhost/channels/${channel}`;
  const response = await server.fetch(url, { method: "POST", headers, body });
  expect(response.status).toBe(200);
  return await response.json();
}

/** Reads a stream of events for a while; what events with ids and data it had. */
async function eventsWithin(response: Response, ms: number): Promise<[number, string][]> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const end = scheduler.wait(ms).then(() => null);
  let text = "";
  for (;;) {
    const read = await Promise.race([reader.read(), end]);
    if (read === null || read.done) break;
    text += read.value;
  }
  await reader.cancel();
  return Array.from(text.matchAll(/^id: (\d+)\ndata: (.*)$/gm), ([, id, data]) => [
    Number(id),
    data!,
  ]);
}

/** Where calls of objects stop. It is polled: objects can't resolve each other's promises. */
class Barrier {
  calls = 0;
  #isOpen = false;

  async pass(): Promise<void> {
    this.calls++;
    while (!this.#isOpen) await scheduler.wait(2);
  }

  async reached(): Promise<void> {
    while (this.calls === 0) await scheduler.wait(2);
  }

  open(): void {
    this.#isOpen = true;
  }
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Until the end of the test, what is called in all objects of a class before a method. */
function before(
  { prototype }: { prototype: object },
  name: string,
  act: (...args: unknown[]) => Promise<void>,
): void {
  const methods = prototype as Record<string, Method>;
  const method = methods[name]!;
  methods[name] = async function (...args) {
    await act(...args);
    return await method.apply(this, args);
  };
  onTestFinished(() => {
    methods[name] = method;
  });
}

describe("a Hub", () => {
  it("a Hub that could not be listed once takes the next connection", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    let joins = 0;
    before(Channel, "join", async () => {
      if (joins++ === 0) throw new Error("join fails");
    });
    await expect(openSocket(WS, headers)).rejects.toThrow("hub_failed");
    const door = await openSocket(WS, headers);
    expect(await statusOf(door, WHOAMI)).toBe(1);
    await door.close();
  });

  it("a Hub keeps nothing of a connection that closed within a run of SUBSCRIBE", async () => {
    const ns = freshNamespace();
    const door = await openSocket(WS, await bearerOf({ ns }));
    const held = new Barrier();
    before(Channel, "change", async () => await held.pass());
    // So many replies are sent before all SUBSCRIBEs have been read.
    const whoamis = new Uint8Array(4000).fill(WHOAMI[0]!);
    const names = Array.from({ length: 50 }, (_, i) => `left:${i}`);
    door.socket.send(concat([subscribe("first"), whoamis, ...names.map(subscribe)]));
    await held.reached();
    await door.close();
    const sizeOf = async (): Promise<number> =>
      await runInDurableObject(hubStub(0, ns), ({ roster }) => roster.size);
    await expect.poll(sizeOf).toBe(0);
    held.open();
    await scheduler.wait(200);
    await runInDurableObject(hubStub(0, ns), ({ roster }) => {
      expect(roster.channels()).toEqual([]);
      expect(roster.totals().subscriptions).toBe(0);
    });
    for (const channel of ["first", "left:0"]) {
      expect(await groupOf(ns, channel).hubsOf(channel)).toEqual([]);
    }
  });

  it("a Hub refuses a protocol of a later release, and keeps no socket of it", async () => {
    const ns = freshNamespace();
    const opening: OpenRequest = {
      protocolCode: 250,
      transport: "websocket",
      access: { ...OPEN_ACCESS, namespace: ns },
      subprotocol: null,
      ip: "",
      port: 0,
      channel: null,
      after: null,
    };
    const headers = { upgrade: "websocket", [CONNECTION_HEADER]: encodeOpenRequest(opening) };
    const hub = hubStub(0, ns);
    await expect(hub.fetch("https://hub/", { headers })).rejects.toThrow("protocol 250");
    await runInDurableObject(hub, (_, ctx) => expect(ctx.getWebSockets()).toEqual([]));
    await expect.poll(() => env.DIRECTORY.getByName(ns).hubs()).toEqual([]);
  });

  it("a Hub wakes up that has a socket without a connection, and ends it", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const lost = await openSocket(WS, headers);
    // Until tallies are stored an object is not evicted, and an attachment may be written again.
    await scheduler.wait(1100);
    await runInDurableObject(hubStub(0, ns), (_, ctx) => {
      const [socket] = ctx.getWebSockets();
      socket!.serializeAttachment(null);
    });
    const door = await openSocket(WS, headers);
    await scheduler.wait(1100);
    await evictDurableObject(hubStub(0, ns));
    expect(await statusOf(door, WHOAMI)).toBe(1);
    expect(await lost.closed).toMatchObject({ code: 1011 });
    const sockets = async (): Promise<number> =>
      await runInDurableObject(hubStub(0, ns), (_, ctx) => ctx.getWebSockets().length);
    await expect.poll(sockets).toBe(1);
    await door.close();
    await expect.poll(() => env.DIRECTORY.getByName(ns).hubs()).toEqual([]);
  });

  it("a Hub keeps no sockets of refused listeners", async () => {
    await withSettings({ HUB_SUBSCRIPTIONS_MAX: 0 }, async () => {
      const ns = freshNamespace();
      const response = await listen("c", await bearerOf({ ns }));
      expect(response.status).toBe(503);
      for (const index of [0, 1, 2]) {
        await runInDurableObject(hubStub(index, ns), ({ roster }, ctx) => {
          expect(ctx.getWebSockets()).toEqual([]);
          expect(roster.size).toBe(0);
        });
      }
    });
  });

  it("a Hub ends each connection when its token expires, in any order", async () => {
    const ns = freshNamespace();
    const [short, long] = await Promise.all([
      openSocket(WS, await bearerOf({ ns, exp: nowS() + 2 })),
      openSocket(WS, await bearerOf({ ns, exp: nowS() + 3600 })),
    ]);
    const late = scheduler.wait(4000).then(() => "still open");
    expect(await Promise.race([short.closed, late])).toMatchObject({
      code: 1008,
      reason: expect.stringContaining("token_expired") as string,
    });
    expect(await statusOf(long, WHOAMI)).toBe(1);
    await long.close();
  });

  it("a TCP subscriber that has read everything gets a push of any size, though its bridge owes a report", async () => {
    await withSettings({ PUSH_BYTES_MAX: 262_144 }, async () => {
      const door = await openPort(9004);
      expect(await statusOf(door, subscribe("large"))).toBe(1);
      const payload = new Uint8Array(300_000).fill(65);
      expect((await publishOverHttp("large", {}, payload)).delivered).toBe(1);
      const push = U32.push("large", payload);
      expect(await door.inbox.take(push.length)).toEqual(push);
      await door.close();
    });
  });

  it("a Hub remembers over hibernation what a listener has left unread", async () => {
    await withSettings({ PUSH_BYTES_MAX: 262_144 }, async () => {
      const ns = freshNamespace();
      const headers = await bearerOf({ ns });
      const unread = await listen("c", headers);
      const payload = new Uint8Array(200_000).fill(65);
      const delivered: number[] = [];
      for (let i = 0; i < 3; i++) {
        if (i > 0) await evictDurableObject(hubStub(0, ns));
        delivered.push((await publishOverHttp("c", headers, payload)).delivered);
      }
      expect(delivered[0]).toBe(1);
      expect(delivered[2]).toBe(0);
      await unread.body!.cancel();
    });
  });
});

describe("requests over HTTP", () => {
  it.each(["/channels/x", WS])("HEAD requests to %s open no connection", async (path) => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const response = await server.fetch(`http://localhost${path}`, { method: "HEAD", headers });
    expect(response.status).toBe(405);
    expect(await env.DIRECTORY.getByName(ns).hubs()).toEqual([]);
  });

  it("an escape that hides the route publishes nothing", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const door = await openSocket(WS, headers);
    // Where the name begins in the path, with the escape and without it.
    const names = ["x", "ls/x"];
    expect(hex(await door.exchange(concat(names.map(subscribe)), 2))).toBe("0101");
    const url = "http://localhost/%63hannels/x";
    const response = await server.fetch(url, { method: "POST", headers, body: "m" });
    expect(response.status).toBe(404);
    expect(hex(await door.inbox.take(0))).toBe("");
    await door.close();
  });

  it("an HTTP request may claim an address of any length", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const door = await openSocket(WS, { ...headers, "cf-connecting-ip": "1".repeat(17_000) });
    expect((await door.exchange(WHOAMI, WHOAMI_REPLY_BYTES)).length).toBe(WHOAMI_REPLY_BYTES);
    await evictDurableObject(hubStub(0, ns));
    expect(await statusOf(door, subscribe("c"))).toBe(1);
    await door.close();
  });
});

describe("one write", () => {
  it("one write of PUBLISH to many channels is one call to each of their groups", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const door = await openSocket(WS, headers);
    let calls = 0;
    before(Channel, "publishAll", async () => void calls++);
    const count = 1000;
    const frames = Array.from({ length: count }, (_, i) => U16.publish(`many:${i}`, "m"));
    door.socket.send(concat(frames));
    expect(hex(await door.inbox.take(count))).toBe("00".repeat(count));
    expect(calls).toBe(CHANNEL_GROUPS);
    await door.close();
  });

  it("one write of SUBSCRIBE to many channels is one call to each of their groups", async () => {
    const ns = freshNamespace();
    const door = await openSocket(WS, await bearerOf({ ns }));
    let calls = 0;
    before(Channel, "change", async () => void calls++);
    const names = Array.from({ length: 400 }, (_, i) => `many:${i}`);
    expect(hex(await door.exchange(concat(names.map(subscribe)), 400))).toBe("01".repeat(400));
    expect(calls).toBe(CHANNEL_GROUPS);
    const one = U16.publish("many:399", "m");
    expect(hex(await door.exchange(one, 14))).toBe("19080100" + hex(bytesOf("many:399m")) + "01");
    await door.close();
    const hubs = async (): Promise<string[]> =>
      (await Promise.all(names.map((name) => groupOf(ns, name).hubsOf(name)))).flat();
    await expect.poll(hubs).toEqual([]);
    expect(calls).toBe(2 * CHANNEL_GROUPS);
  });

  it("one write of many SUBSCRIBEs and UNSUBSCRIBEs tells the channel the last of them", async () => {
    const ns = freshNamespace();
    const door = await openSocket(WS, await bearerOf({ ns }));
    let calls = 0;
    before(Channel, "change", async () => void calls++);
    const changes = Array.from({ length: 1000 }, () => [subscribe("x"), unsubscribe("x")]);
    expect(hex(await door.exchange(concat(changes.flat()), 2000))).toBe("01".repeat(2000));
    expect(calls).toBeLessThanOrEqual(6);
    expect(await groupOf(ns, "x").hubsOf("x")).toEqual([]);
    await door.close();
  });
});

describe("a shard that is late", () => {
  it("a shard that serves calls of several seconds in one moment, as after a pause of the machine, does not restart", async () => {
    const name = freshNamespace();
    const batch = emptyBatch(new InitialShards(name, SHARDS, "").placement);
    const apply = async (agoMs: number): Promise<Uint8Array> =>
      await shardStub(0, name).apply(batch, Date.now() - agoMs);
    await apply(0);
    const startedAtMs = async (): Promise<number> => {
      const { placement } = new InitialShards(name, SHARDS, "");
      return (await shardStub(0, name).summary(placement)).startedAtMs;
    };
    const before = await startedAtMs();
    for (let i = 0; i < 20; i++) await Promise.all([5000, 2600, 200].map(apply));
    expect(await startedAtMs()).toBe(before);
  });
});

describe("subscribers", () => {
  it("subscribers go on receiving when another's SUBSCRIBE fails late", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const [leaver, stayer, publisher] = [
      await openSocket(WS, headers),
      await openSocket(WS, headers),
      await openSocket(WS, headers),
    ];
    const joining = new Barrier();
    before(Channel, "change", async () => {
      if (joining.calls > 0) return;
      await joining.pass();
      throw new Error("join fails");
    });
    leaver.socket.send(concat([subscribe("x"), unsubscribe("x")]));
    await joining.reached();
    stayer.socket.send(subscribe("x"));
    await scheduler.wait(50);
    joining.open();
    expect(hex(await stayer.inbox.take(1))).toBe("01");
    for (const text of ["a", "b", "c"])
      expect(await statusOf(publisher, U16.publish("x", text))).toBe(1);
    const pushed = ["a", "b", "c"].map((text) => "1901010078" + hex(bytesOf(text))).join("");
    expect(hex(await stayer.inbox.take(pushed.length / 2))).toBe(pushed);
    for (const door of [leaver, stayer, publisher]) await door.close();
  });

  it("subscribers that read get all messages that are published at once", async () => {
    await withSettings({ PUSH_BYTES_MAX: 64 << 20 }, async () => {
      const headers = await bearerOf({ ns: freshNamespace() });
      const door = await openSocket(WS.replace("16", "32"), headers);
      expect(await statusOf(door, subscribe("big"))).toBe(1);
      const listener = await listen("big", headers);
      const reading = listener.body!.pipeTo(new WritableStream()).catch(() => {});
      const payload = new Uint8Array(1_000_000).fill(65);
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => publishOverHttp("big", headers, payload)),
      );
      expect(answers.map(({ delivered }) => delivered)).toEqual(answers.map(() => 2));
      const pushBytes = 30 * (6 + "big".length + payload.length);
      expect((await door.inbox.take(pushBytes)).length).toBe(pushBytes);
      await door.close();
      void reading;
    });
  });

  it("subscribers are counted again after a delivery that was slow, and failed", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const [door, publisher] = [await openSocket(WS, headers), await openSocket(WS, headers)];
    expect(await statusOf(door, subscribe("x"))).toBe(1);
    const delivery = new Barrier();
    before(Hub, "deliverAll", async () => {
      if (delivery.calls > 0) return;
      await delivery.pass();
      throw new Error("deliver fails");
    });
    expect(await statusOf(publisher, U16.publish("x", "a"))).toBe(0);
    delivery.open();
    await scheduler.wait(100);
    expect(await statusOf(publisher, U16.publish("x", "b"))).toBe(1);
    expect(hex(await door.inbox.take(6))).toBe("190101007862");
    for (const open of [door, publisher]) await open.close();
  });
});

describe("numbered messages", () => {
  it("a listener that comes back during a delivery gets each message once", async () => {
    await withSettings({ REPLAY_MESSAGES_MAX: 100 }, async () => {
      const ns = freshNamespace();
      const headers = await bearerOf({ ns });
      const other = eventsWithin(await listen("c", headers), 1000);
      const delivery = new Barrier();
      before(Hub, "deliverAll", async () => {
        if (delivery.calls === 0) await delivery.pass();
      });
      const texts = ["one", "two", "three"];
      const published = texts.map((text) => publishOverHttp("c", headers, text));
      await delivery.reached();
      await scheduler.wait(50);
      const returning = eventsWithin(await listen("c", headers, 0), 500);
      await scheduler.wait(50);
      delivery.open();
      const sequences = (await Promise.all(published)).map(({ sequence }) => sequence!);
      const inOrder = sequences
        .map((sequence, i): [number, string] => [sequence, texts[i]!])
        .toSorted(([a], [b]) => a - b);
      expect(await returning).toEqual(inOrder);
      expect(await other).toEqual(inOrder);
    });
  });

  it("messages are replayed under their numbers after the channel has died", async () => {
    await withSettings({ REPLAY_MESSAGES_MAX: 100 }, async () => {
      const ns = freshNamespace();
      const headers = await bearerOf({ ns });
      await eventsWithin(await listen("c", headers), 0);
      const sent: [number, string][] = [];
      for (const text of ["a", "b", "c", "d", "e"]) {
        sent.push([(await publishOverHttp("c", headers, text)).sequence!, text]);
      }
      const stub = groupOf(ns, "c");
      await expect.poll(() => stub.hubsOf("c")).toEqual([]);
      const dead = runInDurableObject(stub, (_, ctx) => ctx.abort("died"));
      await expect(dead).rejects.toThrow("died");
      const after = sent[1]![0];
      expect(await eventsWithin(await listen("c", headers, after), 300)).toEqual(sent.slice(2));
    });
  });

  it("numbers go on after the daily alarm of a channel that has been used since", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const reading = eventsWithin(await listen("c", headers), 100);
    const sequences: number[] = [];
    for (const text of ["a", "b", "c"]) {
      sequences.push((await publishOverHttp("c", headers, text)).sequence!);
    }
    expect((await reading).map(([id]) => id)).toEqual(sequences);
    const stub = groupOf(ns, "c");
    await expect.poll(() => stub.hubsOf("c")).toEqual([]);
    await evictDurableObject(stub);
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    expect((await publishOverHttp("c", headers, "d")).sequence).toBe(sequences[2]! + 1);
  });
});

describe("LIST", () => {
  const SHAPE = { hasStatus: true, rowBytes: 13, hasNames: true };
  const REQUESTS_MAX = 20_000;

  const keysOf = (prefix: string, count: number, bytes: number): string[] =>
    Array.from({ length: count }, (_, i) => prefix + String(i).padStart(bytes - 1, "0"));

  async function forEach(
    keys: readonly string[],
    type: "insert" | "purge",
    headers: HeaderFields,
  ): Promise<void> {
    for (let at = 0; at < keys.length; at += REQUESTS_MAX) {
      const frames = keys
        .slice(at, at + REQUESTS_MAX)
        .map((key) => (type === "purge" ? U16.purge(key) : U16.insert(key, 5, HOURS, 2n)));
      expect((await post("7.3", "uint16", concat(frames), headers)).status).toBe(200);
    }
  }

  /** The keys of an answer; null when it has failed, or ends before its end. */
  async function keysIn(
    response: Response,
    afterFirstChunk: () => Promise<void> = async () => {},
  ): Promise<string[] | null> {
    if (!response.ok) return null;
    const reader = response.body!.getReader();
    const chunks: Uint8Array[] = [];
    for (;;) {
      const read = await reader.read().catch(() => null);
      if (read === null) return null;
      if (read.done) break;
      chunks.push(read.value);
      if (chunks.length === 1) await afterFirstChunk();
    }
    try {
      const fragments = parseFragments(concat(chunks), SHAPE);
      return fragments.flatMap(({ rows }) => rows.map(({ name }) => name));
    } catch {
      return null;
    }
  }

  it("LIST of many records has all of them when their shards restart meanwhile", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const kept = keysOf("k", 30_000, 41);
    await forEach(kept, "insert", headers);
    const response = await post("7.3", "uint16", LIST, headers);
    const keys = await keysIn(response, async () => {
      for (let i = 0; i < SHARDS; i++) await evictDurableObject(shardStub(i, ns));
    });
    expect(keys?.toSorted()).toEqual(kept.toSorted());
  });

  /** Things that happen while records are sent, each before the so many-th page is asked for. */
  type Meanwhile = readonly (readonly [page: number, type: "insert" | "purge", count: number])[];

  it.each<[string, string[], string, Meanwhile]>([
    ["many come before they are sent", keysOf("z", 2000, 250), "a", [[1, "insert", 12_000]]],
    ["they become too many to be ordered", keysOf("k", 16_000, 41), "n", [[1, "insert", 70_000]]],
    [
      "they are too many to be ordered for a while",
      keysOf("k", 16_000, 41),
      "n",
      [
        [SHARDS + 1, "insert", 60_000],
        [SHARDS + 9, "purge", 60_000],
      ],
    ],
  ])(
    "LIST of many records has all that stay once, or fails, when %s",
    async (_, kept, prefix, meanwhile) => {
      const headers = await bearerOf({ ns: freshNamespace() });
      await forEach(kept, "insert", headers);
      const stops = meanwhile.map(([page, ...what]) => ({ page, what, barrier: new Barrier() }));
      let firstPages = 0;
      let pages = 0;
      before(Shard, "page", async (_placement, _query, after) => {
        // All pages are asked for twice: to be counted, then to be sent.
        if (after === null) firstPages++;
        if (firstPages > SHARDS) pages++;
        const asked = pages;
        for (const { page, barrier } of stops) if (asked >= page) await barrier.pass();
      });
      const answer = post("7.3", "uint16", LIST, headers).then((response) => keysIn(response));
      for (const { what, barrier } of stops) {
        await Promise.race([barrier.reached(), answer]);
        const [type, count] = what;
        await forEach(keysOf(prefix, count, 7), type, headers);
        barrier.open();
      }
      const keys = await answer;
      if (keys === null) return;
      const stayed = keys.filter((key) => !key.startsWith(prefix));
      expect(stayed.toSorted()).toEqual(kept.toSorted());
      expect(new Set(keys).size).toBe(keys.length);
    },
  );
});
