/** Charges by their ends: a heap with the earliest first. Closed charges stay in it until they are over. */

/** Something that ends. */
interface Ending {
  readonly endNs: bigint;
}

export class ChargeEnds<Charge extends Ending> {
  readonly #heap: Charge[];

  /** @param charges to begin with, in any order */
  constructor(charges: readonly Charge[]) {
    // A sorted list is a heap.
    this.#heap = charges.toSorted(byEnd);
  }

  /** The charge that ends first. */
  get first(): Charge | undefined {
    return this.#heap[0];
  }

  add(charge: Charge): void {
    const heap = this.#heap;
    let place = heap.push(charge) - 1;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (heap[above]!.endNs <= charge.endNs) break;
      heap[place] = heap[above]!;
      place = above;
    }
    heap[place] = charge;
  }

  removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && heap[below + 1]!.endNs < heap[below]!.endNs) below++;
      if (heap[below]!.endNs >= last.endNs) break;
      heap[place] = heap[below]!;
      place = below;
    }
    heap[place] = last;
  }
}

const byEnd = (a: Ending, b: Ending): number =>
  a.endNs < b.endNs ? -1 : a.endNs > b.endNs ? 1 : 0;
