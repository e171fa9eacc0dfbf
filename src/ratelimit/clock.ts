/** The clock of rate limits, and the shape that clocks had up to release 0.4. */
import { isClock, type Clock } from "../wire/clock.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";

/**
 * A clock in the shape of release 0.4.
 *
 * @deprecated give a `Clock`, with `nowMs`, `setTimer` and `clearTimer`; the next release takes no other
 */
export interface LegacyClock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once; returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/**
 * The clock of the platform. `now` and `after` are those of release 0.4, and go with the next one.
 *
 * @example
 * const elapsedMs = systemClock.nowMs() - startedAtMs;
 */
export const systemClock: Clock & LegacyClock = {
  nowMs: () => Date.now(),
  // Where it counts from the epoch, as in Workers, it is the same clock as `Date`, and dearer to read.
  ...(performance.timeOrigin === 0 ? {} : { monotonicMs: () => performance.now() }),
  setTimer: (run, delayMs) => setTimeout(run, delayMs),
  clearTimer: (timer) => {
    clearTimeout(timer as number);
  },
  now: () => Date.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

const adapted = new WeakMap<LegacyClock, Clock>();

/**
 * Adapts a clock of either shape. A clock is adapted once: limiters with one clock share what they have drawn.
 *
 * @throws RateLimitError `configuration_invalid` for what is neither
 */
export function clockOf(clock: Clock | LegacyClock): Clock {
  if (isClock(clock)) return clock;
  if (!isLegacy(clock)) {
    throw configurationInvalid("clock", "expected nowMs, setTimer and clearTimer", clock);
  }
  const known = adapted.get(clock);
  if (known !== undefined) return known;
  const adapter: Clock = {
    nowMs: () => clock.now(),
    setTimer: (run, delayMs) => clock.after(delayMs, run),
    clearTimer: (cancel) => {
      (cancel as () => void)();
    },
  };
  adapted.set(clock, adapter);
  return adapter;
}

function isLegacy(clock: LegacyClock | null): clock is LegacyClock {
  return typeof clock?.now === "function" && typeof clock.after === "function";
}
