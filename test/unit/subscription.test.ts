/** Subscriptions of a connection, and their form in its attachment. */
import { expect, it } from "vitest";
import {
  addSubscription,
  packSubscriptions,
  Subscriptions,
  unpackSubscriptions,
} from "../../src/objects/hub/subscription.ts";

it("the bytes of subscriptions are those that they take packed, whatever came and went", () => {
  const subscriptions = new Subscriptions();
  const to = { subscriptions, subscriptionBytesMax: 100 };
  const expectBytes = (): void => {
    expect(packSubscriptions(subscriptions)).toHaveLength(subscriptions.packedBytes);
  };
  expectBytes();
  expect(addSubscription(to, "first", 1)).not.toBeNull();
  expect(addSubscription(to, "", 2)).not.toBeNull();
  expectBytes();
  expect(addSubscription(to, "x".repeat(46), 3)).toBeNull();
  expect(subscriptions.delete("absent")).toBe(false);
  expect(subscriptions.delete("first")).toBe(true);
  expectBytes();
  expect(addSubscription(to, "x".repeat(46), 3)).not.toBeNull();
  expectBytes();
  const restored = unpackSubscriptions(packSubscriptions(subscriptions));
  expect(restored).toEqual(subscriptions);
  expect(restored.packedBytes).toBe(subscriptions.packedBytes);
});
