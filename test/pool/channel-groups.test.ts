/** Groups of channels: how many objects there are, what they keep, and where it ends. */
import {
  evictDurableObject,
  listDurableObjectIds,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Courier } from "../../src/objects/channel/courier.ts";
import { Group } from "../../src/objects/channel/group.ts";
import { GroupNumbers, KEPT_MS, type Numbered } from "../../src/objects/channel/group-numbers.ts";
import { GROUP_KEPT_BYTES_MAX, REPLAY_CHUNK_BYTES_MAX } from "../../src/engine/sizes.ts";
import { GroupReplay } from "../../src/objects/channel/group-replay.ts";
import { blobOf, GroupStore } from "../../src/objects/channel/group-store.ts";
import { publicationsOf } from "../../src/objects/channel/one-channel.ts";
import { Directory } from "../../src/objects/channel/directory.ts";
import type { DeliveredAll } from "../../src/base/calls/hub.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { Publisher } from "../../src/dispatch/publisher.ts";
import { makeConnectionId, ownChannel } from "../../src/base/connection-id.ts";
import { CHANNEL_GROUPS, GroupMap } from "../../src/dispatch/placement.ts";
import { binaryBytes, ByteWriter } from "../../src/wire/bytes.ts";
import { writeChange } from "../../src/wire/channel-batch.ts";
import { forEachMessage, writeMessage } from "../../src/wire/messages.ts";
import {
  bytesOf,
  concat,
  hex,
  subscribe,
  U16,
  unsubscribe,
  WHOAMI,
  WHOAMI_REPLY_BYTES,
} from "../support/frames/index.ts";
import { openSocket, post, type SocketDoor } from "../support/pool/doors.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";
import { groupOf } from "../support/pool/groups.ts";

const server = exports.default as unknown as Fetcher;
const WS = "/throttr/7.3/uint16";

/** A message as publications have it. */
function messageOf(text: string): Uint8Array {
  const out = new ByteWriter();
  writeMessage(out, bytesOf(text), 0, text.length);
  return out.take();
}

let namespaces = 0;
const freshNamespace = (): string => `groups-${namespaces++}`;

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

function textsOf({ replay }: { readonly replay: Uint8Array }): string[] {
  const texts: string[] = [];
  forEachMessage(replay, (at, length) =>
    texts.push(new TextDecoder().decode(replay.subarray(at, at + length))),
  );
  return texts;
}

/** Storage whose SQL a test executes. */
const onDisk = (storage: DurableObjectStorage, exec: unknown): DurableObjectStorage =>
  new Proxy(storage, {
    get: (target, name) => {
      const value: unknown = name === "sql" ? { exec } : Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

/** How many objects of a class have storage. */
const objectsOf = async (objects: DurableObjectNamespace<never>): Promise<number> =>
  (await listDurableObjectIds(objects)).length;
const channelObjects = async (): Promise<number> =>
  await objectsOf(env.CHANNEL as unknown as DurableObjectNamespace<never>);
const hubObjects = async (): Promise<number> =>
  await objectsOf(env.HUB as unknown as DurableObjectNamespace<never>);

/** An id as a stranger makes it up: of a Hub that there is not. */
function madeUpId(index: number): string {
  const letters = [index % 26, Math.floor(index / 26) % 26].map((i) => String.fromCharCode(65 + i));
  const random = crypto.getRandomValues(new Uint8Array(16));
  return ownChannel(makeConnectionId({ location: `Q${letters.join("")}`, index: 0 }, random));
}

describe("publications to unused names", () => {
  it("publications to unused names create no more objects than there are groups", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const names = Array.from({ length: 2000 }, (_, i) => `nobody:${i}`);
    const before = await channelObjects();
    const body = concat(names.map((name) => U16.publish(name)));
    const response = await post("7.3", "uint16", body, headers);
    expect(hex(new Uint8Array(await response.arrayBuffer()))).toBe("00".repeat(names.length));
    expect((await channelObjects()) - before).toBe(CHANNEL_GROUPS);
  });

  it("a made-up id creates no Hub, and a real one is reached", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const door = await openSocket(WS, headers);
    const id = hex((await door.exchange(WHOAMI, WHOAMI_REPLY_BYTES)).subarray(1));
    const hubs = await hubObjects();
    const names = Array.from({ length: 200 }, (_, i) => madeUpId(i));
    const hubsAsked = vi.spyOn(Directory.prototype, "hubs");
    const body = concat([...names.map((name) => U16.publish(name)), U16.publish(id)]);
    const response = await post("7.3", "uint16", body, headers);
    const statuses = hex(new Uint8Array(await response.arrayBuffer()));
    expect(statuses).toBe("00".repeat(names.length) + "01");
    expect(hex(await door.inbox.take(37))).toBe("19200100" + hex(bytesOf(`${id}m`)));
    expect(await hubObjects()).toBe(hubs);
    // However many there are, the Directory is asked once.
    expect(hubsAsked.mock.calls.length).toBeLessThanOrEqual(1);
    await door.close();
  });

  it("publications of one subscriber of many create no more objects than there are groups", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const door = await openSocket(WS, headers);
    const names = Array.from({ length: 400 }, (_, i) => `many:${i}`);
    const before = await channelObjects();
    const statuses = await door.exchange(concat(names.map(subscribe)), names.length);
    expect(hex(statuses)).toBe("01".repeat(names.length));
    expect((await channelObjects()) - before).toBe(CHANNEL_GROUPS);
    const pushBytes = names.reduce((sum, name) => sum + 5 + name.length, 0);
    const pushes = await door.exchange(
      concat(names.map((name) => U16.publish(name))),
      pushBytes + names.length,
    );
    expect(hex(pushes.subarray(pushBytes))).toBe("01".repeat(names.length));
    await door.close();
  });
});

