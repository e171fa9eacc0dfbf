/**
 * The range that a shard owns, and what it says to callers that take it for another.
 *
 * A call for another range changes nothing. So a caller that guesses wrong costs two calls, and can never write to a shard
 * that does not own the key.
 */
import { batchVersion, type Placement } from "../../wire/batch.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { ShardRanges } from "../../wire/moved.ts";
import { initialFroms, initialRange, isSameRange, WHOLE, type Range } from "../../wire/range.ts";
import type { ShardPlace } from "../../base/names.ts";
import type { Journal } from "./journal.ts";
import type { SplitRows } from "./split-rows.ts";
import { assertSamePlacement, assertSameSeed } from "./same-placement.ts";

/** What the journal says of the range. */
interface RangeJournal extends Pick<Journal, "placement"> {
  readonly split: Pick<SplitRows, "range" | "gone" | "isActive">;
}

const NONE: readonly number[] = [];

/** Of a namespace without data: one shard, which has the whole circle. */
export const NOTHING_YET: ShardRanges = { shards: 0, range: WHOLE, begins: [] };

/** What a shard that a namespace began with knows of ranges: its own, and the first one all the others as well. */
export function initialRanges(index: number, shards: number): ShardRanges {
  const begins = index === 0 ? initialFroms(shards) : [];
  return { shards, range: initialRange(index, shards), begins };
}

/** Of one shard, whose data may begin at any time, and whose range shrinks when it splits. */
export class OwnRange {
  readonly #place: ShardPlace;
  readonly #journal: RangeJournal;
  /** What the ranges were made of. */
  #placement: Placement | null = null;
  #gone: readonly number[] = NONE;
  #range: Range | null = null;
  #ranges = NOTHING_YET;
  /** What the shard owned before its last split, while it still has all of that; null else. */
  former: Range | null = null;

  constructor(place: ShardPlace, journal: RangeJournal) {
    this.#place = place;
    this.#journal = journal;
  }

  /** What the shard knows of ranges; without data it owns none, and says so of the whole circle. */
  get ranges(): ShardRanges {
    const { placement, split } = this.#journal;
    if (placement !== this.#placement || split.range !== this.#range || split.gone !== this.#gone) {
      this.#placement = placement;
      this.#range = split.range;
      this.#gone = split.gone;
      this.#ranges = placement === null ? NOTHING_YET : this.#rangesOf(placement);
    }
    return this.#ranges;
  }

  #rangesOf({ shards }: Placement): ShardRanges {
    const { range, gone } = this.#journal.split;
    const initial = initialRanges(this.#place.kind === "initial" ? this.#place.index : 0, shards);
    const begins = [...new Set([...initial.begins, ...gone])].toSorted((a, b) => a - b);
    return { shards, range: range ?? initial.range, begins };
  }

  /** Whether a call is for the range of before the last split, of which the shard still has all records. */
  wasOf({ range }: Placement): boolean {
    return range !== undefined && this.former !== null && isSameRange(this.former, range);
  }

  /** The shard serves its range: it has data, and all of it. */
  get isInForce(): boolean {
    return this.#journal.placement !== null && this.#journal.split.isActive;
  }

  /**
   * Whether a call is for the range of this shard; none is while it has no data.
   *
   * @throws ThrottrError `shards_mismatch`, `batch_version`
   */
  has(asked: Placement): boolean {
    const inForce = this.#journal.placement;
    if (inForce === null || !this.#journal.split.isActive) return false;
    const own = this.ranges;
    if (asked.range === undefined) {
      assertWithoutRange(own, inForce, asked);
      return true;
    }
    assertSameSeed(inForce, asked);
    return isSameRange(own.range, asked.range);
  }

  /**
   * Checks that a call is for the range of this shard.
   *
   * @throws ThrottrError `shards_mismatch`, `shard_moved`, `batch_version`
   */
  assert(asked: Placement): void {
    if (!this.has(asked)) throw shardMoved(this.ranges.range);
  }

  /**
   * Checks it again in the middle of a call, which may have waited: the range may be another by now.
   *
   * @throws ThrottrError as `assert`
   */
  assertStill(asked: Placement): void {
    if (this.#journal.placement !== null) this.assert(asked);
  }
}

/** A door of a release before 0.5.0 takes the shard for one of as many as it was told of. */
function assertWithoutRange(own: ShardRanges, inForce: Placement, asked: Placement): void {
  assertSamePlacement(inForce, asked);
  const initial = initialFroms(own.shards).indexOf(own.range.from);
  const isWhole = initial >= 0 && isSameRange(own.range, initialRange(initial, own.shards));
  if (!isWhole) throw batchVersion();
}

/** The refusal of a call for another range. */
export function shardMoved({ from, to }: Range): ThrottrError {
  return new ThrottrError("shard_moved", `the shard owns the hashes from ${from} to ${to}`);
}
