/** The time, and what is to happen later, behind one interface that a test can stand in for. */

/** Longest delay of a platform's timer, ms: a longer one would end at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * A clock with timers.
 *
 * @example
 * const stopped: Clock = { now: () => 0, after: () => () => {} };
 */
export interface Clock {
  /** Milliseconds since the epoch. It may go back: nobody relies on it for more than a wait. */
  now(): number;
  /**
   * Calls back once, in so many milliseconds, 0 to 2^31 - 1.
   *
   * @returns call it, and the callback is not called any more
   */
  after(delayMs: number, callback: () => void): () => void;
}

/**
 * The clock of the platform.
 *
 * @example
 * const elapsedMs = systemClock.now() - startedAtMs;
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};
