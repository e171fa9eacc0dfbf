/**
 * Delivery: messages on their way to a Hub. Several go in one call, and each learns its own part of the answer. Used by
 * groups of channels, and by publishers to connections' own channels.
 */
import type { Piece } from "./lane.ts";

/** What waits in the lane to a Hub. */
export interface Delivery extends Piece {
  /** Messages in it. */
  readonly count: number;
  /** @param delivered per message: how many subscriptions took it */
  resolve(delivered: Uint32Array): void;
}

/**
 * Gives each delivery its part of what a Hub has answered to all of them.
 *
 * @param delivered per message, of all deliveries in their order
 */
export function resolveDeliveries(deliveries: readonly Delivery[], delivered: Uint32Array): void {
  let at = 0;
  for (const delivery of deliveries) {
    delivery.resolve(delivered.subarray(at, at + delivery.count));
    at += delivery.count;
  }
}
