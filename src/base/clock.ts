/**
 * The two clocks of doors and objects. Nothing else in the server reads `Date.now()`: so a build for tests can put another
 * module in the place of this one, whose present is ahead of the machine's (`src/test-worker/clock.ts`).
 *
 * `Date.now()` stands still while code runs, and moves with I/O.
 */

/**
 * The present, in ms since the epoch: for what callers know as time. Records, leases and tokens end by it, limits refill,
 * alarms are set, and figures are counted by the minute.
 */
export function presentMs(): number {
  return Date.now();
}

/**
 * For how long something is really waited for, in ms from any moment: a peer that does not read, a frame that does not go on,
 * a call that has no answer. Such waits have timers of the runtime beside them, which a test can't move.
 */
export function stopwatchMs(): number {
  return Date.now();
}
