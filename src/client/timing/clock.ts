/** The clock of the client, unless it is given another. */
import type { Clock } from "../../wire/clock.ts";
import { platform } from "../platform.ts";

/** A clock, a second one that goes on while the machine is suspended, and chance. */
export type ClientClock = Clock & Required<Pick<Clock, "random" | "wallMs">>;

/**
 * The runtime's own. `nowMs` is not `Date`: that may be set back, and a lease would seem to last longer than it does. But
 * `performance` stands still on a machine that is suspended, so that it would, too.
 */
export const systemClock: ClientClock = {
  nowMs: () => platform.performance.now(),
  wallMs: () => Date.now(),
  setTimer: (run, delayMs) => platform.setTimeout(run, delayMs),
  clearTimer: (timer) => platform.clearTimeout(timer),
  random: () => Math.random(),
};

/** Adds what a clock may lack. */
export function completed(clock: Clock): ClientClock {
  return {
    nowMs: () => clock.nowMs(),
    wallMs: () => clock.wallMs?.() ?? clock.nowMs(),
    setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
    clearTimer: (timer) => clock.clearTimer(timer),
    random: () => clock.random?.() ?? Math.random(),
  };
}

/** A moment by both clocks. */
export interface Moment {
  readonly nowMs: number;
  readonly wallMs: number;
}

export const momentOf = (clock: ClientClock): Moment => ({
  nowMs: clock.nowMs(),
  wallMs: clock.wallMs(),
});
