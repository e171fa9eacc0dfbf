/**
 * Virtual time: events happen in the order of their moments, and those of one moment in the order in which they were
 * planned. Between two events every promise that can be settled is settled, so that a run depends on nothing but its seed.
 */
import { drain } from "./drain.ts";

interface PlannedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

/** The first moment of every run: 2026-01-01. */
const BEGIN_MS = 1_767_225_600_000;

export class VirtualTime {
  /** True time, ms since the epoch. Clocks of objects and clients may show another. */
  nowMs = BEGIN_MS;
  /** Events so far. A number that grows with each of them orders what happened at one moment. */
  tick = 0;
  #planned = 0;
  /** A binary heap: no event is earlier than its parent. */
  readonly #heap: PlannedEvent[] = [];
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
    const event: PlannedEvent = { atMs: Math.max(atMs, this.nowMs), order: this.#planned++, run };
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return () => {
      event.run = null;
    };
  }

  after(delayMs: number, run: () => void): () => void {
    return this.at(this.nowMs + delayMs, run);
  }

  /** When the next event happens; Infinity when none is planned. */
  get nextMs(): number {
    while (this.#heap[0]?.run === null) this.#removeFirst();
    return this.#heap[0]?.atMs ?? Infinity;
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
    const event = this.#heap[0]!;
    this.#removeFirst();
    if (event.run === null) return;
    this.nowMs = event.atMs;
    this.tick++;
    event.run();
    drain();
    this.#afterEvent();
  }

  #rise(from: number): void {
    const heap = this.#heap;
    for (let i = from; i > 0;) {
      const parent = (i - 1) >> 1;
      if (!isBefore(heap[i]!, heap[parent]!)) return;
      [heap[i], heap[parent]] = [heap[parent]!, heap[i]!];
      i = parent;
    }
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    heap[0] = last;
    for (let i = 0; ;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
      }
      if (least === i) return;
      [heap[i], heap[least]] = [heap[least]!, heap[i]!];
      i = least;
    }
  }
}

const isBefore = (a: PlannedEvent, b: PlannedEvent): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
