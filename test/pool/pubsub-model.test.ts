/** Publish and subscribe over many connections in several Hubs: what arrives, where, and in which order. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import fc from "fast-check";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { Channel } from "../../src/objects/channel/channel.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import {
  concat,
  frameOf,
  LIST,
  parseFragments,
  subscribe,
  U32,
  unsubscribe,
  WHOAMI,
} from "../support/frames/index.ts";
import type { ModelProtocol } from "../support/models/requests.ts";
import { connectTcp, post } from "../support/pool/doors.ts";
import {
  askChannels,
  findPush,
  newMessage,
  numberOf,
  Peer,
  publishBody,
  type Message,
  type PeerKind,
} from "../support/pool/peers.ts";
import {
  Actor,
  expectSettled,
  posts,
  runEvictions,
  runPosts,
  script,
} from "../support/pool/pubsub-actors.ts";
import { PubSubRecord } from "../support/pool/pubsub-record.ts";
import { command, Sequence } from "../support/pool/pubsub-sequence.ts";
import {
  channelStub,
  evicted,
  evictOne,
  expectNobody,
  hubAt,
  hubsOf,
  kind,
  SLOTS,
  withSlots,
} from "../support/pool/pubsub-slots.ts";

const seed = inject("seed");

/** Tallies of connections are stored after so long: until then an object is not evicted. */
const STORE_DELAY_MS = 1000;

