/**
 * Subscriptions of a connection, and how they are packed into the attachment to outlive hibernation.
 *
 *     packed = (since f64 ms, read bytes f64, write bytes f64, length u8, channel)*
 */
import { binaryBytes, binaryString, ByteWriter } from "../../wire/bytes.ts";
import type { Batch, Pushes } from "../../wire/messages.ts";
import type { Transport } from "../../wire/overview.ts";
import type { ConnectionRow } from "../../wire/throttr/connection-row.ts";

/** Of one connection to one channel; 25 bytes and the name in the attachment. */
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

// Three f64 and the length of the name.
const ENTRY_HEADER_BYTES = 25;

/** By channel, as a binary string. */
export class Subscriptions extends Map<string, Subscription> {
  /** Bytes that they take packed. A sum, as one message of a client may ask for a million subscriptions beyond the limit. */
  packedBytes = 0;

  override set(channel: string, subscription: Subscription): this {
    if (!this.has(channel)) this.packedBytes += packedBytesOf(channel);
    return super.set(channel, subscription);
  }

  override delete(channel: string): boolean {
    const isDeleted = super.delete(channel);
    if (isDeleted) this.packedBytes -= packedBytesOf(channel);
    return isDeleted;
  }
}

const packedBytesOf = (channel: string): number => ENTRY_HEADER_BYTES + channel.length;

/** A connection as the Hub's lists of subscribers know it. */
export interface Subscriber {
  readonly id: Uint8Array;
  /** The name of the channel that only this connection reads: its id in hex. */
  readonly ownChannel: string;
  /** Milliseconds since the epoch. */
  readonly connectedAtMs: number;
  readonly transport: Transport;
  readonly subscriptions: Subscriptions;
  /** Bytes that its packed subscriptions may take. */
  readonly subscriptionBytesMax: number;
  /** Groups of channels know of the subscriptions: false until they are told of those that release 0.4 made. */
  readonly hasJoinedGroups: boolean;
  /** Subscribers with the same form take the same bytes as pushes. */
  readonly pushForm: number;
  /** The pushes of messages in this subscriber's form. */
  pushesOf(channel: Uint8Array, batch: Batch): Pushes;
  /**
   * Sends pushes to it, now or once the reply under way has ended. False when it can't take them.
   *
   * @param sequence number of the first message; null in a channel whose messages are not numbered
   */
  push(pushes: Pushes, sequence: number | null): boolean;
  /** Stores that groups of channels know of the subscriptions. */
  storeJoinedGroups(): void;
  /** The row that CONNECTIONS has of it. */
  row(): ConnectionRow;
}

/** Adds a subscription; null when there is no place for it. */
export function addSubscription(
  {
    subscriptions,
    subscriptionBytesMax,
  }: Pick<Subscriber, "subscriptions" | "subscriptionBytesMax">,
  channel: string,
  sinceMs: number,
): Subscription | null {
  if (subscriptions.packedBytes + packedBytesOf(channel) > subscriptionBytesMax) return null;
  const subscription = { sinceMs, readBytes: 0, writeBytes: 0 };
  subscriptions.set(channel, subscription);
  return subscription;
}

/** Binary and without padding: an attachment has 16 KiB, and more subscriptions fit than of JSON. */
export function packSubscriptions(subscriptions: Subscriptions): Uint8Array {
  const out = new ByteWriter(subscriptions.packedBytes);
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

/** The inverse of `packSubscriptions`. */
export function unpackSubscriptions(packed: Uint8Array): Subscriptions {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const subscriptions = new Subscriptions();
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
