/**
 * What a namespace is doing: the answer to `GET /v1/overview`, and each event of `GET /v1/overview/live`.
 *
 * It is no snapshot: the objects of the namespace are asked at once, and each answers for itself. Times
 * are in ms since the epoch. Totals of requests outlive the objects that count them, but for the last counts
 * before one ends (docs/guarantees.md); figures per minute are an estimate from this minute and the last one.
 */

/** What is counted: in all, and in the last 60 seconds. */
export interface Rate {
  readonly total: number;
  readonly perMinute: number;
}

/** Decisions of `limit` by their outcome. Peeks, refunds and repeated answers to idempotent calls are not counted. */
export interface LimitRates {
  readonly allowed: Rate;
  readonly refused: Rate;
  /** Calls without a decision, such as `kind_mismatch`, `state_invalid` and `shard_full`. */
  readonly errors: Rate;
  /** Those of `allowed` and `refused` that callers decided from allowances. They report them with the next draw. */
  readonly local: Rate;
}

export interface Overview {
  /** When everybody had answered, by the clock of the door. */
  readonly atMs: number;
  /** The server's release. */
  readonly version: string;
  readonly namespace: string;
  /** Since when totals count: the earliest time of a shard; null where no shard answers. */
  readonly runningSinceMs: number | null;
  /** Requests in all, and by name: all names of `engine/counted-requests.ts`. */
  readonly requests: Rate & {
    /** By the names of calls, such as `increment`. */
    readonly byName: Readonly<Record<string, Rate>>;
    /**
     * By names that tell protocols apart, such as `EDGE_INCREMENT`.
     *
     * @deprecated of `byName`; 0.6 will not have it
     */
    readonly byType: Readonly<Record<string, Rate>>;
  };
  readonly readBytes: Rate;
  readonly writeBytes: Rate;
  /** Live records that LIST shows, and the bytes of the buffers' values. */
  readonly records: {
    readonly counters: number;
    readonly buffers: number;
    readonly bufferBytes: number;
  };
  readonly connections: {
    readonly open: number;
    readonly byTransport: Readonly<Record<Transport, number>>;
  };
  /** Those that connections begin with are among them. */
  readonly subscriptions: number;
  /** Channels with subscribers, without those that are called like a connection's id. */
  readonly channels: number;
  readonly semaphores: SemaphoreOverview;
  /** Decisions of all rate limits; a shard that still runs release 0.4 counts none. */
  readonly limits: LimitRates;
  /** By index; all that there are. */
  readonly shards: readonly ShardOverview[];
  /** By location and index; those that have connections. */
  readonly hubs: readonly HubOverview[];
}

/** What carries a connection. `events`: Server-Sent Events. */
export type Transport = "tcp" | "websocket" | "events";

export interface SemaphoreOverview {
  /** Semaphores that exist. */
  readonly objects: number;
  readonly holdings: number;
  /** Connections and leases that hold anything. */
  readonly holders: number;
  /** Of semaphores, of holdings, and of their index. */
  readonly usedBytes: number;
}

/** An object that did not answer within 2 s, or refused to. */
export interface Unreachable {
  readonly isUnreachable: true;
  /** `timeout`, `failed`, or the code that a shard refuses every request with, like `shards_mismatch`. */
  readonly code: string;
}

export type ShardOverview = {
  /** Its place on the circle of hashes: that of later shards changes when one splits. */
  readonly index: number;
  /** Its name: its index at first; of a shard that a split has made, the hash at which its range begins, in 8 hex digits. */
  readonly shard: string;
  /** The hashes from `from` to before `to`, which is at most 2^32, are its own. */
  readonly from: number;
  readonly to: number;
} & (ShardState | Unreachable);

export interface ShardState {
  readonly isUnreachable: false;
  /** When the shard has reported this; null when it was asked. Only in a namespace with more than 16 shards they report. */
  readonly reportedAtMs: number | null;
  /** It has had too many calls for half a minute. */
  readonly isHot: boolean;
  /** A split of it is under way. */
  readonly isSplitting: boolean;
  /** Why its last split does not come to an end, or why it does not split though it is large; null once it needs no split. */
  readonly splitProblem: string | null;
  readonly startedAtMs: number;
  /** Since when `requests` counts: it outlives the object. */
  readonly countedSinceMs: number;
  readonly requests: Rate;
  /** Records of all kinds in memory, those past their time until they are collected. */
  readonly records: number;
  readonly bytes: number;
  /** The budget of `bytes`: beyond it new records are refused. */
  readonly bytesMax: number;
  /** Requests that the budget has refused since the start. */
  readonly refusedForSpace: number;
  /** Rows of the journal since it was last cut, and their bytes. */
  readonly journalRows: number;
  readonly journalBytes: number;
  /** Rows of storage written since the start: what is billed. Setting an alarm is one. */
  readonly rowsWritten: number;
  /** By how much the time of its records is ahead of the platform's clock, which has gone back; mostly 0. */
  readonly clockLagMs: number;
}

export type HubOverview = {
  /** Where its clients are, in three letters; `XXX` where that is not known. */
  readonly location: string;
  readonly index: number;
} & (HubState | Unreachable);

export interface HubState {
  readonly isUnreachable: false;
  readonly connections: number;
  readonly subscriptions: number;
}
