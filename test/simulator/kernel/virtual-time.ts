/**
 * Virtual time: events happen in the order of their moments, and those of one moment in the order in which they were
 * planned. Between two events every promise that can be settled is settled, so that a run depends on nothing but its seed.
 */
import { drain } from "./drain.ts";
import { EventQueue } from "./event-queue.ts";

/** The first moment of every run: 2026-01-01. */
const BEGIN_MS = 1_767_225_600_000;

export class VirtualTime {
  /** True time, ms since the epoch. Clocks of objects and clients may show another. */
  nowMs = BEGIN_MS;
  /** Events so far. A number that grows with each of them orders what happened at one moment. */
  tick = 0;
  readonly #queue = new EventQueue();
  readonly #afterEvent: () => void;

  /** @param afterEvent runs after each event, when all promises are settled that can be */
  constructor(afterEvent: () => void = () => {}) {
    this.#afterEvent = afterEvent;
  }

  /** How long the run has lasted so far. */
  get elapsedMs(): number {
    return this.nowMs - BEGIN_MS;
  }

  /**
   * Plans an event; one of the past happens next.
   *
   * @returns cancels it
   */
  at(atMs: number, run: () => void): () => void {
    const event = this.#queue.plan(Math.max(atMs, this.nowMs), run);
    return () => {
      event.run = null;
    };
  }

  after(delayMs: number, run: () => void): () => void {
    return this.at(this.nowMs + delayMs, run);
  }

  /** When the next event happens; Infinity when none is planned. */
  get nextMs(): number {
    return this.#queue.first()?.atMs ?? Infinity;
  }

  /**
   * Lets everything happen that is planned up to a moment, or until `isDone`. Call it outside of reactions of promises: see
   * `inMacrotask`.
   */
  runUntil(endMs: number, isDone: () => boolean = () => false): void {
    while (this.nextMs <= endMs && !isDone()) this.step();
    if (!isDone()) this.nowMs = Math.max(this.nowMs, endMs);
  }

  /** The next event, and all that follows from it at once. */
  step(): void {
    const { atMs, run } = this.#queue.take()!;
    this.nowMs = atMs;
    this.tick++;
    run!();
    drain();
    this.#afterEvent();
  }
}
