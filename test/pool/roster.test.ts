/** The subscribers of a Hub, whatever their channels' groups answer. */
import { expect, it } from "vitest";
import type { Memberships } from "../../src/objects/hub/memberships.ts";
import { Roster } from "../../src/objects/hub/roster.ts";
import { Subscriptions, type Subscriber } from "../../src/objects/hub/subscription.ts";

it("a channel whose subscription was refused is not listed, though it was while the group was asked", async () => {
  const gate = Promise.withResolvers<void>();
  const memberships = { change: () => gate.promise } as unknown as Memberships;
  const roster = new Roster(memberships, 10);
  const connection = {
    ownChannel: "own",
    subscriptions: new Subscriptions(),
    subscriptionBytesMax: 1000,
    connectedAtMs: 0,
    hasJoinedGroups: true,
  } as unknown as Subscriber;
  expect(roster.add(connection)).toBe(null);
  const change = roster.subscribe(connection, "c", 0);
  expect(roster.channels()).toEqual(["c"]);
  gate.reject(new Error("full"));
  await expect(change).rejects.toThrow("full");
  expect(roster.channels()).toEqual([]);
});
