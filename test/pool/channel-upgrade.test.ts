/** Channels while objects of release 0.4 meet new ones, and what that release has stored. */
import {
  evictAllDurableObjects,
  evictDurableObject,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Channel } from "../../src/objects/channel/channel.ts";
import { Directory } from "../../src/objects/channel/directory.ts";
import { Group } from "../../src/objects/channel/group.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { isUnknownMethod } from "../../src/base/unknown-method.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { writeMessage } from "../../src/wire/messages.ts";
import {
  bytesOf,
  concat,
  hex,
  subscribe,
  U16,
  WHOAMI,
  WHOAMI_REPLY_BYTES,
} from "../support/frames/index.ts";
import { openSocket, type SocketDoor } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { forgetHub, groupOf } from "../support/pool/groups.ts";

const WS = "/throttr/7.3/uint16";

let namespaces = 0;
const freshNamespace = (): string => `upgrade-${namespaces++}`;

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

/** The push of a message, in hex. */
const pushHex = (channel: string, text: string): string => hex(U16.push(channel, text));

/** The object that release 0.4 made for a channel: its name has the channel in hex. */
const oldObject = (ns: string, channel: string): DurableObjectStub<Channel> =>
  env.CHANNEL.getByName(`${ns}/${hex(bytesOf(channel))}`);
const messagesOf = (...texts: string[]): Uint8Array => {
  const out = new ByteWriter();
  for (const text of texts) writeMessage(out, bytesOf(text), 0, text.length);
  return out.take();
};

const entriesOf = async (stub: DurableObjectStub): Promise<number> =>
  await runInDurableObject(stub, (_, { storage }) => [...storage.kv.list()].length);

/** Makes a method of all objects of a class what it was in a release that did not have it. */
function lack(prototype: object, method: string): void {
  vi.spyOn(prototype as Record<string, () => unknown>, method).mockImplementation(() => {
    throw new TypeError(`The RPC receiver does not implement the method "${method}".`);
  });
}

async function subscribed(ns: string, ...channels: string[]): Promise<SocketDoor> {
  const door = await openSocket(WS, await bearerOf({ ns }));
  const statuses = await door.exchange(concat(channels.map(subscribe)), channels.length);
  expect(hex(statuses)).toBe("01".repeat(channels.length));
  return door;
}

it("an object without a method fails as the platform says", async () => {
  const stub = groupOf(freshNamespace(), "c") as unknown as { nothing(): Promise<void> };
  const error = await stub.nothing().catch((thrown: unknown) => thrown);
  expect(isUnknownMethod(error)).toBe(true);
});

describe("an object that release 0.4 made for a channel", () => {
  it("an old channel object passes on what an old door publishes, in order, with its result", async () => {
    const ns = freshNamespace();
    const door = await subscribed(ns, "c");
    const stub = oldObject(ns, "c");
    const one = await stub.publish(messagesOf("one", "two"), 2);
    expect(one).toEqual({ delivered: [1, 1], sequence: null });
    expect(await oldObject(ns, "nobody").publish(messagesOf("x"), 1)).toEqual({
      delivered: [0],
      sequence: null,
    });
    const pushes = pushHex("c", "one") + pushHex("c", "two");
    expect(hex(await door.inbox.take(pushes.length / 2))).toBe(pushes);
    await door.close();
  });

  it("an old channel object tells the group of old Hubs that join, leave or listen", async () => {
    const ns = freshNamespace();
    const stub = oldObject(ns, "c");
    const hub = `${ns}/FRA/0`;
    await stub.join(hub);
    expect(await groupOf(ns, "c").hubsOf("c")).toEqual([hub]);
    expect(await stub.hubs()).toEqual([hub]);
    await stub.leave(hub);
    await expect.poll(() => groupOf(ns, "c").hubsOf("c")).toEqual([]);
    const { sequence } = await stub.listen(hub, null);
    expect(sequence).toBeGreaterThan(Date.now() - 60_000);
    expect(await stub.publish(messagesOf("x"), 1)).toMatchObject({ sequence: sequence + 1 });
  });

  it.each(["at its alarm", "when it is asked"])(
    "an old channel object gives its stored data to the group and empties itself %s",
    async (when) => {
      const ns = freshNamespace();
      const door = await subscribed(ns, "c");
      const hub = `${ns}/XXX/0`;
      // As if the Hub had joined the old object only.
      await forgetHub(ns, "c", hub);
      expect(await groupOf(ns, "c").hubsOf("c")).toEqual([]);
      const stub = oldObject(ns, "c");
      await runInDurableObject(stub, async (_, { storage }) => {
        storage.kv.put(`hub:${hub}`, 1);
        storage.kv.put("numbering", { sequence: 7, usedAtMs: Date.now() });
        storage.kv.put("message:7", { sequence: 7, payload: new Uint8Array(3) });
        await storage.setAlarm(Date.now() + 86_400_000);
      });
      await evictDurableObject(stub);
      if (when === "at its alarm") {
        expect(await runDurableObjectAlarm(stub)).toBe(true);
      } else {
        const published = await stub.publish(messagesOf("late"), 1);
        expect(published).toEqual({ delivered: [1], sequence: null });
        expect(hex(await door.inbox.take(9))).toBe(pushHex("c", "late"));
      }
      expect(await groupOf(ns, "c").hubsOf("c")).toEqual([hub]);
      expect(await entriesOf(stub)).toBe(0);
      expect(await runDurableObjectAlarm(stub)).toBe(false);
      await door.close();
    },
  );
});

