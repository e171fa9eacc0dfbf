/** The clock of the client, unless it is given another. */
import type { Clock } from "../../wire/clock.ts";
import { platform } from "../platform.ts";

/** A clock, and chance. */
export type ClientClock = Clock & Required<Pick<Clock, "random">>;

/** The runtime's own. Not `Date`: that may be set back, and a lease would seem to last longer than it does. */
export const systemClock: ClientClock = {
  nowMs: () => platform.performance.now(),
  setTimer: (run, delayMs) => platform.setTimeout(run, delayMs),
  clearTimer: (timer) => platform.clearTimeout(timer),
  random: () => Math.random(),
};

/** Adds random numbers to a clock that has none. */
export function withRandom(clock: Clock): ClientClock {
  return {
    nowMs: () => clock.nowMs(),
    setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
    clearTimer: (timer) => clock.clearTimer(timer),
    random: () => clock.random?.() ?? Math.random(),
  };
}
