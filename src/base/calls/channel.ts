/**
 * What a group of channels and the Directory can be asked for, by doors and Hubs. See `calls/shard.ts` on releases
 * that meet.
 */
import type { MinuteReport } from "../../engine/minute-report.ts";
import type { Revocations } from "../../engine/revocations.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { HistoryMinute } from "../../wire/history.ts";
import type { ShardReport } from "./shard.ts";

/** What came of publications. */
export interface PublishedAll {
  /** Per message: how many subscriptions took it; null when no subscription took any. */
  readonly delivered: Uint32Array | null;
  /** Per message: its number, NaN where the channel has none; null when no channel has any. */
  readonly sequences: Float64Array | null;
  /** Null where the group has taken all messages. */
  readonly refused: RefusedMessages | null;
}

/** Messages whose number the disk has refused: no subscription gets them. */
export interface RefusedMessages {
  /** Per message: 1 for a refused one. */
  readonly flags: Uint8Array;
  /** Of the disk. */
  readonly error: string;
}

/** @throws Error when one of the messages from `from` up to `to` was refused */
export function assertTaken({ refused }: PublishedAll, from: number, to: number): void {
  if (refused?.flags.subarray(from, to).includes(1)) throw new Error(refused.error);
}

/** What came of messages to one channel. */
export interface Published {
  /** Per message: how many subscriptions took it. */
  readonly delivered: readonly number[];
  /** Number of the first message; null in a channel whose messages are not numbered. */
  readonly sequence: number | null;
}

/** Where a listener begins: the number of the last message so far, and those that it is given again. */
export interface Listened {
  readonly sequence: number;
  /** Number of the first message of `replay`. */
  readonly replayFrom: number;
  /** Format: `wire/messages.ts`. */
  readonly replay: Uint8Array;
}

/** What a Directory says of its namespace. */
export interface DirectorySurvey {
  /** Names of the Hubs that have connections, as far as the Directory knows. */
  hubs: string[];
  /** What HTTP callers have asked, and what was asked in Hubs that have no connections any more. */
  figures: TallyFigures;
  /** What Hubs have reported. Release 0.4 leaves it out. */
  kept?: KeptHub[];
  /**
   * Of the first of the two, what was asked since the Directory started, for a series that begins at 0 with it. Figures of
   * Hubs come and go by their own names, and would be counted twice there.
   */
  doors: TallyFigures;
}

/** A namespace of the deployment. */
export interface ListedNamespace {
  readonly name: string;
  /** When its first shard told, in ms since the epoch: its first request on a key, or the first start under this release. */
  readonly registeredAtMs: number;
}

/** What a Hub has counted by its last report, with connections or without. */
export interface KeptHub {
  hub: string;
  /** Since when, ms since the epoch: a Hub that was started again says another time of itself. */
  sinceMs: number;
  tally: TallyFigures;
}

/** What a Hub tells with its last counts. */
export interface HubReport {
  /** Since when it has counted, ms since the epoch. */
  readonly sinceMs: number;
  /** What it has not reported yet; null for nothing, or without `HISTORY`. */
  readonly report: MinuteReport | null;
}

/** The Directory answers all of it as well: it is the object of the channel `*`. */
export interface ChannelCalls extends Rpc.DurableObjectBranded {
  /**
   * Gives messages to the subscribers of their channels. Returns when every Hub has them that is not slow.
   *
   * @param publications format: `wire/channel-batch.ts`
   */
  publishAll(publications: Uint8Array): Promise<PublishedAll>;

  /**
   * A Hub has its first subscribers of some channels, or has lost its last ones.
   *
   * @param changes format: `wire/channel-batch.ts`
   * @param life ID of the Hub's life, from its start to its end: a name that other lives may have joined is left only when the Hub
   * confirms it. Release 0.4 leaves it out
   * @returns which of the changes are joins that there is no room for
   */
  change(hub: string, changes: Uint8Array, life?: string): number[];

  /**
   * A Hub has a client that wants numbered messages: numbers them from now on. Null when there is no room for the
   * Hub.
   *
   * @param after number of the last message that the listener has; null when it has none
   * @param life as in `change`
   */
  listenTo(channel: string, hub: string, after: number | null, life?: string): Listened | null;

  /** Names of the Hubs that have subscribers of a channel. */
  hubsOf(channel: string): string[];

  // What follows is about one channel: `*` in the Directory, or that of an object of release 0.4.

  /** A Hub has a subscriber from now on. */
  join(hub: string): Promise<void>;

  /** A Hub has no subscriber any more. It is asked whether that is so. */
  leave(hub: string): Promise<void>;

  /** Names of the Hubs that have subscribers. */
  hubs(): Promise<string[]>;

  /** As `listenTo`. */
  listen(hub: string, after: number | null): Promise<Listened>;

  /** @param messages format: `wire/messages.ts` */
  publish(messages: Uint8Array, count: number): Promise<Published>;
}

/** The Directory is the object of the channel `*`, with the tasks of a directory beside that. */
export interface DirectoryCalls extends ChannelCalls {
  /** Keeps what a door has counted. */
  absorb(figures: TallyFigures): void;

  /**
   * A Hub has no connections any more; its counts are kept here. It is asked whether it has none.
   *
   * @param last Hubs of release 0.4 leave it out
   */
  retire(hub: string, figures: TallyFigures, last?: HubReport | null): Promise<void>;

  /**
   * What an object has counted, once a minute. Release 0.4 does not know it.
   *
   * @param object name of a Shard or a Hub
   * @param counts of a Hub, which keeps none: all of them, as `StoredCounts` takes them
   * @param shard of a Shard: what it is and has
   * @returns whether reports of shards are read: a shard then reports once more before it sleeps. Releases before 0.5.0 return
   * nothing
   */
  report(
    object: string,
    report: MinuteReport,
    counts?: Uint8Array | null,
    shard?: ShardReport | null,
  ): Promise<boolean>;

  /**
   * The last report of each shard, as far as known: of none before the first of these calls. Releases before 0.5.0 do not
   * know it.
   *
   * @param isKept they are stored before they are returned, so that no count is ever less than it was
   */
  shardReports(isKept: boolean): Promise<ShardReport[]>;

  /** The whole minutes of the last hour. Release 0.4 does not know it. */
  history(): Promise<HistoryMinute[]>;

  /** The Hubs that have connections, and what was counted beside them. */
  survey(): Promise<DirectorySurvey>;

  /**
   * In the Directory of the deployment: lists a namespace, unless it is listed.
   *
   * @returns false when as many are listed as can be
   */
  registerNamespace(namespace: string): boolean;

  /** In the Directory of the deployment: namespaces in the order of their names, behind a name. */
  namespacesPage(after: string | null, limit: number): ListedNamespace[];

  /** Revokes a token of the namespace by its ID; in the Directory of the deployment one for all. False: no room. */
  revokeToken(id: string, expiresAtMs: number | null): Promise<boolean>;

  /** Revokes all such tokens that were issued before a moment. */
  revokeTokensBefore(issuedBeforeMs: number): Promise<void>;

  /** The revoked tokens; null if the caller has this version of the list. */
  revokedTokens(version: number): Revocations | null;

  /** The revoked tokens, without those that have expired. */
  revocations(): Revocations;

  /** Lets the Hubs of the namespace end the connections of revoked tokens for all namespaces. */
  endConnections(list: Revocations): Promise<void>;

  /** These Hubs had no connections when they were asked: checks that, and drops those that confirm it. */
  suspect(hubs: string[]): Promise<void>;
}
