/** How long to wait before another attempt: exponential, with full jitter. */

/** Bounds of the waits between attempts. */
export interface BackoffBounds {
  /** Largest wait before the first further attempt. */
  readonly backoffBaseMs: number;
  /** Largest wait before any attempt. */
  readonly backoffMaxMs: number;
}

/**
 * The wait before an attempt, in ms: random, from 0 to a bound that doubles each time. Clients that lost their connections
 * together must not come back together.
 *
 * @param step 0 before the first further attempt
 * @param random from 0 to below 1
 */
export function backoffMs(
  { backoffBaseMs, backoffMaxMs }: BackoffBounds,
  step: number,
  random: number,
): number {
  return Math.floor(random * Math.min(backoffMaxMs, backoffBaseMs * 2 ** step));
}
