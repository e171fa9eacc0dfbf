/** Time as the parts of an object see it. They get it from their object, so that unit tests can bring their own. */
import { presentMs } from "./clock.ts";

export interface Timers {
  /** Milliseconds since the epoch. */
  nowMs(): number;
  /** Resolves after `ms` milliseconds; never, when the object is evicted before. */
  wait(ms: number): Promise<void>;
  /** Keeps the object awake until `work` has ended: waiting alone does not. */
  waitUntil(work: Promise<void>): void;
}

/**
 * @param scheduler the runtime's, which has timers that are promises
 * @param nowMs `stopwatchMs` for parts that measure how long they wait
 */
export function timersOf(
  state: { waitUntil(work: Promise<void>): void },
  scheduler: { wait(ms: number): Promise<void> },
  nowMs = presentMs,
): Timers {
  return {
    nowMs,
    wait: async (ms) => await scheduler.wait(ms),
    waitUntil: (work) => state.waitUntil(work),
  };
}
