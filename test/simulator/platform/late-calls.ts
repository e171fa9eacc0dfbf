/**
 * Late calls: those of a life that ended while they were on their way. A network may hold a message for long, and the worst moment
 * for it to arrive is among the calls of the next life: so it arrives in the place that it had among those of its own.
 */
import type { VirtualTime } from "../kernel/virtual-time.ts";

/** No call is later, in ms. */
const LATE_MS = 60_000;

interface Held {
  readonly method: string;
  readonly caller: object;
  /** Calls of another life that come before it. */
  readonly behind: number;
  readonly arrive: () => void;
}

/** Of one object. */
export class LateCalls {
  readonly #time: Pick<VirtualTime, "after">;
  /** By method: the life that has called last, and how often. */
  readonly #taken = new Map<string, { readonly caller: object; count: number }>();
  /** By method: how often another life began to call. */
  readonly #callers = new Map<string, number>();
  readonly #held = new Set<Held>();

  constructor(time: Pick<VirtualTime, "after">) {
    this.#time = time;
  }

  /** How often another life began to call a method. */
  callersOf(method: string): number {
    return this.#callers.get(method) ?? 0;
  }

  /** Holds a call until its time has come. */
  hold(method: string, caller: object, arrive: () => void): void {
    const last = this.#taken.get(method);
    const behind = last?.caller === caller ? last.count : 0;
    const held = { method, caller, behind, arrive };
    this.#held.add(held);
    this.#time.after(LATE_MS, () => this.#release(held));
  }

  /** A call arrived in time. */
  noteTaken(method: string, caller: object): void {
    let last = this.#taken.get(method);
    if (last?.caller !== caller) {
      this.#taken.set(method, (last = { caller, count: 0 }));
      this.#callers.set(method, this.callersOf(method) + 1);
    }
    last.count++;
    for (const held of this.#held) {
      const isNext = held.method === method && held.caller !== caller && held.behind <= last.count;
      if (isNext) this.#time.after(0, () => this.#release(held));
    }
  }

  #release(held: Held): void {
    if (this.#held.delete(held)) held.arrive();
  }
}
