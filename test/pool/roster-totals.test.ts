/** What a Hub says of its channels with all figures: it may have a hundred thousand names, and is asked often. */
import { beforeEach, expect, it, vi } from "vitest";
import type { Memberships } from "../../src/objects/hub/memberships.ts";
import { Roster } from "../../src/objects/hub/roster.ts";
import { Subscriptions, type Subscriber } from "../../src/objects/hub/subscription.ts";

/** 128 bits in hex. */
const idOf = (number: number): string => number.toString(16).padStart(32, "0");

function connect(roster: Roster, ownChannel: string, ...channels: string[]): Subscriber {
  const subscriptions = new Subscriptions();
  for (const channel of [ownChannel, ...channels]) {
    subscriptions.set(channel, { sinceMs: 0, readBytes: 0, writeBytes: 0 });
  }
  const connection = { ownChannel, subscriptions, hasJoinedGroups: true } as unknown as Subscriber;
  void roster.add(connection);
  return connection;
}

let roster: Roster;
beforeEach(() => {
  roster = new Roster({ change: async () => {} } as unknown as Memberships, 1000);
});

it("a Hub hashes the name of a channel once, however often it is asked for its figures", () => {
  for (let i = 0; i < 100; i++) connect(roster, idOf(i), "*", `room ${i % 10}`);
  const before = roster.totals();
  // A name is made bytes of to be hashed.
  const hashed = vi.spyOn(Uint8Array, "from");
  const last = connect(roster, idOf(100), "room 100");
  const after = roster.totals();
  const names = hashed.mock.calls.map(([name]) => name);
  hashed.mockRestore();
  expect(names).toEqual(["room 100", idOf(100)]);
  expect(after.channelHashes.length).toBe(before.channelHashes.length + 2);
  void roster.remove(last);
  expect(roster.totals()).toEqual(before);
});

it("a channel counts once, and as one of a connection where it is named like one", () => {
  connect(roster, idOf(1), "*", "news", idOf(2), idOf(3));
  const owner = connect(roster, idOf(2), "news");
  expect(roster.totals()).toMatchObject({ subscriptions: 7, namedChannels: 2 });
  expect(new Set(roster.totals().channelHashes).size).toBe(5);
  expect(roster.totals().channelHashes).toHaveLength(5);
  void roster.unsubscribe(owner, idOf(2));
  expect(roster.totals().channelHashes).toHaveLength(5);
});
