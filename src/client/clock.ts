/** Time and chance, as the client meets them: tests bring their own. */
import { platform } from "./platform.ts";

/**
 * Where the client has time and random numbers from.
 *
 * @example
 * const clock: Clock = {
 *   nowMs: () => simulation.nowMs,
 *   setTimer: (run, delayMs) => simulation.schedule(run, delayMs),
 *   clearTimer: (timer) => simulation.cancel(timer),
 *   random: () => 0.5,
 * };
 * const throttr = new ThrottrClient(transport, { clock });
 */
export interface Clock {
  /** Milliseconds since any fixed moment; never goes back. */
  nowMs(): number;
  /** Runs something once, later; gives what `clearTimer` takes. */
  setTimer(run: () => void, delayMs: number): unknown;
  clearTimer(timer: unknown): void;
  /** From 0 to below 1. */
  random(): number;
}

/** The runtime's own. */
export const systemClock: Clock = {
  nowMs: () => platform.performance.now(),
  setTimer: (run, delayMs) => platform.setTimeout(run, delayMs),
  clearTimer: (timer) => platform.clearTimeout(timer),
  random: () => Math.random(),
};
