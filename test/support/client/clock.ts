/** A clock that stands still until it is told to go on. */
import type { Clock } from "../../../src/wire/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly run: () => void;
}

export class FakeClock implements Clock {
  #nowMs = 1000;
  readonly #timers = new Set<Timer>();
  readonly #random: () => number;

  /** @param random what chance gives; almost the most unless given */
  constructor(random: () => number = () => 0.999_999) {
    this.#random = random;
  }

  /** When the timers ring, in ms from now, in order. */
  get pendingMs(): number[] {
    return this.#ordered().map(({ atMs }) => atMs - this.#nowMs);
  }

  nowMs(): number {
    return this.#nowMs;
  }

  setTimer(run: () => void, delayMs: number): unknown {
    const timer = { atMs: this.#nowMs + delayMs, run };
    this.#timers.add(timer);
    return timer;
  }

  clearTimer(timer: unknown): void {
    if (!this.#timers.delete(timer as Timer) && timer === null) throw new Error("no timer");
  }

  random(): number {
    return this.#random();
  }

  /** Lets time go by; what it sets off is over before the next timer rings. */
  async pass(durationMs: number): Promise<void> {
    await turn();
    const endMs = this.#nowMs + durationMs;
    for (;;) {
      const [next] = this.#ordered();
      if (next === undefined || next.atMs > endMs) break;
      this.#nowMs = next.atMs;
      this.#timers.delete(next);
      next.run();
      await turn();
    }
    this.#nowMs = endMs;
  }

  #ordered(): Timer[] {
    return [...this.#timers].toSorted((a, b) => a.atMs - b.atMs);
  }
}

/** A clock of a machine that may be suspended: its wall clock goes on then, and its timers do not. */
export class SuspendedClock extends FakeClock {
  suspendedMs = 0;

  wallMs(): number {
    return this.nowMs() + this.suspendedMs;
  }
}

/** Promises that any of the client's chains may take one after the other. */
const CHAIN_MAX = 40;

/** Lets everything happen that needs no time. */
export async function turn(): Promise<void> {
  for (let i = 0; i < CHAIN_MAX; i++) await Promise.resolve();
}
