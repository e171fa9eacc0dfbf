/**
 * Moments and spans in int64 nanoseconds, and their conversion to and from amounts, which are doubles.
 *
 * Moments saturate at the end of int64. Amounts may be rounded, so a moment is found by testing, not by a formula.
 */
import { INT64_MAX } from "../../wire/ratelimit/numbers.ts";

const NS_PER_SECOND = 1e9;

/** The largest count, and the largest debt: above it, doubles skip whole numbers. */
export const AMOUNT_MAX = Number.MAX_SAFE_INTEGER;

/** A count, 0 to `AMOUNT_MAX`, changed by an integer and held there. */
export function addUpTo(count: number, by: number): number {
  return Math.min(AMOUNT_MAX, Math.max(0, count + by));
}

/** A moment that may lie behind the end of int64, held there. */
export function upToEnd(ns: bigint): bigint {
  return ns < INT64_MAX ? ns : INT64_MAX;
}

/** The amount that a rate per second gives between two moments; below 0 when the clock went back. */
export function amountBetween(fromNs: bigint, toNs: bigint, rate: number): number {
  return (Number(toNs - fromNs) * rate) / NS_PER_SECOND;
}

/** About how long a rate per second takes for an amount, ns, up to the end of int64. */
export function nsFor(amount: number, rate: number): bigint {
  const ns = Math.ceil((amount / rate) * NS_PER_SECOND);
  return ns < Number(INT64_MAX) ? BigInt(ns) : INT64_MAX;
}

/**
 * The first moment at which a test is true, for a test that stays true from then on. Rounding makes every
 * formula for it early or late by some nanoseconds, so the test itself is called.
 *
 * @param refusedNs a moment at which it does not hold
 * @param estimateNs about the moment; the closer, the fewer questions
 * @returns the end of int64 when it does not hold before
 */
export function firstMoment(
  refusedNs: bigint,
  estimateNs: bigint,
  holds: (ns: bigint) => boolean,
): bigint {
  let low = refusedNs;
  let high = upToEnd(estimateNs > low ? estimateNs : low + 1n);
  for (let step = 1n; !holds(high); step *= 2n) {
    if (high === INT64_MAX) return high;
    low = high;
    high = upToEnd(high + step);
  }
  for (let step = 1n; high - step > low; step *= 2n) {
    if (!holds(high - step)) {
      low = high - step;
      break;
    }
    high -= step;
  }
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}
