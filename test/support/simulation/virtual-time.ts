/**
 * Virtual time: events happen in the order of their moments, and those of one moment in the order in which they were
 * planned. Between two events every promise that can be settled is settled, so that a run depends on nothing but its seed.
 */

/** Something that will happen, unless it is canceled. */
export interface PlannedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

/** So many events may pass before other work of the process gets a turn. */
const EVENTS_IN_A_ROW = 2_000;

export class VirtualTime {
  /** True time, which no clock of the simulation shows exactly. */
  nowMs = 0;
  #planned = 0;
  #events = 0;
  /** A binary heap: no event is earlier than its parent. */
  readonly #heap: PlannedEvent[] = [];

  /** Plans an event; one of the past happens next. */
  at(atMs: number, run: () => void): PlannedEvent {
    const event = { atMs: Math.max(atMs, this.nowMs), order: this.#planned++, run };
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return event;
  }

  after(delayMs: number, run: () => void): PlannedEvent {
    return this.at(this.nowMs + delayMs, run);
  }

  /** Lets everything happen that is planned up to a moment. */
  async runUntil(endMs: number): Promise<void> {
    for (;;) {
      const event = this.#heap[0];
      if (event === undefined || event.atMs > endMs) break;
      this.#removeFirst();
      if (event.run === null) continue;
      this.nowMs = event.atMs;
      event.run();
      await drained(++this.#events % EVENTS_IN_A_ROW === 0);
    }
    this.nowMs = endMs;
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

/** Node runs what `nextTick` plans once all promises are settled; `setImmediate` is slower, and lets timers run as well. */
function drained(withTimers: boolean): Promise<void> {
  return new Promise((resolve) => {
    if (withTimers) setImmediate(resolve);
    else process.nextTick(resolve);
  });
}
