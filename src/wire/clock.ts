/** Time and chance, behind one interface that a test can stand in for: the client and rate limits share it. */

/** Longest delay of a platform's timer, ms: a longer one would end at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Where a client, or a rate limiter, gets the time from.
 *
 * @example
 * const clock: Clock = {
 *   nowMs: () => simulation.nowMs,
 *   setTimer: (run, delayMs) => simulation.schedule(run, delayMs),
 *   clearTimer: (timer) => simulation.cancel(timer),
 * };
 * const throttr = new ThrottrClient(transport, { clock });
 */
export interface Clock {
  /**
   * Milliseconds. A rate limiter expects them since the epoch, and stands a clock that goes back. The client measures
   * lengths of time only, from any moment, with a clock that never goes back. `performance.timeOrigin + performance.now()`
   * is good for both.
   */
  nowMs(): number;
  /**
   * Runs something once, later.
   *
   * @param delayMs 0 to 2^31 - 1
   * @returns what `clearTimer` takes
   */
  setTimer(run: () => void, delayMs: number): unknown;
  clearTimer(timer: unknown): void;
  /** From 0 to below 1, for the waits between attempts of the client; `Math.random` unless given. */
  random?(): number;
}