describe("a full group", () => {
  /** Joins of a Hub until the group of a channel refuses one. */
  async function fill(ns: string, channel: string): Promise<void> {
    const stub = groupOf(ns, channel);
    const name = new Uint8Array(255);
    const view = new DataView(name.buffer);
    let next = 0;
    for (let refused = 0; refused === 0;) {
      const out = new ByteWriter(1 << 20);
      for (let i = 0; i < 4000; i++) {
        view.setUint32(0, next++);
        writeChange(out, true, name);
      }
      refused = (await stub.change(`${ns}/QQQ/0`, out.take())).length;
    }
    // Names shorter than those have room still.
    const short = new ByteWriter(1 << 20);
    for (let i = 0; i < 8; i++) writeChange(short, true, binaryBytes(`short ${i}`));
    expect((await stub.change(`${ns}/QQQ/0`, short.take())).length).toBeGreaterThan(0);
  }

  it("a full group refuses SUBSCRIBE and listeners, and the connection goes on", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const door = await openSocket(WS, headers);
    const map = new GroupMap(ns, "");
    const elsewhere = Array.from({ length: 50 }, (_, i) => `x${i}`).find(
      (name) => map.groupOf(name) !== map.groupOf("c"),
    )!;
    await fill(ns, "c");
    const frames = concat([subscribe(elsewhere), subscribe("c"), WHOAMI]);
    const replies = await door.exchange(frames, 19);
    expect(hex(replies.subarray(0, 3))).toBe("010001");
    const listening = await server.fetch("http://localhost/channels/c", { headers });
    expect(listening.status).toBe(503);
    expect(await listening.json()).toMatchObject({
      code: "connections_max",
      detail: expect.stringContaining("no memory left for another listener"),
    });
    // The subscription is gone, so that it can be asked for again.
    expect(await groupOf(ns, "c").hubsOf("c")).toEqual([]);
    expect(hex(await door.exchange(U16.publish("c"), 1))).toBe("00");
    await door.close();
  });
});

it("publications without a payload that wait for a Hub take no more memory than others", async () => {
  const lost = vi.spyOn(console, "warn").mockImplementation(() => {});
  const stub = { deliverAll: async () => await new Promise<never>(() => {}) };
  const host = {
    name: "group",
    env: { ...env, HUB: { getByName: () => stub } } as unknown as Env,
    waitUntil: () => {},
    onDenied: () => {},
    onIdle: () => {},
  };
  const courier = new Courier(host, "default/XXX/0");
  const bytes = publicationsOf("c", messageOf(""));
  const member = { courier, joins: 0, life: null };
  const send = async (): Promise<unknown> =>
    await courier.send([{ channel: "c", member, bytes, count: 1 }]);
  expect(await send()).toBe(null);
  // The Hub is slow now: each publication that waits takes 800 bytes, and all together at most 8 MiB.
  for (let sent = 0; sent < 12_000; sent++) void send();
  expect(lost.mock.calls.length).toBeGreaterThan(0);
  expect(lost.mock.calls.length).toBeLessThan(2000);
});

