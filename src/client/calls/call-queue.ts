/** Calls that wait to be sent, in order and bounded. A call that is settled early leaves from any place in the queue. */
import type { Call, CallOwner } from "./call.ts";

export class CallQueue implements CallOwner {
  readonly #callsMax: number;
  readonly #bytesMax: number;
  #calls = new Set<Call>();
  #bytes = 0;

  constructor(callsMax: number, bytesMax: number) {
    this.#callsMax = callsMax;
    this.#bytesMax = bytesMax;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Returns false when the queue is full. */
  add(call: Call): boolean {
    const { length } = call.operation.frame;
    const isTooMuch = this.#bytes + length > this.#bytesMax && this.#calls.size > 0;
    if (isTooMuch || this.#calls.size >= this.#callsMax) return false;
    this.#hold(call);
    return true;
  }

  /** Puts calls that were sent before back at the front, also when the queue is full. */
  addFirst(calls: readonly Call[]): void {
    if (calls.length === 0) return;
    const others = this.#calls;
    this.#calls = new Set();
    for (const call of calls) this.#hold(call);
    for (const call of others) this.#calls.add(call);
  }

  /** Takes calls off the front, as many as fit; the first one in any case if asked to. */
  take(bytesMax: number, isFirstAnyway: boolean): Call[] {
    const taken: Call[] = [];
    let bytes = 0;
    for (const call of this.#calls) {
      bytes += call.operation.frame.length;
      if (bytes > bytesMax && !(isFirstAnyway && taken.length === 0)) break;
      taken.push(call);
    }
    for (const call of taken) {
      this.released(call);
      call.owner = null;
    }
    return taken;
  }

  takeAll(): Call[] {
    return this.take(Infinity, false);
  }

  released(call: Call): void {
    if (this.#calls.delete(call)) this.#bytes -= call.operation.frame.length;
  }

  [Symbol.iterator](): IterableIterator<Call> {
    return this.#calls.values();
  }

  #hold(call: Call): void {
    this.#calls.add(call);
    this.#bytes += call.operation.frame.length;
    call.owner = this;
  }
}
