/** One timer for many deadlines, set to the earliest: a timer for each call would cost more than the call. */
import { TIMER_MS_MAX, type Clock } from "../../wire/clock.ts";

/** A call or a subscription, which fails at its deadline. */
export interface Timed {
  readonly deadlineMs: number;
  readonly isSettled: boolean;
  expire(nowMs: number): void;
}

/** Fails what is due, and returns the next deadline; `Infinity` without one. */
export function expireAll(all: Iterable<Timed>, nowMs: number): number {
  let nextMs = Infinity;
  for (const timed of all) {
    if (!timed.isSettled) timed.expire(nowMs);
    if (!timed.isSettled) nextMs = Math.min(nextMs, timed.deadlineMs);
  }
  return nextMs;
}

export class Alarm {
  readonly #clock: Clock;
  readonly #ring: (nowMs: number) => number;
  #atMs = Infinity;
  #timer: unknown = null;

  /** @param ring handles what is due, and returns the next deadline; `Infinity` without one */
  constructor(clock: Clock, ring: (nowMs: number) => number) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Makes the alarm ring at a deadline or earlier. */
  setBy(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.clear();
    this.#atMs = atMs;
    // A deadline beyond what one timer can take is looked at again on the way.
    const delayMs = Math.max(0, Math.min(Math.ceil(atMs - this.#clock.nowMs()), TIMER_MS_MAX));
    this.#timer = this.#clock.setTimer(() => {
      this.#atMs = Infinity;
      this.setBy(this.#ring(this.#clock.nowMs()));
    }, delayMs);
  }

  clear(): void {
    if (this.#atMs === Infinity) return;
    this.#clock.clearTimer(this.#timer);
    this.#atMs = Infinity;
  }
}