it("more publications are under way to the Hubs of a channel than an object has timers", async () => {
  const gate = Promise.withResolvers<void>();
  const deliverAll = async (): Promise<DeliveredAll> => {
    await gate.promise;
    return { delivered: new Uint32Array(1000).fill(1), denied: new Uint32Array(0) };
  };
  const far = { ...env, HUB: { getByName: () => ({ deliverAll }) } } as unknown as Env;
  const answers = await runInDurableObject(groupOf(freshNamespace(), "c"), async (_, state) => {
    const group = new Group(state, far);
    for (let hub = 0; hub < 110; hub++) group.join("c", `default/XXX/${hub}`);
    const message = publicationsOf("c", messageOf("m"));
    const all = Array.from({ length: 100 }, async () => await group.publish(message));
    gate.resolve();
    return (await Promise.all(all)).map(({ delivered }) => delivered![0]);
  });
  expect(answers).toEqual(Array.from({ length: 100 }, () => 110));
});

describe("an old copy of a Hub, which a partition has cut off", () => {
  const LEAVE = Uint8Array.of(0, 1, "c".charCodeAt(0));
  const JOIN = Uint8Array.of(1, 1, "c".charCodeAt(0));

  /** A connection that has subscribed to `c`, and its Hub. */
  async function subscribed(): Promise<{ ns: string; hub: string; door: SocketDoor }> {
    const ns = freshNamespace();
    const door = await openSocket(WS, await bearerOf({ ns }));
    expect(hex(await door.exchange(subscribe("c"), 1))).toBe("01");
    return { ns, hub: `${ns}/XXX/0`, door };
  }

  /** Publishes to `c`, and expects the one subscriber to get it. */
  async function expectDelivery(door: SocketDoor): Promise<void> {
    const push = hex(U16.push("c", "m"));
    expect(hex(await door.exchange(U16.publish("c", "m"), push.length / 2 + 1))).toBe(`${push}01`);
  }

  it.each([
    ["of another life", "another life"],
    ["of a release that names no life", undefined],
  ])("a copy %s does not leave a name for a Hub that has subscribers", async (_, life) => {
    const { ns, hub, door } = await subscribed();
    const questions = vi.spyOn(Hub.prototype, "deliverAll");
    await groupOf(ns, "c").change(hub, LEAVE, life);
    await expect.poll(() => questions.mock.results.length).toBe(1);
    await expectDelivery(door);
    await door.close();
  });

  it("a join of an old copy takes nothing from the present one when it is left", async () => {
    const { ns, hub, door } = await subscribed();
    await groupOf(ns, "c").change(hub, JOIN, "another life");
    await groupOf(ns, "c").change(hub, LEAVE, "another life");
    await scheduler.wait(50);
    await expectDelivery(door);
    await door.close();
  });

  it("a denial of an old copy forgets no subscribers of the present one", async () => {
    const { door } = await subscribed();
    vi.spyOn(Hub.prototype, "deliverAll").mockImplementationOnce(() => ({
      delivered: Uint32Array.of(0),
      denied: Uint32Array.of(0),
    }));
    expect(hex(await door.exchange(U16.publish("c", "m"), 1))).toBe("00");
    await scheduler.wait(50);
    await expectDelivery(door);
    await door.close();
  });

  it("a Hub that says it is empty stays on the Directory's list while it has connections", async () => {
    const { ns, hub, door } = await subscribed();
    const directory = env.DIRECTORY.getByName(ns);
    await directory.retire(hub, (await env.HUB.getByName(hub).figures()).tally);
    await directory.leave(hub);
    expect(await directory.hubs()).toEqual([hub]);
    await door.close();
    await expect.poll(() => directory.hubs()).toEqual([]);
  });

  it("a leave of the life that has joined costs no question", async () => {
    const { ns, door } = await subscribed();
    const questions = vi.spyOn(Hub.prototype, "deliverAll");
    expect(hex(await door.exchange(unsubscribe("c"), 1))).toBe("01");
    expect(await groupOf(ns, "c").hubsOf("c")).toEqual([]);
    expect(questions).not.toHaveBeenCalled();
    await door.close();
  });

  it("a leave behind a restart of the group is confirmed by the Hub", async () => {
    const { ns, hub, door } = await subscribed();
    await evictDurableObject(groupOf(ns, "c"));
    expect(await groupOf(ns, "c").hubsOf("c")).toEqual([hub]);
    expect(hex(await door.exchange(unsubscribe("c"), 1))).toBe("01");
    await expect.poll(() => groupOf(ns, "c").hubsOf("c")).toEqual([]);
    await door.close();
  });
});