beforeEach(() => {
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms, options) => {
    await wait(ms === STORE_DELAY_MS ? 2 : ms, options);
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

describe("requests one after the other", () => {
  it("each message reaches exactly the subscribers, with requests one after the other", async () => {
    const property = fc.asyncProperty(
      fc.array(kind, { minLength: 2, maxLength: SLOTS }),
      fc.array(command, { minLength: 1, maxLength: 40 }),
      async (kinds, commands) => {
        await withSlots(async (slots) => {
          const sequence = new Sequence(slots);
          for (const [slot, kind] of kinds.entries()) await sequence.open(slot, kind);
          for (const command of commands) await sequence.execute(command);
          await sequence.look();
          await slots.closeAll();
          await expectNobody(slots.used);
        });
      },
    );
    await fc.assert(property, { seed, numRuns: 25 });
  });
});

/** Puts something around all calls of a method. */
function wrap(
  prototype: object,
  method: string,
  around: (call: () => unknown) => Promise<unknown>,
): void {
  const methods = prototype as Record<string, (...parameters: unknown[]) => unknown>;
  const original = methods[method]!;
  vi.spyOn(methods, method).mockImplementation(function (this: unknown, ...parameters: unknown[]) {
    return around(() => original.apply(this, parameters));
  });
}

describe("requests under way at once", () => {
  const DELAY_MS_MAX = 3;
  let delaysMs: readonly number[] = [];

  /** Makes calls between objects, and what they return, take a while. */
  function delayCalls(): void {
    let delays = 0;
    const delay = async (): Promise<void> => {
      const ms = delaysMs[delays++ % delaysMs.length] ?? 0;
      if (ms > 0) await scheduler.wait(ms);
    };
    const around = async (call: () => unknown): Promise<unknown> => {
      await delay();
      const result = call();
      await delay();
      return result;
    };
    for (const method of ["join", "leave", "change"]) wrap(Channel.prototype, method, around);
    for (const method of ["deliverAll", "deliverToOwners"]) wrap(Hub.prototype, method, around);
  }

  it("each message reaches its subscribers once and in order, and no other, with requests at once", async () => {
    delayCalls();
    const property = fc.asyncProperty(
      fc.array(script, { minLength: 2, maxLength: SLOTS }),
      fc.array(posts, { maxLength: 2 }),
      fc.array(evicted, { maxLength: 6 }),
      fc.nat(),
      async (scripts, publishers, evictions, delaySeed) => {
        await withSlots(async (slots) => {
          delaysMs = fc.sample(fc.nat(DELAY_MS_MAX), { seed: delaySeed, numRuns: 100 });
          const record = new PubSubRecord();
          const actors = scripts.map((_, slot) => new Actor(slots, slot, record));
          for (const [i, { kind }] of scripts.entries()) await actors[i]!.open(kind);
          await Promise.all([
            ...scripts.map(({ steps }, i) => actors[i]!.run(steps)),
            ...publishers.map((all) => runPosts(all, slots, record)),
            runEvictions(evictions, slots),
          ]);
          for (const { peer } of actors) await peer.catchUp();
          expect(record.check()).toEqual([]);
          await expectSettled(slots, actors);
          await slots.closeAll();
          await expectNobody(slots.used);
        });
      },
    );
    await fc.assert(property, { seed, numRuns: 30 });
  });
});

const NEAR: PeerKind = {
  transport: "websocket",
  dialect: "7.3",
  valueSize: 4,
  location: "XXX",
};
const FAR: PeerKind = { ...NEAR, location: "FRA" };
const OLD: PeerKind = { ...FAR, dialect: "7.1" };
const TCP: PeerKind = { ...NEAR, transport: "tcp" };

const numbersOf = ({ received }: Peer): number[] => received.map(({ number }) => number);

/** Publishes a short message over HTTP; returns its number. */
async function publishTo(channel: string, status: number): Promise<number> {
  const message = newMessage(channel, 12);
  expect(await publishBody([message])).toEqual([status]);
  return message.number;
}

/** Ends an object as a fault would: what it had in memory is lost, its sockets are closed. */
async function abort(stub: DurableObjectStub): Promise<void> {
  const aborted = runInDurableObject(stub, (_, state) => state.abort("fault"));
  await expect(aborted).rejects.toThrow("fault");
}

describe.each([
  ["WebSocket", FAR],
  ["WebSocket in 7.1", OLD],
  ["TCP", TCP],
])("a subscriber over %s", (_, kind) => {
  it("a hibernated subscriber is pushed to, and keeps its id", async () => {
    // With tallies, which are stored before long, all else would be stored, too.
    vi.spyOn(Hub.prototype, "storeSoon").mockImplementation(() => {});
    const peer = await Peer.open(kind);
    expect((await peer.subscribe("a")).bytes[0]).toBe(1);
    expect((await peer.unsubscribe("*")).bytes[0]).toBe(1);
    const numbers: number[] = [];
    for (const channel of ["a", peer.id]) {
      await evictAllDurableObjects();
      numbers.push(await publishTo(channel, 1));
    }
    await evictAllDurableObjects();
    await publishTo("*", 0);
    await peer.catchUp();
    expect(numbersOf(peer)).toEqual(numbers);
    await evictAllDurableObjects();
    expect(await peer.whoami()).toBe(peer.id);
    await peer.close();
  });
});

it("own channels and the channel of everybody reach all, though one Hub has no place for subscriptions", async () => {
  const peers: Peer[] = [];
  for (let i = 0; i < 25; i++) peers.push(await Peer.open(NEAR));
  expect((await askChannels()).get("*")).toMatchObject({ subscriptions: 25 });
  const all = await publishTo("*", 1);
  for (const peer of peers) {
    const own = await publishTo(peer.id, 1);
    await peer.catchUp();
    expect(numbersOf(peer)).toEqual([all, own]);
  }
  expect((await env.DIRECTORY.getByName("default").hubs()).toSorted()).toEqual([
    "default/XXX/0",
    "default/XXX/1",
  ]);
  for (const peer of peers) await peer.close();
});

describe("a Hub that died", () => {
  it.each([
    ["alone", () => abort(hubAt("FRA"))],
    ["with all other objects", () => abortAllDurableObjects()],
  ])("a dead Hub is not waited for, and is forgotten: %s", async (_, die) => {
    const peer = await Peer.open(FAR);
    await peer.subscribe("a");
    await publishTo("a", 1);
    expect(await hubsOf("a")).toEqual(["default/FRA/0"]);
    await die();
    await peer.closed;
    const beganAt = Date.now();
    await publishTo("a", 0);
    expect(Date.now() - beganAt).toBeLessThan(1000);
    await expect.poll(() => hubsOf("a"), { timeout: 500 }).toEqual([]);
  });

  it("a dead Hub does not keep messages from subscribers on other Hubs", async () => {
    const [gone, stays] = [await Peer.open(FAR), await Peer.open(NEAR)];
    await gone.subscribe("a");
    await stays.subscribe("a");
    const first = await publishTo("a", 1);
    await abort(hubAt("FRA"));
    const second = await publishTo("a", 1);
    await stays.catchUp();
    expect(numbersOf(stays)).toEqual([first, second]);
    await stays.close();
  });

  it("the first message after a Hub's death reaches those that came since", async () => {
    const before = await Peer.open(FAR);
    await before.subscribe("a");
    await publishTo("a", 1);
    await abort(hubAt("FRA"));
    const peer = await Peer.open(FAR);
    expect((await peer.subscribe("a")).bytes[0]).toBe(1);
    const number = await publishTo("a", 1);
    await peer.catchUp();
    expect(numbersOf(peer)).toEqual([number]);
    await peer.close();
  });
});

it.each([
  ["a", () => channelStub("a")],
  ["*", () => env.DIRECTORY.getByName("default")],
])(
  "publishers and subscribers of %s do not notice that its object died before",
  async (channel, stub) => {
    const [publisher, subscriber] = [await Peer.open(NEAR), await Peer.open(FAR)];
    await publisher.unsubscribe("*");
    await subscriber.subscribe(channel);
    const sent = [newMessage(channel, 12), newMessage(channel, 12)];
    for (const message of sent) {
      expect((await publisher.publish([message]))[0]!.bytes[0]).toBe(1);
      await abort(stub());
    }
    await subscriber.catchUp();
    expect(numbersOf(subscriber)).toEqual(sent.map(({ number }) => number));
    await publisher.close();
    await subscriber.close();
  },
);

it("a message costs no call to a Hub without subscribers", async () => {
  const delivered = vi.spyOn(Hub.prototype, "deliverAll");
  const callsOf = async (status: number): Promise<number> => {
    delivered.mockClear();
    await publishTo("a", status);
    return delivered.mock.calls.length;
  };
  const [near, far] = [await Peer.open(NEAR), await Peer.open(FAR)];
  expect(await callsOf(0)).toBe(0);
  await far.subscribe("a");
  expect(await callsOf(1)).toBe(1);
  await near.subscribe("a");
  expect(await callsOf(1)).toBe(2);
  await evictOne(channelStub("a"));
  await far.unsubscribe("a");
  await expect.poll(async () => (await hubsOf("a")).length).toBe(1);
  await evictOne(channelStub("a"));
  expect(await callsOf(1)).toBe(1);
  await near.close();
  await expect.poll(() => hubsOf("a")).toEqual([]);
  expect(await callsOf(0)).toBe(0);
  await evictOne(channelStub("a"));
  expect(await callsOf(0)).toBe(0);
  await far.close();
});

it("a connection that ends while it subscribes leaves nothing behind", async () => {
  const whoamis = new Uint8Array(4000).fill(WHOAMI[0]!);
  for (let round = 0; round < 5; round++) {
    const peer = await Peer.open(NEAR);
    // The replies are so many that they come in pieces, between which the connection ends.
    const under = peer.request(concat([subscribe("a"), whoamis, subscribe("b")]), [1]);
    const outcome = under.catch((error: unknown) => error);
    await peer.close();
    await outcome;
    await expectNobody(["a", "b"]);
  }
});

it("a Hub that was empty for a moment gets messages when a subscriber has come again", async () => {
  wrap(Channel.prototype, "leave", async (call) => {
    call();
    await scheduler.wait(50);
  });
  const [before, other] = [await Peer.open(FAR), await Peer.open(NEAR)];
  await before.subscribe("a");
  await before.close();
  // The Hub is still telling the channel that nobody is left.
  await publishTo("*", 1);
  const peer = await Peer.open(FAR);
  await scheduler.wait(100);
  const number = await publishTo("*", 1);
  await peer.catchUp();
  expect(numbersOf(peer)).toEqual([number]);
  expect((await askChannels()).get("*")).toMatchObject({ subscriptions: 2 });
  await peer.close();
  await other.close();
});

describe("a subscription", () => {
  const LONG_MS = 30;
  const late = async (call: () => unknown): Promise<unknown> => {
    await scheduler.wait(LONG_MS);
    return call();
  };

  it("a subscription is confirmed when the channel knows its Hub, also if another asked first", async () => {
    wrap(Channel.prototype, "change", late);
    const [first, second] = [await Peer.open(FAR), await Peer.open(FAR)];
    const asked = first.subscribe("a");
    await second.subscribe("a");
    const number = await publishTo("a", 1);
    await asked;
    for (const peer of [first, second]) {
      await peer.catchUp();
      expect(numbersOf(peer)).toEqual([number]);
      await peer.close();
    }
  });

  it("the last of several subscription requests holds, though the channel hears late of the first", async () => {
    wrap(Channel.prototype, "change", late);
    const peer = await Peer.open(FAR);
    await peer.request(concat([subscribe("a"), unsubscribe("a"), subscribe("a")]), [1, 1, 1]);
    await scheduler.wait(2 * LONG_MS);
    const number = await publishTo("a", 1);
    await peer.catchUp();
    expect(numbersOf(peer)).toEqual([number]);
    await peer.close();
  });

  it("a subscription is not undone by what its Hub said before", async () => {
    const before = await Peer.open(FAR);
    await before.subscribe("a");
    await abortAllDurableObjects();
    const other = await Peer.open(FAR);
    wrap(Hub.prototype, "deliverAll", async (call) => {
      const delivered = call();
      await scheduler.wait(LONG_MS);
      return delivered;
    });
    // The Hub says that it has no subscriber, and has one before that has been heard.
    const first = publishTo("a", 0);
    await scheduler.wait(LONG_MS / 3);
    await other.subscribe("a");
    await first;
    const number = await publishTo("a", 1);
    await other.catchUp();
    expect(numbersOf(other)).toEqual([number]);
    await other.close();
  });
});

describe("over TCP", () => {
  const query = U32.query("absent");

  it("a push never follows a reply in bytes that are read at once over TCP", async () => {
    const [peer, other] = [await Peer.open(TCP), await Peer.open(FAR)];
    await peer.subscribe("a");
    const sent: Message[] = [];
    for (let round = 0; round < 100; round++) {
      const [own, others] = [newMessage("a", 12), newMessage("a", 12 + (round % 300))];
      sent.push(own, others);
      await Promise.all([
        peer.request(concat([query, U32.publish(own.channel, own.payload), query]), [1, 1, 1]),
        other.publish([others]),
        peer.request(concat([query, query]), [1, 1]),
        other.publish([newMessage("nobody's", 12)]),
        peer.publish([newMessage("nobody's", 12)]),
      ]);
    }
    await peer.catchUp();
    expect(numbersOf(peer).toSorted((a, b) => a - b)).toEqual(sent.map(({ number }) => number));
    // The id is a reply of 17 bytes; all others are a status.
    for (const chunk of peer.chunks.slice(1)) expect(pushesBehindReplies(chunk)).toBe(0);
    await peer.close();
    await other.close();
  });

  function pushesBehindReplies(chunk: Uint8Array): number {
    let hasReply = false;
    let pushes = 0;
    for (let at = 0; at < chunk.length;) {
      const push = findPush(TCP, chunk.subarray(at));
      if (push === null) hasReply = true;
      else if (hasReply) pushes++;
      expect(push?.isWhole ?? true).toBe(true);
      at += push?.length ?? 1;
    }
    return pushes;
  }
});

describe.each([
  ["in the order of its keys", 3000, 200],
  ["shard by shard", 17_000, 12],
])("no push is inside a LIST %s", (_, count, keyBytes) => {
  const protocol: ModelProtocol = { dialect: "7.3", valueSize: 8 };
  const SIZE_8_TCP: PeerKind = { ...TCP, valueSize: 8 };
  const SHAPE = { hasStatus: true, rowBytes: 19, hasNames: true };
  const PUSHES = 5;
  const keys = Array.from({ length: count }, (_, i) => String(i).padStart(keyBytes, "."));

  /** Inserts the keys; returns how long the LIST of them is. */
  async function insertAll(): Promise<number> {
    const frames = keys.map((key) =>
      frameOf(protocol, { type: "insert", key, quota: 1n, ttlType: 6, ttl: 100n }),
    );
    expect((await post("7.3", "uint64", concat(frames))).status).toBe(200);
    const list = await (await post("7.3", "uint64", LIST)).arrayBuffer();
    return list.byteLength;
  }

  function expectList(bytes: Uint8Array): void {
    const rows = parseFragments(bytes, SHAPE).flatMap(({ rows }) => rows);
    expect(rows.map(({ name }) => name).toSorted()).toEqual(keys);
  }

  it("a LIST that waits for its reader has no push inside", async () => {
    const length = await insertAll();
    // More than is sent before anything has been read.
    expect(length).toBeGreaterThan(500_000);
    const socket = connectTcp(9008);
    const writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
    const reader = (socket.readable as ReadableStream<Uint8Array>).getReader();
    await writer.write(LIST);
    const chunks = [(await reader.read()).value!];
    const numbers: number[] = [];
    for (let i = 0; i < PUSHES; i++) numbers.push(await publishTo("*", 1));
    let bytes = chunks[0]!.length;
    const pushBytes = 2 + 8 + 1 + 12;
    while (bytes < length + PUSHES * pushBytes) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      bytes += value.length;
    }
    const all = concat(chunks);
    expectList(all.subarray(0, length));
    const pushed = Array.from({ length: PUSHES }, (_, i) =>
      findPush(SIZE_8_TCP, all.subarray(length + i * pushBytes)),
    );
    expect(pushed.map((push) => push && numberOf(push.payload))).toEqual(numbers);
    await writer.close();
  });

  it("a LIST has no push inside while others publish all the time", async () => {
    const length = await insertAll();
    const peer = await Peer.open({ ...NEAR, valueSize: 8 });
    const listed = peer.request(LIST, [length]);
    const numbers: number[] = [];
    for (let isListed = false; !isListed;) {
      const published = publishTo("*", 1);
      isListed = typeof (await Promise.race([listed, published])) !== "number";
      numbers.push(await published);
      // Publishers come over sockets: the runtime looks at its timers between them.
      await scheduler.wait(0);
    }
    expectList((await listed)[0]!.bytes);
    await peer.catchUp();
    expect(numbersOf(peer)).toEqual(numbers);
    await peer.close();
  });
});
