/** Where peers of the model tests are, what they may choose, and how objects are put to sleep. */
import { evictAllDurableObjects, evictDurableObject, reset } from "cloudflare:test";
import fc from "fast-check";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Channel } from "../../../src/objects/channel/channel.ts";
import { groupName, hubName } from "../../../src/base/names.ts";
import { GroupMap } from "../../../src/dispatch/placement.ts";
import { payloadBytesMax } from "../../simulator/checks/channel-calls.ts";
import { askChannels, newMessage, Peer, type Message, type PeerKind } from "./peers.ts";

export const SLOTS = 5;
const LOCATIONS = ["XXX", "FRA", "NRT"];

export const kind: fc.Arbitrary<PeerKind> = fc.oneof(
  fc.record({
    transport: fc.constant("websocket" as const),
    dialect: fc.constantFrom("7.3" as const, "7.3" as const, "7.1" as const),
    valueSize: fc.constantFrom(1 as const, 2 as const, 4 as const, 8 as const),
    location: fc.constantFrom(...LOCATIONS),
  }),
  fc.record({
    transport: fc.constant("tcp" as const),
    dialect: fc.constant("7.3" as const),
    valueSize: fc.constantFrom(1 as const, 2 as const, 4 as const, 8 as const),
    location: fc.constant("XXX"),
  }),
);

const groups = new GroupMap("default", "");

/** Names of which one call to one object carries the messages. */
const SAME_GROUP = Array.from({ length: 500 }, (_, i) => ({ name: `same:${i}` }))
  .filter(({ name }) => groups.groupOf(name) === groups.groupOf("a"))
  .slice(0, 4);

/** A channel by its name, or the own one of whoever was last in a slot; in capitals it is nobody's. */
export type ChannelChoice = { name: string } | { ownOf: number; inCapitals: boolean };

export const channelChoice: fc.Arbitrary<ChannelChoice> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom({ name: "a" }, { name: "b" }, { name: "*" }, { name: "" }),
  },
  { weight: 2, arbitrary: fc.constantFrom(...SAME_GROUP) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { name: "\0\x80\xff/%" },
      { name: "k".repeat(255) },
      { name: "\xff".repeat(255) },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      ownOf: fc.nat(SLOTS - 1),
      inCapitals: fc.constantFrom(false, false, false, true),
    }),
  },
);

const payloadBytes = fc.oneof(
  { weight: 6, arbitrary: fc.constant(12) },
  { weight: 2, arbitrary: fc.constantFrom(255, 256) },
  { weight: 1, arbitrary: fc.constantFrom(65_535, 65_536) },
);

export const sending = fc.array(fc.record({ to: channelChoice, payloadBytes }), {
  minLength: 1,
  maxLength: 4,
});

export interface Sending {
  to: ChannelChoice;
  payloadBytes: number;
}

export type Evicted = "everything" | "hubs" | "directory" | ChannelChoice;

export const evicted: fc.Arbitrary<Evicted> = fc.oneof(
  fc.constantFrom("everything" as const, "hubs" as const, "directory" as const),
  channelChoice,
);

export async function evict(
  what: Evicted,
  nameOf: (choice: ChannelChoice) => string,
): Promise<void> {
  if (what === "everything") await evictAllDurableObjects();
  else if (what === "directory") await evictOne(env.DIRECTORY.getByName("default"));
  else if (what === "hubs") for (const location of LOCATIONS) await evictOne(hubAt(location));
  else await evictOne(channelStub(nameOf(what)));
}

/** Evicts an object if it is running. */
export async function evictOne(stub: DurableObjectStub): Promise<void> {
  try {
    await evictDurableObject(stub);
  } catch (error) {
    if (!String(error).includes("not currently running")) throw error;
  }
}

export const hubAt = (location: string, index = 0) =>
  env.HUB.getByName(hubName.format("default", { location, index }));

/** The object that has a channel. */
export const channelStub = (channel: string): DurableObjectStub<Channel> =>
  channel === "*"
    ? env.DIRECTORY.getByName("default")
    : env.CHANNEL.getByName(groupName.format("default", groups.groupOf(channel)));

/** The Hubs that it knows to have subscribers. */
export async function hubsOf(channel: string): Promise<string[]> {
  return await channelStub(channel).hubsOf(channel);
}

export function expectSame(actual: unknown, expected: unknown, what: string): void {
  expect({ [what]: actual }).toEqual({ [what]: expected });
}

/** Waits until no object knows of anybody; `channels` are those that were used. */
export async function expectNobody(channels: Iterable<string>): Promise<void> {
  expect([...(await askChannels()).keys()]).toEqual([]);
  const known = async (): Promise<string[]> => {
    return (await Promise.all(Array.from(["*", ...channels], hubsOf))).flat();
  };
  await expect.poll(known, { timeout: 2000, interval: 5 }).toEqual([]);
}

/** Who is where: peers by slot, and the names that choices stand for. */
export class Slots {
  readonly peers: (Peer | null)[] = Array.from({ length: SLOTS }, () => null);
  readonly all: Peer[] = [];
  /** Channels that were named. */
  readonly used = new Set<string>();
  readonly #lastIds: string[] = Array.from({ length: SLOTS }, () => "own");

  async open(slot: number, kind: PeerKind): Promise<Peer> {
    const peer = await Peer.open(kind);
    this.peers[slot] = peer;
    this.all.push(peer);
    this.#lastIds[slot] = peer.id;
    return peer;
  }

  readonly nameOf = (choice: ChannelChoice): string => {
    const name = "name" in choice ? choice.name : this.#lastIds[choice.ownOf]!;
    const channel = "inCapitals" in choice && choice.inCapitals ? name.toUpperCase() : name;
    // The Directory stands for the channel that everybody hears.
    if (channel !== "*") this.used.add(channel);
    return channel;
  };

  messagesOf(sendings: readonly Sending[], valueSize: number): Message[] {
    return sendings.map(({ to, payloadBytes }) =>
      newMessage(this.nameOf(to), Math.min(payloadBytes, payloadBytesMax(valueSize))),
    );
  }

  get present(): Peer[] {
    return this.peers.filter((peer) => peer !== null);
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.all.filter((peer) => peer.isOpen).map((peer) => peer.close()));
  }
}

/** Runs a property on fresh objects, whatever the run before has left. */
export async function withSlots(run: (slots: Slots) => Promise<void>): Promise<void> {
  const slots = new Slots();
  try {
    await run(slots);
  } catch (error) {
    await reset();
    throw error;
  } finally {
    await slots.closeAll();
  }
}

/** Where a body of HTTP, or a web page, publishes from. */
export const HTTP_VALUE_SIZE = 4;