it("messages keep their order while their only subscriber leaves and joins again, and a call to its Hub is under way", async () => {
  const ns = freshNamespace();
  const door = await openSocket(WS, await bearerOf({ ns }));
  expect(hex(await door.exchange(subscribe("c"), 1))).toBe("01");
  const gate = Promise.withResolvers<void>();
  const calls = vi.spyOn(Hub.prototype, "deliverAll").mockImplementationOnce(async function (
    this: Hub,
    deliveries: Uint8Array,
  ) {
    await gate.promise;
    return Hub.prototype.deliverAll.call(this, deliveries);
  } as unknown as Hub["deliverAll"]);
  const first = groupOf(ns, "c").publishAll(publicationsOf("c", messageOf("1")));
  await expect.poll(() => calls.mock.calls.length).toBe(1);
  expect(hex(await door.exchange(concat([unsubscribe("c"), subscribe("c")]), 2))).toBe("0101");
  const second = groupOf(ns, "c").publishAll(publicationsOf("c", messageOf("2")));
  await scheduler.wait(50);
  gate.resolve();
  await Promise.all([first, second]);
  const pushes = concat([U16.push("c", "1"), U16.push("c", "2")]);
  expect(hex(await door.inbox.take(pushes.length))).toBe(hex(pushes));
  await door.close();
});

describe("a group on a full disk", () => {
  it("a join after the disk was full is known after a restart, though the disk refused the head before", async () => {
    const stub = groupOf(freshNamespace(), "c");
    await runInDurableObject(stub, (_, { storage }) => {
      let isFull = true;
      const put = (key: string, value: unknown): void => {
        if (isFull) throw new Error("database or disk is full: SQLITE_FULL");
        storage.kv.put(key, value);
      };
      const get = (key: string): unknown => storage.kv.get(key);
      const disk = { sql: storage.sql, kv: { get, put } } as unknown as DurableObjectStorage;
      const store = new GroupStore(disk);
      const join = (): void => store.write("INSERT INTO joins VALUES (?, ?)", blobOf("c"), "hub");
      expect(join).toThrow(/SQLITE_FULL/);
      expect(() => store.storeHead(7, false)).toThrow(/SQLITE_FULL/);
      expect(store.high).toBe(0);
      isFull = false;
      join();
      expect(new GroupStore(disk).rows("SELECT hub FROM joins")).toEqual([{ hub: "hub" }]);
    });
  });

  it("a group that is cleared while the disk refuses a part of it has everything that it had", async () => {
    const stub = groupOf(freshNamespace(), "c");
    await runInDurableObject(stub, async (_, { storage }) => {
      const exec = (query: string, ...bindings: SqlStorageValue[]): unknown => {
        if (query === "DROP TABLE numbers")
          throw new Error("database or disk is full: SQLITE_FULL");
        return storage.sql.exec(query, ...bindings);
      };
      const store = new GroupStore(onDisk(storage, exec));
      store.write("INSERT INTO joins VALUES (?, ?)", blobOf("c"), "hub");
      await expect(store.clear(false)).rejects.toThrow(/SQLITE_FULL/);
      expect(new GroupStore(storage).rows("SELECT hub FROM joins")).toEqual([{ hub: "hub" }]);
    });
  });

  it("a listener that comes back gets the messages before and after a publication that the disk has refused", async () => {
    const stub = groupOf(freshNamespace(), "c");
    await runInDurableObject(stub, async (_, state) => {
      const { storage } = state;
      /** Rows of messages that the disk still takes. */
      let room = Infinity;
      const exec = (query: string, ...bindings: SqlStorageValue[]): unknown => {
        if (query.startsWith("INSERT OR REPLACE INTO messages") && room-- <= 0) {
          throw new Error("database or disk is full: SQLITE_FULL");
        }
        return storage.sql.exec(query, ...bindings);
      };
      const own = { id: state.id, storage: onDisk(storage, exec), waitUntil: () => {} };
      const group = new Group(own as unknown as DurableObjectState, {
        ...env,
        REPLAY_MESSAGES_MAX: "3",
      });
      const big = "x".repeat(REPLAY_CHUNK_BYTES_MAX);
      const publish = (...texts: string[]) =>
        group.publish(concat(texts.map((text) => publicationsOf("c", messageOf(text)))));
      const before = group.listen("c", "hub", null)!.sequence;
      group.joins.leave("c", "hub", null);
      for (const text of ["1", "2", "3"]) await publish(text);
      room = 0;
      const error = expect.stringContaining("SQLITE_FULL");
      expect((await publish("refused")).refused).toEqual({ flags: Uint8Array.of(1), error });
      room = 1;
      expect((await publish(big, big)).refused).toEqual({ flags: Uint8Array.of(1, 1), error });
      room = Infinity;
      expect(textsOf(group.listen("c", "hub", before)!)).toEqual(["1", "2", "3"]);
      group.joins.leave("c", "hub", null);
      const { sequences } = await publish("4");
      expect(sequences).toEqual(Float64Array.of(before + 4));
      for (const one of [group, new Group(state, { ...env, REPLAY_MESSAGES_MAX: "3" })]) {
        expect(textsOf(one.listen("c", "hub", before)!)).toEqual(["2", "3", "4"]);
      }
    });
  });
});

