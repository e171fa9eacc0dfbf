/** Where a shard that has become too large is split: at the median of its bytes. */
import { widthOf, type Range } from "../wire/range.ts";

/** Equal parts of a range that bytes are counted in. */
export const SIZE_CLASSES = 256;
/** A half with less of the bytes is not worth a shard: few large records lie on one side of any middle. */
const HALF_SHARE_MIN = 0.2;

/**
 * The border between two classes that comes nearest to halving the bytes.
 *
 * @param sums bytes by class: see `Ownership.weigh`
 * @returns the first hash of the upper half; null when a half would have less than a fifth, as one record's place can't be
 * divided
 */
export function middleBySize(sums: Float64Array, range: Range): number | null {
  const total = sums.reduce((sum, bytes) => sum + bytes, 0);
  let below = 0;
  let middleClass = 0;
  let middleBelow = -Infinity;
  for (let upper = 1; upper < SIZE_CLASSES; upper++) {
    below += sums[upper - 1]!;
    if (Math.abs(below - total / 2) >= Math.abs(middleBelow - total / 2)) continue;
    middleBelow = below;
    middleClass = upper;
  }
  if (total === 0 || Math.min(middleBelow, total - middleBelow) < total * HALF_SHARE_MIN)
    return null;
  return range.from + Math.ceil((middleClass * widthOf(range)) / SIZE_CLASSES);
}
