/** How many units of a key are asked for in a term: so many are worth drawing. */

export class Demand {
  readonly #termMs: number;
  #startMs = -Infinity;
  #asked = 0;
  #askedBefore = 0;

  constructor(termMs: number) {
    this.#termMs = termMs;
  }

  /** @param monotonicMs by a clock that never goes back */
  note(units: number, monotonicMs: number): void {
    const passedMs = monotonicMs - this.#startMs;
    if (passedMs >= this.#termMs) {
      const isNext = passedMs < 2 * this.#termMs;
      this.#askedBefore = isNext ? this.#asked : 0;
      this.#asked = 0;
      this.#startMs = isNext ? this.#startMs + this.#termMs : monotonicMs;
    }
    this.#asked += units;
  }

  /** Forgets what was asked for. */
  forget(): void {
    this.#startMs = -Infinity;
  }

  /** Units of the last term: those of the present one, and a share of those before it, as its rest is long. */
  perTerm(monotonicMs: number): number {
    const share = Math.max(0, 1 - (monotonicMs - this.#startMs) / this.#termMs);
    return Math.min(Math.ceil(this.#asked + this.#askedBefore * share), Number.MAX_SAFE_INTEGER);
  }
}