it("a channel whose numbers the disk refuses does not fail publications to others of its group", async () => {
  const ns = freshNamespace();
  const headers = await bearerOf({ ns });
  const map = new GroupMap(ns, "");
  const [listened, other] = ["listened", "other"].map((name) => {
    for (let i = 0; ; i++) if (map.groupOf(`${name}:${i}`) === 0) return `${name}:${i}`;
  }) as [string, string];
  const stub = groupOf(ns, listened);
  const door = await openSocket(WS, headers);
  expect(hex(await door.exchange(subscribe(other), 1))).toBe("01");
  await runInDurableObject(stub, (object, { storage }) => {
    (object as unknown as { group: Group }).group.listen(listened, "hub", null);
    vi.spyOn(storage.kv, "put").mockImplementation(() => {
      throw new Error("database or disk is full: SQLITE_FULL");
    });
  });
  const publisher = new Publisher(env, ns);
  const publish = async (name: string): Promise<string> =>
    await publisher.publish(0, publicationsOf(name, messageOf("hello")), 1).then(
      ({ delivered }) => `delivered ${delivered?.join()}`,
      (error: Error) => error.message,
    );
  // The first one goes alone, and the others together.
  const answers = await Promise.all([other, other, listened, other, listened].map(publish));
  const full = expect.stringContaining("SQLITE_FULL");
  expect(answers).toEqual(["delivered 1", "delivered 1", full, "delivered 1", full]);
  const push = U16.push(other, "hello");
  expect(hex(await door.inbox.take(3 * push.length))).toBe(hex(push).repeat(3));
  await door.close();
});

it("a group whose disk refuses that a Hub has left says so, and forgets the Hub at a later message", async () => {
  const stub = groupOf(freshNamespace(), "c");
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  await runInDurableObject(stub, async (_, state) => {
    let isFull = true;
    const exec = (query: string, ...bindings: SqlStorageValue[]): unknown => {
      if (isFull && query.startsWith("DELETE FROM joins")) {
        throw new Error("database or disk is full: SQLITE_FULL");
      }
      return state.storage.sql.exec(query, ...bindings);
    };
    const own = { id: state.id, storage: onDisk(state.storage, exec), waitUntil: () => {} };
    const group = new Group(own as unknown as DurableObjectState, env);
    const publish = () => group.publish(publicationsOf("c", messageOf("hello")));
    group.join("c", "hub");
    await publish();
    const said = () => warn.mock.calls.map(([line]) => JSON.parse(line as string) as object);
    await expect
      .poll(said)
      .toContainEqual(expect.objectContaining({ event: "leave_failed", channel: state.id.name }));
    expect(group.joins.hubsOf("c")).toEqual(["hub"]);
    isFull = false;
    await publish();
    await expect.poll(() => group.joins.hubsOf("c")).toEqual([]);
  });
});

