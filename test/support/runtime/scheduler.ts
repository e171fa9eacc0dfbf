/**
 * `scheduler.wait`, which code of the platform takes its turns with, for tests in plain Node: import this
 * file for its effect.
 */
import { setTimeout as sleep } from "node:timers/promises";

declare global {
  interface Scheduler {
    wait(delayMs: number): Promise<void>;
  }
}

Object.assign(globalThis, { scheduler: { wait: async (delayMs: number) => await sleep(delayMs) } });
