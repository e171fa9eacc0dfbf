/** A pause between two attempts. A signal ends it early, and so does closing the client. */
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Clock } from "../../wire/clock.ts";
import type { Closable, Leases } from "../semaphore/leases.ts";
import type { Signal } from "../platform.ts";

export class Pause implements Closable {
  /** Rejects with ThrottrError `aborted` or `closed`. */
  readonly ended: Promise<void>;
  readonly #signal: Signal | undefined;
  readonly #clock: Clock;
  readonly #leases: Leases;
  readonly #timer: unknown;
  #resolve!: () => void;
  #reject!: (error: ThrottrError) => void;

  constructor(delayMs: number, signal: Signal | undefined, clock: Clock, leases: Leases) {
    this.#signal = signal;
    this.#clock = clock;
    this.#leases = leases;
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = clock.setTimer(() => {
      this.#leave();
      this.#resolve();
    }, delayMs);
    leases.add(this);
    signal?.addEventListener("abort", this.#abort);
    if (signal?.aborted === true) this.#abort();
  }

  close(): void {
    this.#end(new ThrottrError("closed", "the client was closed: nothing is held"));
  }

  readonly #abort = (): void => {
    this.#end(
      new ThrottrError("aborted", "the signal was aborted: nothing is held", {
        cause: this.#signal!.reason,
      }),
    );
  };

  #end(error: ThrottrError): void {
    this.#clock.clearTimer(this.#timer);
    this.#leave();
    this.#reject(error);
  }

  #leave(): void {
    this.#leases.delete(this);
    this.#signal?.removeEventListener("abort", this.#abort);
  }
}
