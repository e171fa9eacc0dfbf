/**
 * What Shards ask of each other when one of them splits, and what an operator asks: a part of `ShardCalls`.
 *
 * None of these calls waits until a shard has handed its range over: what they answer is part of handing it over.
 */
import type { HashKey } from "../../engine/hash.ts";
import type { Placement } from "../../wire/batch.ts";
import type { Range } from "../../wire/range.ts";

/** A part of a shard's range, as it is offered to the shard that is to own it. */
export interface RangeOffer {
  readonly placement: Placement;
  /** Seed of the table of the shard that offers it: see `Ownership.clear`. */
  readonly hashKey: HashKey;
  readonly range: Range;
  /** Of the shard that offers it: the first hash of its range. */
  readonly parent: number;
  /** Of its split. */
  readonly attempt: number;
}

/**
 * What became of a row that was offered. `applied`: it is written, now or before. `lower`: a later attempt has begun.
 * `gap`: rows before it are missing. `active`: the shard serves its range, and adopts nothing.
 */
export type AdoptOutcome = "applied" | "lower" | "gap" | "active";

/** What a shard says to one that has adopted a part of its range, and asks whether it may serve it. */
export type Verdict = "given" | "copying" | "givenUp" | "unknown";

/** How far a split is. */
export interface SplitFigures {
  /** First hash of the upper part. */
  readonly at: number;
  readonly attempt: number;
  /** The upper part is another shard's, which may not know yet. */
  readonly isGiven: boolean;
}

/** What a shard says of itself. */
export interface ShardState {
  readonly range: Range;
  readonly records: number;
  /** In memory, of `bytesMax`. */
  readonly bytes: number;
  /** `SHARD_BYTES_MAX`. */
  readonly bytesMax: number;
  /** Calls a second with requests on keys, in the last whole five seconds. */
  readonly callsPerSecond: number;
  /** There have been more calls than `SPLIT_CALLS_PER_SECOND` for half a minute. */
  readonly isHot: boolean;
  /** False while the range is adopted, and not in force. */
  readonly isActive: boolean;
  /** Null when no split is under way. */
  readonly split: SplitFigures | null;
  /** Why a split does not come to its end, as long as the shard needs it (`SplitProblem`); null for no such split. */
  readonly splitProblem: string | null;
  /** Records of a range that was given away are still in memory: no split can begin. */
  readonly isForgetting: boolean;
}

/** What a shard that its namespace began with owns, or is about to, and what it knows of others. */
export interface WitnessedShard {
  readonly placement: Placement;
  readonly range: Range;
  /** Where other ranges begin. */
  readonly begins: readonly number[];
  /** The highest attempt at a split that it has begun. */
  readonly attempt: number;
}

export interface SplitCalls {
  /**
   * Begins a split, and returns once that is stored.
   *
   * @param at first hash of the upper part; the shard chooses where it is null
   * @throws Error `split_refused`
   */
  split(placement: Placement, at: number | null): Promise<SplitFigures>;

  /**
   * Null while the shard has no data.
   *
   * @param placement that the caller takes the shard for; it is not checked unless given
   * @param isToReport as of `ShardCalls.summary`
   * @throws Error `shard_moved` as other calls for a range
   */
  shardState(placement?: Placement, isToReport?: boolean): Promise<ShardState | null>;

  /**
   * Offers a row of a range. The answer comes once the row is on disk.
   *
   * @param number of the row in its attempt, from 1 on
   * @param usage of the records of the row: see `moved-usage.ts`
   */
  adopt(
    offer: RangeOffer,
    number: number,
    row: Uint8Array,
    usage: Uint8Array,
  ): Promise<AdoptOutcome>;

  /**
   * Says that the range that was adopted in an attempt is the shard's from now on.
   *
   * @param parentMs the time of the shard that has given it, by its own clock
   * @returns false where nothing was adopted in that attempt
   */
  given(attempt: number, parentMs: number): Promise<boolean>;

  /** A shard that has adopted the range from `from` on, in an attempt, asks what has become of the attempt. */
  verdictOn(from: number, attempt: number): { verdict: Verdict; nowMs: number };

  /**
   * A shard that has its range from this one has split. A hint: it shortens the way of doors that know little, and says
   * where the range of a lost shard ends.
   *
   * @param begins of all ranges behind its own that it knows of
   * @returns false where the shard has no data, and keeps nothing
   */
  noteSplit(begins: readonly number[]): boolean;

  /**
   * Asked of the witness of a namespace: stores what a shard says of itself, unless it has said it of a later attempt.
   *
   * @param index of the shard
   */
  witness(index: number, said: WitnessedShard): void;

  /** Asked of the witness: what a shard has said last; null for nothing. */
  witnessed(index: number): WitnessedShard | null;
}
