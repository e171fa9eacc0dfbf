/**
 * What listens to a signal, behind one listener of the platform: Node 20 warns of more than ten of them on one signal, and
 * to add one takes longer the more there are. The calls of a batch may be 10,000.
 */
import type { Signal } from "../platform.ts";

/**
 * Those that have listeners: a map of a client. One weak map of the module would cost 3 µs more for each call that has a
 * signal of its own.
 */
export type ListenersBySignal = Map<Signal, AbortListeners>;

export class AbortListeners {
  readonly signal: Signal;
  readonly #bySignal: ListenersBySignal;
  readonly #listeners = new Set<() => void>();

  private constructor(signal: Signal, bySignal: ListenersBySignal) {
    this.signal = signal;
    this.#bySignal = bySignal;
  }

  static of(signal: Signal, bySignal: ListenersBySignal): AbortListeners {
    return bySignal.get(signal) ?? new AbortListeners(signal, bySignal);
  }

  add(listener: () => void): void {
    if (this.#listeners.size === 0) {
      this.#bySignal.set(this.signal, this);
      this.signal.addEventListener("abort", this.#runAll);
    }
    this.#listeners.add(listener);
  }

  /** Leaves nothing on the signal once the last one is gone: a signal may live as long as its process. */
  delete(listener: () => void): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
    this.#bySignal.delete(this.signal);
    this.signal.removeEventListener("abort", this.#runAll);
  }

  readonly #runAll = (): void => {
    for (const listener of this.#listeners) listener();
  };
}
