/** The shards of a namespace: the answers to `GET /v1/shards` and `POST /v1/shards/split`. */

/** A split under way. */
export interface ShardSplit {
  /** First hash of the upper part. */
  readonly at: number;
  /** The upper part is another shard's, which may not know yet. */
  readonly isGiven: boolean;
}

/** A shard, and the hashes from `from` to before `to` that it owns. */
export interface ShardRow {
  /** Its index, or, of a shard that a split has made, the hash at which its range begins, in 8 hex digits. */
  readonly shard: string;
  readonly from: number;
  /** At most 2^32. */
  readonly to: number;
  readonly records: number;
  readonly bytes: number;
  readonly bytesMax: number;
  readonly callsPerSecond: number;
  /** It has had too many calls for half a minute. */
  readonly isHot: boolean;
  readonly split: ShardSplit | null;
  /** Why its last split does not come to an end, or why it does not split though it is large; null once it needs no split. */
  readonly splitProblem: string | null;
  /** When the shard has reported this, in ms since the epoch; null when it was asked. */
  readonly reportedAtMs: number | null;
}

/** In the order of the circle of hashes. */
export interface Shards {
  readonly shards: readonly ShardRow[];
}

/** A split that has begun. */
export interface BegunSplit {
  readonly shard: string;
  /** The shard that gets the upper part. */
  readonly newShard: string;
  readonly at: number;
}
