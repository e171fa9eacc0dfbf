/**
 * Virtual time: events happen in the order of their moments, and those of one moment in the order in which they were
 * planned. Between two events every promise that can be settled is settled, so that a run depends on nothing but its seed.
 */
import { EventQueue, type PlannedEvent } from "../../simulator/kernel/event-queue.ts";

/** Events in a row before other work of the process gets a turn. */
const EVENTS_IN_A_ROW = 2_000;

export class VirtualTime {
  /** True time, which no clock of the simulation shows exactly. */
  nowMs = 0;
  #events = 0;
  readonly #queue = new EventQueue();

  /** Plans an event; one of the past happens next. */
  at(atMs: number, run: () => void): PlannedEvent {
    return this.#queue.plan(Math.max(atMs, this.nowMs), run);
  }

  after(delayMs: number, run: () => void): PlannedEvent {
    return this.at(this.nowMs + delayMs, run);
  }

  /** Lets everything happen that is planned up to a moment. */
  async runUntil(endMs: number): Promise<void> {
    for (;;) {
      const event = this.#queue.first();
      if (event === undefined || event.atMs > endMs) break;
      this.#queue.take();
      this.nowMs = event.atMs;
      event.run!();
      await drained(++this.#events % EVENTS_IN_A_ROW === 0);
    }
    this.nowMs = endMs;
  }
}

/** Node runs what `nextTick` plans once all promises are settled; `setImmediate` is slower, and lets timers run as well. */
function drained(withTimers: boolean): Promise<void> {
  return new Promise((resolve) => {
    if (withTimers) setImmediate(resolve);
    else process.nextTick(resolve);
  });
}
