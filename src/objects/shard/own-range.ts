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
import { assertSamePlacement, assertSameSeed } from "./same-placement.ts";

/** What a namespace has that has no data: one shard, for whoever reads. */
export const NOTHING_YET: ShardRanges = { shards: 0, range: WHOLE, begins: [] };

/** What a shard that a namespace began with knows of ranges: its own, and the first one all the others as well. */
export function initialRanges(index: number, shards: number): ShardRanges {
  const begins = index === 0 ? initialFroms(shards) : [];
  return { shards, range: initialRange(index, shards), begins };
}

/** Of one shard, whose data may begin at any time. */
export class OwnRange {
  readonly #place: ShardPlace;
  readonly #journal: Pick<Journal, "placement">;
  /** What the ranges were made of. */
  #of: Placement | null = null;
  #ranges = NOTHING_YET;

  constructor(place: ShardPlace, journal: Pick<Journal, "placement">) {
    this.#place = place;
    this.#journal = journal;
  }

  /** What the shard knows of ranges; without data it owns none, and says so of the whole circle. */
  get ranges(): ShardRanges {
    const { placement } = this.#journal;
    if (placement !== this.#of) {
      this.#of = placement;
      this.#ranges = placement === null ? NOTHING_YET : this.#rangesOf(placement);
    }
    return this.#ranges;
  }

  #rangesOf({ shards }: Placement): ShardRanges {
    return initialRanges(this.#place.kind === "initial" ? this.#place.index : 0, shards);
  }

  /**
   * Whether a call is for the range of this shard; none is while it has no data.
   *
   * @throws ThrottrError `shards_mismatch`, `batch_version`
   */
  has(asked: Placement): boolean {
    const inForce = this.#journal.placement;
    const own = this.ranges;
    if (inForce === null) return false;
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
