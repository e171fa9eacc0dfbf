/** Clocks that are wrong: of machines, and of isolates, where time stands still while code runs. */
import type { Clock } from "../../../src/wire/clock.ts";
import type { PlannedEvent } from "../../simulator/kernel/event-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";

const START_MS = 1_761_884_055_342;

/** The clock of a machine: off by any amount, a little fast or slow, and set forward or back now and then. */
export class MachineClock {
  readonly #time: VirtualTime;
  readonly #pace: number;
  #offsetMs: number;

  /** @param drift how much faster than true time it goes, such as 0.0001 */
  constructor(time: VirtualTime, offsetMs: number, drift: number) {
    this.#time = time;
    this.#offsetMs = offsetMs;
    this.#pace = 1 + drift;
  }

  /** Milliseconds since the epoch, whole ones. */
  get wallMs(): number {
    return Math.floor(START_MS + this.#offsetMs + this.#time.nowMs * this.#pace);
  }

  /** Milliseconds since the machine started. */
  get monotonicMs(): number {
    return this.#time.nowMs * this.#pace;
  }

  /** Sets the wall clock forward, or back. */
  jump(byMs: number): void {
    this.#offsetMs += byMs;
  }
}

/** The clock of an isolate, which reads that of its machine at the start of each event. */
export class IsolateClock implements Clock {
  /** When the event began that runs now, in true time. */
  readAtMs = 0;
  /** A fault: it stands still from one event to the next, too. */
  isStuck = false;
  #wallMs = 0;
  #monotonicMs = 0;
  readonly #machine: MachineClock;
  readonly #time: VirtualTime;
  readonly #random: () => number;
  readonly #wake: (run: () => void) => void;

  /** @param wake runs what a timer has called, as an event of the isolate */
  constructor(
    time: VirtualTime,
    machine: MachineClock,
    random: () => number,
    wake: (run: () => void) => void,
  ) {
    this.#time = time;
    this.#machine = machine;
    this.#random = random;
    this.#wake = wake;
    this.read();
  }

  /** An event begins. */
  read(): void {
    this.readAtMs = this.#time.nowMs;
    if (this.isStuck) return;
    this.#wallMs = this.#machine.wallMs;
    this.#monotonicMs = this.#machine.monotonicMs;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  setTimer(run: () => void, delayMs: number): PlannedEvent {
    return this.#time.after(delayMs, () => this.#wake(run));
  }

  clearTimer(timer: unknown): void {
    (timer as PlannedEvent).run = null;
  }

  random(): number {
    return this.#random();
  }

  /** The client measures lengths of time only, and wants a clock that never goes back. */
  get monotonic(): Clock {
    return {
      nowMs: () => this.#monotonicMs,
      setTimer: (run, delayMs) => this.setTimer(run, delayMs),
      clearTimer: (timer) => this.clearTimer(timer),
      random: () => this.random(),
    };
  }
}
