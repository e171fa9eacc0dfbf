/** The order of moments, and points of time that no event was at: when a lease may end at the earliest, when a holder is gone. */
import type { Moment } from "./history.ts";

export const NEVER: Moment = { tick: Infinity, ms: Infinity };

/** Before all events of a millisecond. */
export const beforeMs = (ms: number): Moment => ({ tick: -Infinity, ms });
/** After all events of a millisecond. */
export const afterMs = (ms: number): Moment => ({ tick: Infinity, ms });

/** Below zero when `a` is earlier. Virtual time orders moments, and their ticks those of one time. */
export function compare(a: Moment, b: Moment): number {
  if (a.ms !== b.ms) return a.ms < b.ms ? -1 : 1;
  if (a.tick !== b.tick) return a.tick < b.tick ? -1 : 1;
  return 0;
}

export const isBefore = (a: Moment, b: Moment): boolean => compare(a, b) < 0;
export const earlier = (a: Moment, b: Moment): Moment => (compare(a, b) <= 0 ? a : b);
export const later = (a: Moment, b: Moment): Moment => (compare(a, b) >= 0 ? a : b);

/** The first index whose item is not before a moment; the number of items when all are before it. */
export function lowerBound<T>(
  items: readonly T[],
  moment: Moment,
  momentOf: (item: T) => Moment,
): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(momentOf(items[middle]!), moment)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** For messages. */
export function describeMoment({ tick, ms }: Moment): string {
  if (ms === Infinity) return "the end of the run";
  return Number.isFinite(tick) ? `#${tick}` : `${ms.toFixed(1)} ms`;
}