it("a group whose disk refuses to delete old messages is looked through again the next day", async () => {
  const stub = groupOf(freshNamespace(), "c");
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  await runInDurableObject(stub, async (_, state) => {
    const exec = (query: string, ...bindings: SqlStorageValue[]): unknown => {
      if (query.startsWith("DELETE")) throw new Error("database or disk is full: SQLITE_FULL");
      return state.storage.sql.exec(query, ...bindings);
    };
    const own = { id: state.id, storage: onDisk(state.storage, exec), waitUntil: () => {} };
    const group = new Group(own as unknown as DurableObjectState, env);
    group.listen("c", "hub", null);
    await group.publish(publicationsOf("c", messageOf("old")));
    await state.storage.deleteAlarm();
    const nowMs = Date.now() + 2 * KEPT_MS;
    vi.useFakeTimers({ now: nowMs, toFake: ["Date"] });
    await group.lookThrough();
    expect(await state.storage.getAlarm()).toBe(nowMs + KEPT_MS);
    const said = warn.mock.calls.map(([line]) => JSON.parse(line as string) as object);
    expect(said).toContainEqual(expect.objectContaining({ event: "look_failed" }));
  });
});

describe("kept messages", () => {
  const messages = (...sizes: number[]): Uint8Array => {
    const out = new ByteWriter();
    for (const size of sizes) writeMessage(out, new Uint8Array(size).fill(size), 0, size);
    return out.take();
  };
  const sizesOf = (replay: Uint8Array): number[] => {
    const sizes: number[] = [];
    forEachMessage(replay, (_, length) => sizes.push(length));
    return sizes;
  };

  async function inStore(run: (store: GroupStore) => void): Promise<void> {
    const stub = groupOf(freshNamespace(), "c");
    await runInDurableObject(stub, (_, { storage }) => run(new GroupStore(storage)));
  }

  const numbered = (channel: string, sequence: number) => ({ channel, sequence, usedAtMs: 0 });

  it("a flood on one name drops that name's messages first", async () => {
    await inStore((store) => {
      const replay = new GroupReplay(store, 1000);
      const quiet = Array.from({ length: 20 }, (_, i) => `quiet ${i}`);
      for (const name of quiet) replay.keep(name, 1, messages(1000, 1001), 2, 0);
      const floods = Array.from({ length: 8 }, (_, i) => `flood ${i}`);
      for (let n = 1; n <= 40; n++) {
        for (const name of floods) replay.keep(name, n, messages(500_000), 1, 0);
      }
      for (const name of quiet) {
        expect(sizesOf(replay.replay(numbered(name, 2), 0, 0).replay)).toEqual([1000, 1001]);
      }
      const { bytes } = store.storage.sql
        .exec<{ bytes: number }>("SELECT sum(length(messages)) AS bytes FROM messages")
        .one();
      expect(bytes).toBeLessThanOrEqual(GROUP_KEPT_BYTES_MAX);
      expect(bytes).toBeGreaterThan(GROUP_KEPT_BYTES_MAX / 4);
      // The latest of the flood are there.
      const flood = replay.replay(numbered("flood 0", 40), 0, 0);
      expect(flood.replayFrom).toBeGreaterThan(1);
      expect(flood.replayFrom).toBeLessThanOrEqual(40);
    });
  });

  it("a disk that refuses to delete kept messages refuses no new ones, and later ones make room", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    await inStore((store) => {
      let isFull = true;
      const write = store.write.bind(store);
      vi.spyOn(store, "write").mockImplementation((query, ...bindings) => {
        if (isFull && query.startsWith("DELETE")) throw new Error("disk is full: SQLITE_FULL");
        write(query, ...bindings);
      });
      const replay = new GroupReplay(store, 1000);
      const names = Array.from(
        { length: Math.ceil(GROUP_KEPT_BYTES_MAX / 500_000) + 1 },
        (_, i) => `name ${i}`,
      );
      for (const name of names) replay.keep(name, 1, messages(500_000), 1, 0);
      for (const name of names) {
        expect(sizesOf(replay.replay(numbered(name, 1), 0, 0).replay)).toEqual([500_000]);
      }
      isFull = false;
      replay.keep("later", 1, messages(1000), 1, 0);
      const { bytes } = store.storage.sql
        .exec<{ bytes: number }>("SELECT sum(length(messages)) AS bytes FROM messages")
        .one();
      expect(bytes).toBeLessThanOrEqual(GROUP_KEPT_BYTES_MAX);
      expect(sizesOf(replay.replay(numbered("later", 1), 0, 0).replay)).toEqual([1000]);
    });
  });

  it("kept messages that a full disk refuses to drop after a day stay counted, and go with the next look", async () => {
    await inStore((store) => {
      const replay = new GroupReplay(store, 1000);
      for (let n = 1; n <= 5; n++) replay.keep("c", n, messages(1000), 1, 0);
      const write = store.write.bind(store);
      let room = 2;
      const refused = vi.spyOn(store, "write").mockImplementation((query, ...bindings) => {
        if (room-- <= 0) throw new Error("disk is full: SQLITE_FULL");
        write(query, ...bindings);
      });
      expect(() => replay.dropOld(KEPT_MS)).toThrow("SQLITE_FULL");
      expect(sizesOf(replay.replay(numbered("c", 5), 0, 0).replay)).toEqual([1000, 1000, 1000]);
      refused.mockRestore();
      replay.dropOld(KEPT_MS);
      expect(store.rows("SELECT 1 FROM messages")).toEqual([]);
    });
  });

  it("a channel keeps no more bytes than a listener is given", async () => {
    await inStore((store) => {
      const replay = new GroupReplay(store, 1000);
      for (let n = 1; n <= 100; n++) replay.keep("c", n, messages(300_000), 1, 0);
      const { bytes } = store.storage.sql
        .exec<{ bytes: number }>("SELECT sum(length(messages)) AS bytes FROM messages")
        .one();
      expect(bytes).toBeLessThan(5_000_000);
      const { replay: given } = replay.replay(numbered("c", 100), 0, 0);
      expect(given.length).toBeGreaterThan(3_500_000);
      expect(given.length).toBeLessThanOrEqual((4 << 20) + 1000);
    });
  });

  it("the last messages are kept in order, however they came, also after a restart", async () => {
    await inStore((store) => {
      let replay = new GroupReplay(store, 5);
      let next = 1;
      for (const count of [1, 3, 7, 2, 1, 1, 4, 12, 1, 2]) {
        const sizes = Array.from({ length: count }, (_, i) => next + i);
        replay.keep("c", next, messages(...sizes), count, 0);
        next += count;
        const last = next - 1;
        const expected = Array.from({ length: last }, (_, i) => i + 1).slice(-5);
        expect(sizesOf(replay.replay(numbered("c", last), 0, 0).replay)).toEqual(expected);
        const some = replay.replay(numbered("c", last), last - 2, 0);
        expect([some.replayFrom, ...sizesOf(some.replay)]).toEqual(
          last < 2 ? [1, 1] : [last - 1, last - 1, last],
        );
        replay = new GroupReplay(store, 5);
      }
      // One row for each publication that has one of the last five.
      const rows = store.rows("SELECT slot FROM messages");
      expect(rows.length).toBeLessThanOrEqual(3);
    });
  });

  it("kept messages are deleted a day later", async () => {
    await inStore((store) => {
      const replay = new GroupReplay(store, 5);
      replay.keep("c", 1, messages(1), 1, 0);
      replay.keep("c", 2, messages(2), 1, KEPT_MS / 2);
      expect(sizesOf(replay.replay(numbered("c", 2), 0, KEPT_MS).replay)).toEqual([2]);
      replay.dropOld(KEPT_MS);
      expect(store.rows("SELECT slot FROM messages").length).toBe(1);
      expect(sizesOf(replay.replay(numbered("c", 2), 0, KEPT_MS - 1).replay)).toEqual([2]);
    });
  });

  it("kept messages of one channel are not given to listeners of another", async () => {
    await withSettings({ REPLAY_MESSAGES_MAX: 5 }, async () => {
      const headers = await bearerOf({ ns: freshNamespace() });
      const listened = await server.fetch("http://localhost/channels/a", { headers });
      await listened.body!.cancel();
      for (const name of ["a", "b"]) {
        const answer = await server.fetch(`http://localhost/channels/${name}`, {
          method: "POST",
          headers,
          body: name,
        });
        const { sequence } = await answer.json<{ sequence: number | null }>();
        expect(typeof sequence).toBe(name === "a" ? "number" : "object");
      }
    });
  });
});

