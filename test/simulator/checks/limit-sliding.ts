/** What a sliding window admits: the bucket of now, and the one before it by the share that the window still covers. */
import type { SlidingWindowConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import {
  exactFigures,
  giftsBeyond,
  givenWithin,
  ROUNDING,
  type Charge,
  type Figure,
  type LimitTrack,
} from "./limit-track.ts";
import type { ObjectTime } from "./object-time.ts";

/** What the two buckets on the grid of the epoch have for certain, the previous one by the share that is covered for certain. */
export function slidingViolation(
  { limit, windowNs }: SlidingWindowConfiguration,
  { charges, gifts }: LimitTrack,
  clocks: ClockHistory,
  object: string,
): string | null {
  const windowMs = Number(windowNs) / 1e6;
  const placed = charges
    .filter(({ least, span }) => least > 0 && span.toMs < Infinity)
    .map((charge) => ({ charge, at: clocks.spanOf(object, charge.span.fromMs, charge.span.toMs) }))
    .map(({ charge, at }) => ({ charge, at, bucket: bucketOf(at, windowMs) }));
  const free = gifts.filter(({ isFreeOfCharge }) => isFreeOfCharge);
  for (const { charge, at, bucket } of placed) {
    if (bucket === null) continue;
    let current = charge.least;
    let previous = 0;
    for (const other of placed) {
      if (other.charge.span.toMs >= charge.span.fromMs) continue;
      if (other.bucket === bucket) current += other.charge.least;
      if (other.bucket === bucket - 1) previous += other.charge.least;
    }
    const covered = Math.max(0, (bucket + 1) * windowMs - at.toMs) / windowMs;
    const counted = previous * covered + current;
    if (counted <= limit * (1 + ROUNDING)) continue;
    const { span } = charge;
    const within = { fromMs: span.fromMs - 2 * windowMs, toMs: span.toMs };
    const most = limit + givenWithin(free, within, limit);
    if (counted > most * (1 + ROUNDING)) {
      return `${current} units were granted after ${previous} in the window before, where ${most} are allowed; the last of them by ${charge.by}`;
    }
  }
  return null;
}

/** Null where it is not certain. */
function bucketOf({ fromMs, toMs }: MsSpan, windowMs: number): number | null {
  const bucket = Math.floor(fromMs / windowMs);
  return bucket === Math.floor(toMs / windowMs) ? bucket : null;
}

/**
 * A figure that contradicts what was charged in the two buckets that it counts: a charge was lost, or made twice. The clock of the
 * limit's object was never set.
 */
export function slidingFigureViolation(
  { limit, windowNs }: SlidingWindowConfiguration,
  track: LimitTrack,
  time: ObjectTime,
): string | null {
  const windowMs = Number(windowNs) / 1e6;
  for (const figure of exactFigures(track)) {
    const at = time.spanOf(figure.span);
    const bucket = bucketOf(at, windowMs);
    if (bucket === null) continue;
    const grid: Grid = { at, endMs: (bucket + 1) * windowMs, windowMs };
    const left = Object.values(figure.result.quotas)[0]!.remaining;
    const { least, most } = countedBy(figure, track.charges, grid, time);
    const counted = { fromMs: grid.endMs - 2 * windowMs, toMs: figure.span.toMs };
    const gifts = giftsBeyond(track.gifts, { fromMs: -Infinity, toMs: figure.span.fromMs });
    const high = limit - least - figure.cost + givenWithin(gifts, counted, limit);
    if (left > Math.max(0, high) + ROUNDING) {
      return `${left} are left after ${figure.by}: a charge is lost, as at most ${high.toFixed(3)} can be left`;
    }
    const low = Math.floor(limit - most + ROUNDING);
    if (left < low) {
      return `${left} are left after ${figure.by}: too much was charged, as at least ${low} must be left`;
    }
  }
  return null;
}

/** The two buckets of a moment. */
interface Grid {
  /** By the object's time. */
  readonly at: MsSpan;
  /** The end of the bucket of that moment. */
  readonly endMs: number;
  readonly windowMs: number;
}

/** What a window counts at the moment of a figure: for certain, without its own charge, and at most, with it. */
function countedBy(
  { span }: Figure,
  charges: readonly Charge[],
  { at, endMs, windowMs }: Grid,
  time: ObjectTime,
): { readonly least: number; readonly most: number } {
  const coveredLeast = Math.max(0, endMs - at.toMs) / windowMs;
  const coveredMost = Math.min(1, (endMs - at.fromMs) / windowMs);
  const [startMs, firstMs] = [endMs - windowMs, endMs - 2 * windowMs];
  let least = 0;
  let most = 0;
  for (const charge of charges) {
    if (charge.span.fromMs > span.toMs) continue;
    const made = time.spanOf(charge.span);
    if (made.toMs < firstMs) continue;
    const isOver = charge.span.toMs < span.fromMs;
    const possible = isOver ? (charge.mostAfter ?? charge.most) : charge.most;
    most += possible * (made.toMs >= startMs ? 1 : coveredMost);
    if (isOver && made.fromMs >= startMs) least += charge.least;
    else if (isOver && made.fromMs >= firstMs) least += charge.least * coveredLeast;
  }
  return { least, most };
}
