/** Calls on channels over all doors, what subscribers received, and what a run lets them expect. */
import type { Connection, ObjectCall } from "./facts.ts";
import { TAKEN_MS } from "./goodbyes.ts";
import type { Call, Moment } from "./history.ts";
import { afterMs } from "./order.ts";

export type ChannelOperation =
  | { type: "subscribe" | "unsubscribe"; channel: string }
  /** `message` is given once in a run; the payload contains it. */
  | { type: "publish"; channel: string; message: number; payloadBytes: number }
  /** Over Server-Sent Events. `after` is the number of the last message that the listener has. */
  | { type: "listen"; channel: string; after: number | null };

/**
 * A status of the protocol; the answer of `POST /channels/{name}`; that a publication was executed, whose status was not seen; or the
 * number at which the stream of a listener begins: the stream says it after the messages that the listener had missed.
 */
export type ChannelOutcome =
  | { readonly status: number }
  | { readonly isExecuted: true }
  | { readonly delivered: number; readonly sequence: number | null }
  | { readonly start: number };

export type ChannelCall = Call<ChannelOperation, ChannelOutcome>;

export type Publication = Call<
  Extract<ChannelOperation, { type: "publish" }>,
  Extract<ChannelOutcome, { status: number } | { delivered: number } | { isExecuted: true }>
>;

export interface Receipt {
  readonly message: number;
  /** Null where a push does not say it, as in dialect 7.1. */
  readonly channel: string | null;
  /** The event's number; null for pushes of the protocol. */
  readonly number: number | null;
  readonly at: Moment;
}

/** A connection that takes pushes. */
export interface Subscriber {
  readonly connection: Connection;
  /** It begins with subscriptions to `*` and to its own ID. */
  readonly hasDefaults: boolean;
  /** The longest payload that a push to it can carry. */
  readonly payloadBytesMax: number;
  /** In the order in which they came. */
  readonly receipts: readonly Receipt[];
  /**
   * All that was sent to it before this moment has come: the begin of the last call that it had an answer to, as replies keep
   * behind pushes. NEVER for one that read to the end of the run; null for one that may have missed everything.
   */
  readonly heardUntil: Moment | null;
}

export interface ReplayRules {
  /** `REPLAY_MESSAGES_MAX` */
  readonly messagesMax: number;
  /** How long a message is kept, and a channel without subscribers is numbered. */
  readonly keptMs: number;
  readonly channelBytesMax: number;
  readonly groupBytesMax: number;
  /** The object that has a channel, but for the owner of an own channel. */
  readonly groupOf: (channel: string) => string;
}

/** What is known of a run with faults, and with listeners over HTTP. */
export interface ChannelRun {
  readonly rules: ReplayRules;
  /** In the order in which Hubs were called. */
  readonly carriages: readonly Carriage[];
}

/** A message in a call to a Hub. */
export interface Carriage {
  readonly message: number;
  readonly call: ObjectCall;
}

export const CHANNELS = "Channels";

/** @param hasTaken whether a connection has ended in such a way that the server has certainly executed what was sent over it */
export const withExecuted = (
  calls: readonly ChannelCall[],
  hasTaken: (connection: number) => boolean,
): ChannelCall[] =>
  calls.map((call) => {
    const { operation, connection, outcome, ended } = call;
    if (operation.type !== "publish" || outcome !== "unknown" || ended === null) return call;
    if (connection === null || !hasTaken(connection)) return call;
    return { ...call, ended: afterMs(ended.ms + TAKEN_MS), outcome: { isExecuted: true } };
  });

/** The longest payload that a push can carry to a subscriber of a value size. */
export function payloadBytesMax(valueSize: number): number {
  return 2 ** (8 * valueSize) - 1;
}
