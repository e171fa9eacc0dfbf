/** Planned events, the earliest first, and those of one moment in the order in which they were planned: a binary heap. */

export interface PlannedEvent {
  readonly atMs: number;
  readonly order: number;
  /** Null once the event is canceled. */
  run: (() => void) | null;
}

export class EventQueue {
  #planned = 0;
  /** No event is earlier than its parent. */
  readonly #heap: PlannedEvent[] = [];

  plan(atMs: number, run: () => void): PlannedEvent {
    const event: PlannedEvent = { atMs, order: this.#planned++, run };
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return event;
  }

  /** The next event that was not canceled; undefined when there is none. */
  first(): PlannedEvent | undefined {
    while (this.#heap[0]?.run === null) this.#removeFirst();
    return this.#heap[0];
  }

  /** Removes the first event, and returns it. */
  take(): PlannedEvent | undefined {
    const event = this.first();
    if (event !== undefined) this.#removeFirst();
    return event;
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
