/** What a Hub can be asked for, by doors, groups of channels, and Shards. See `calls/shard.ts` on releases that meet. */
import type { Revocations } from "../../engine/revocations.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { Transport } from "../../wire/overview.ts";
import type { Batch } from "../../wire/messages.ts";

/** What came of messages of one channel, as release 0.4 asks for it. */
export interface Delivered {
  /** Per batch and message: how many subscriptions took it. */
  readonly delivered: number[][];
  /** False when the Hub has no subscribers; it joins again with its first one. */
  readonly isJoined: boolean;
}

/** What came of messages that a group of channels gave to a Hub. */
export interface DeliveredAll {
  /** Per message: how many subscriptions took it. */
  readonly delivered: Uint32Array;
  /** Which of the channels have no subscribers here; the Hub joins again with the first one. */
  readonly denied: Uint32Array;
}

/** What a Hub counts. */
export interface HubFigures {
  /** Requests that no shard counts: publications, subscriptions, requests on the namespace. */
  readonly tally: TallyFigures;
  /** Since when `tally` counts, in ms since the epoch: the start of the Hub. Release 0.4 leaves it out. */
  readonly countedSinceMs?: number;
  /** Open ones. */
  readonly connections: number;
  /** The same, by what carries them. */
  readonly byTransport: Readonly<Record<Transport, number>>;
  /** Those of the yrmcds protocol among them. */
  readonly counterConnections: number;
  /** Of all connections, those that every one begins with among them. */
  readonly subscriptions: number;
  /** A number for each channel with subscribers that tells it from others; named channels come first. */
  readonly channelHashes: Float64Array;
  /** How many of them are named; release 0.4 leaves it out. */
  readonly namedChannels?: number;
}

/** A subscription as CHANNEL has it. */
export interface SubscriberFigures {
  readonly id: Uint8Array;
  /** Whole milliseconds since the epoch. */
  readonly sinceMs: number;
  /** What is to be added, less than a millisecond; release 0.4 leaves it out. */
  readonly sinceNs?: number;
  /** Payload bytes that the connection has published to the channel. */
  readonly readBytes: number;
  /** Payload bytes that it was sent from the channel. */
  readonly writeBytes: number;
}

/** Connections are opened by `fetch`: see `open-request.ts`. */
export interface HubCalls extends Rpc.DurableObjectBranded {
  /**
   * Pushes messages of several channels to their subscribers here.
   *
   * @param deliveries format: `wire/channel-batch.ts`
   */
  deliverAll(deliveries: Uint8Array): DeliveredAll;

  /** Pushes messages of a channel to its subscribers here. Objects of release 0.4 know no other call. */
  deliver(channel: string, batches: readonly Batch[]): Delivered;

  /**
   * Pushes messages to the connections whose own channels these are.
   *
   * @param publications format: `wire/channel-batch.ts`
   * @returns per message: how many connections took it
   */
  deliverToOwners(publications: Uint8Array): Uint32Array;

  /** Pushes messages to the connection whose own channel this is. Doors of release 0.4 know no other call. */
  deliverToOwner(channel: string, messages: Uint8Array): number[];

  /** Counts of now, from memory alone. */
  figures(): HubFigures;

  /** Of some connection ids, 16 bytes each: those whose connections have ended. */
  gone(ids: Uint8Array): Uint8Array;

  /**
   * Connections by connected at and id, behind a key of the two. Format: `wire/page.ts`.
   *
   * @param hasAllCounts rows are the longer ones; doors of release 0.4 leave it out
   */
  connectionsPage(after: Uint8Array | null, bytesMax: number, hasAllCounts?: boolean): Uint8Array;

  /** Channels with subscribers here, by name, behind a name. Format: `wire/page.ts`. */
  channelsPage(
    after: Uint8Array | null,
    bytesMax: number,
    prefixes: readonly Uint8Array[],
  ): Uint8Array;

  /** The row of a connection in CONNECTIONS; null when it is not here. */
  connectionRow(id: Uint8Array): Uint8Array | null;

  /**
   * Closes the connections of revoked tokens.
   *
   * @param issuer `ns` of these tokens
   * @returns how many connections there were
   */
  endRevoked(issuer: string, list: Revocations): number;

  /** The subscriptions to a channel here. */
  subscribers(channel: string): SubscriberFigures[];
}
