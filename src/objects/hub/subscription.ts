/**
 * Subscriptions of a connection, and how they are packed to outlive hibernation.
 *
 *     packed = (since f64 ms, read bytes f64, write bytes f64, length u8, channel)*
 */
import { binaryBytes, binaryString, ByteWriter } from "../../wire/bytes.ts";

export interface Subscription {
  /**
   * Milliseconds since the epoch. The fraction tells subscriptions of one millisecond apart: each that a
   * Hub makes is later than the one before.
   */
  readonly sinceMs: number;
  /** Payload bytes that the connection has published to the channel. */
  readBytes: number;
  /** Payload bytes that the connection was sent from the channel. */
  writeBytes: number;
}

/** By channel, as a binary string. */
export type Subscriptions = Map<string, Subscription>;

const ENTRY_HEADER_BYTES = 25;

/** What a connection needs for its subscriptions. */
export interface Subscriber {
  readonly subscriptions: Subscriptions;
  /** Bytes that its packed subscriptions may take. */
  readonly subscriptionBytesMax: number;
}

/** Adds a subscription; null when there is no place for it. */
export function addSubscription(
  { subscriptions, subscriptionBytesMax }: Subscriber,
  channel: string,
  sinceMs: number,
): Subscription | null {
  let bytes = ENTRY_HEADER_BYTES + channel.length;
  for (const name of subscriptions.keys()) bytes += ENTRY_HEADER_BYTES + name.length;
  if (bytes > subscriptionBytesMax) return null;
  const subscription = { sinceMs, readBytes: 0, writeBytes: 0 };
  subscriptions.set(channel, subscription);
  return subscription;
}

export function packSubscriptions(subscriptions: Subscriptions): Uint8Array {
  const out = new ByteWriter(256);
  for (const [channel, { sinceMs, readBytes, writeBytes }] of subscriptions) {
    const at = out.reserve(ENTRY_HEADER_BYTES);
    out.view.setFloat64(at, sinceMs);
    out.view.setFloat64(at + 8, readBytes);
    out.view.setFloat64(at + 16, writeBytes);
    out.view.setUint8(at + 24, channel.length);
    out.copy(binaryBytes(channel));
  }
  return out.take();
}

export function unpackSubscriptions(packed: Uint8Array): Subscriptions {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const subscriptions: Subscriptions = new Map();
  for (let at = 0; at < packed.length;) {
    const length = view.getUint8(at + 24);
    subscriptions.set(binaryString(packed, at + ENTRY_HEADER_BYTES, length), {
      sinceMs: view.getFloat64(at),
      readBytes: view.getFloat64(at + 8),
      writeBytes: view.getFloat64(at + 16),
    });
    at += ENTRY_HEADER_BYTES + length;
  }
  return subscriptions;
}