it("a Directory stored by release 0.4 knows its Hubs, and numbers messages from now on", async () => {
  const ns = freshNamespace();
  const door = await subscribed(ns);
  const stub = env.DIRECTORY.getByName(ns);
  const hub = `${ns}/XXX/0`;
  await runInDurableObject(stub, async (_, { storage }) => {
    await storage.deleteAll();
    storage.kv.put(`hub:${hub}`, 1);
    storage.kv.put("numbering", { sequence: 10_007, usedAtMs: Date.now() });
    for (let i = 0; i < 3; i++) storage.kv.put(`message:${i}`, { sequence: i });
  });
  await evictDurableObject(stub);
  expect(await stub.hubs()).toEqual([hub]);
  const { delivered, sequence } = await stub.publish(messagesOf("all"), 1);
  expect(delivered).toEqual([1]);
  expect(sequence).toBeGreaterThan(10_007);
  expect(hex(await door.inbox.take(8))).toBe(pushHex("*", "all"));
  // The head of the group is left.
  expect(await entriesOf(stub)).toBe(1);
  await evictDurableObject(stub);
  expect(await stub.hubs()).toEqual([hub]);
  await door.close();
});

describe("subscriptions that release 0.4 made", () => {
  /** Makes attachments what that release stored: it knew of no groups, and they know nothing. */
  async function age(ns: string, channels: readonly string[]): Promise<void> {
    await scheduler.wait(1100);
    await runInDurableObject(hubStub(0, ns), (_, state) => {
      for (const socket of state.getWebSockets()) {
        const attachment = socket.deserializeAttachment() as Record<string, unknown>;
        delete attachment.hasJoinedGroups;
        socket.serializeAttachment(attachment);
      }
    });
    for (const channel of channels) {
      await forgetHub(ns, channel, `${ns}/XXX/0`);
      expect(await groupOf(ns, channel).hubsOf(channel)).toEqual([]);
    }
  }

  it("a Hub that wakes with old subscriptions joins all their groups once", async () => {
    const ns = freshNamespace();
    const channels = ["a", "b", "c", "d", "e"];
    const door = await subscribed(ns, ...channels);
    await age(ns, channels);
    await evictAllDurableObjects();
    // It wakes.
    await hubStub(0, ns).figures();
    for (const channel of channels) {
      await expect.poll(() => groupOf(ns, channel).hubsOf(channel)).toEqual([`${ns}/XXX/0`]);
    }
    const publisher = await subscribed(ns);
    const statuses = await publisher.exchange(concat(channels.map((c) => U16.publish(c, "m"))), 5);
    expect(hex(statuses)).toBe("0101010101");
    expect((await door.inbox.take(5 * 6)).length).toBe(30);
    // The next wakes cost no call.
    const changes = vi.spyOn(Group.prototype, "change");
    await scheduler.wait(1100);
    await evictAllDurableObjects();
    await hubStub(0, ns).figures();
    await scheduler.wait(100);
    expect(changes).not.toHaveBeenCalled();
    for (const open of [door, publisher]) await open.close();
  });

  it("a Hub that wakes with old subscriptions gets what new doors publish to its connections' ids", async () => {
    const ns = freshNamespace();
    const door = await subscribed(ns);
    const id = hex((await door.exchange(WHOAMI, WHOAMI_REPLY_BYTES)).subarray(1));
    lack(Hub.prototype, "deliverToOwners");
    const publisher = await subscribed(ns);
    expect(hex(await publisher.exchange(U16.publish(id, "m"), 1))).toBe("01");
    expect(hex(await door.inbox.take(37))).toBe(pushHex(id, "m"));
    for (const open of [door, publisher]) await open.close();
  });
});

it("a group delivers messages of many names one by one to a Hub that takes one name at a time", async () => {
  const ns = freshNamespace();
  const names = Array.from({ length: 200 }, (_, i) => `n${i}`);
  const door = await subscribed(ns, ...names);
  lack(Hub.prototype, "deliverAll");
  const publisher = await subscribed(ns);
  const frames = names.flatMap((name) => [U16.publish(name, "1"), U16.publish(name, "2")]);
  const statuses = await publisher.exchange(concat(frames), frames.length);
  expect(hex(statuses)).toBe("01".repeat(frames.length));
  const pushBytes = names.reduce((sum, name) => sum + 2 * (5 + name.length), 0);
  const pushes = hex(await door.inbox.take(pushBytes));
  for (const name of names) {
    const [first, second] = [pushHex(name, "1"), pushHex(name, "2")].map((text) =>
      pushes.indexOf(text),
    );
    expect(first).toBeGreaterThanOrEqual(0);
    expect(second).toBeGreaterThan(first!);
  }
  // What it denies is dropped.
  await door.close();
  for (const open of [publisher]) await open.close();
  await expect.poll(() => groupOf(ns, "n0").hubsOf("n0")).toEqual([]);
});

it("a new door publishes to everybody through a Directory that takes one name", async () => {
  const ns = freshNamespace();
  const door = await subscribed(ns);
  lack(Directory.prototype, "publishAll");
  const frames = concat([U16.publish("*", "a"), U16.publish("*", "b")]);
  expect(hex(await door.exchange(frames, 14))).toBe(pushHex("*", "a") + pushHex("*", "b") + "0101");
  await door.close();
});