describe("message numbers", () => {
  const host = { isJoined: () => false, lastKept: () => null, onForget: () => {} };
  const take = (numbers: GroupNumbers, numbered: Numbered, count: number): number => {
    const first = numbers.reserve(numbered, count);
    numbers.take(numbered, count);
    return first;
  };

  async function withStore(run: (store: GroupStore) => void): Promise<void> {
    const stub = groupOf(freshNamespace(), "c");
    await runInDurableObject(stub, (_, { storage }) => run(new GroupStore(storage)));
  }

  it("numbers of a burst are stored in three rows, however many messages it has", async () => {
    await withStore((store) => {
      const numbers = new GroupNumbers(store, host);
      const channel = numbers.listen("c", 1000);
      const rows = vi.spyOn(store, "write");
      const heads = vi.spyOn(store, "storeHead");
      for (let i = 0; i < 5000; i++) expect(take(numbers, channel, 1)).toBe(1001 + i);
      numbers.settle();
      expect(rows.mock.calls.length + heads.mock.calls.length).toBe(3);
    });
  });

  it("a channel whose first listener a full disk refuses stays without numbers, and takes messages", async () => {
    await withStore((store) => {
      const numbers = new GroupNumbers(store, host);
      const refused = vi.spyOn(store, "write").mockImplementation(() => {
        throw new Error("disk full");
      });
      expect(() => numbers.listen("c", 1000)).toThrow("disk full");
      expect(numbers.get("c")).toBeUndefined();
      refused.mockRestore();
      expect(take(numbers, numbers.listen("c", 1000), 1)).toBe(1001);
    });
  });

  it("a channel whose number a full disk refuses to delete goes on with it, and is forgotten later", async () => {
    await withStore((store) => {
      const numbers = new GroupNumbers(store, host);
      take(numbers, numbers.listen("c", 1000), 3);
      const refused = vi.spyOn(store, "write").mockImplementation(() => {
        throw new Error("disk full");
      });
      expect(() => numbers.forgetUnused(1000 + KEPT_MS)).toThrow("disk full");
      expect(numbers.get("c")?.sequence).toBe(1003);
      refused.mockRestore();
      numbers.forgetUnused(1000 + KEPT_MS);
      expect(store.rows("SELECT 1 FROM numbers")).toEqual([]);
    });
  });

  it("a number is never used twice, after a crash, when forgotten, or when others went further", async () => {
    await withStore((store) => {
      const before = new GroupNumbers(store, host);
      const [a, b] = [before.listen("a", 1000), before.listen("b", 1000)];
      take(before, a, 50_000);
      expect(take(before, b, 3)).toBe(1001);
      // The object dies here.
      const after = new GroupNumbers(new GroupStore(store.storage), host);
      expect(take(after, after.get("a")!, 1)).toBeGreaterThan(51_000);
      expect(take(after, after.get("b")!, 1)).toBeGreaterThan(1003);
      const last = after.high;
      after.settle();
      after.forgetUnused(1000 + KEPT_MS);
      expect(after.size).toBe(0);
      const again = new GroupNumbers(new GroupStore(store.storage), host);
      expect(take(again, again.listen("a", 2000), 1)).toBe(last + 1);
      // Its clock went on: numbers begin at the time.
      expect(take(again, again.listen("new", 10_000_000), 1)).toBe(10_000_001);
    });
  });

  it.each([
    ["without kept messages", () => null, 50_000],
    ["whose kept messages go later", () => 1003, 3],
  ])(
    "a number of a channel %s is not used again after a crash, messages to others and a sleep",
    async (_, keptOfA, count) => {
      await withStore((store) => {
        const before = new GroupNumbers(store, host);
        take(before, before.listen("a", 1000), count);
        const high = before.high;
        before.listen("b", 1000);
        // The object dies here.
        const lastKept = (channel: string): number | null => (channel === "a" ? keptOfA() : null);
        const after = new GroupNumbers(new GroupStore(store.storage), { ...host, lastKept });
        take(after, after.get("b")!, 1);
        after.settle();
        const later = new GroupNumbers(new GroupStore(store.storage), host);
        expect(later.get("a")!.sequence).toBe(after.get("a")!.sequence);
        expect(take(later, later.get("a")!, 1)).toBeGreaterThan(high);
      });
    },
  );

  it("numbers of the channels unused longest are forgotten when there are too many names", async () => {
    await withStore((store) => {
      const numbers = new GroupNumbers(store, host);
      const first = numbers.listen("first", 1);
      expect(take(numbers, first, 5)).toBe(2);
      for (let i = 0; i < 25_000; i++) numbers.listen(`${i}`.padStart(255, "."), 2 + i);
      expect(numbers.get("first")).toBeUndefined();
      expect(numbers.get("24999".padStart(255, "."))).toBeDefined();
      expect(numbers.size).toBeLessThan(24_000);
      expect(store.rows("SELECT name FROM numbers").length).toBe(numbers.size);
      expect(take(numbers, numbers.listen("first", 1), 1)).toBeGreaterThan(6);
    });
  });
});
