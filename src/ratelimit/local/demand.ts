/** How many units of a key are asked for in a term: so many are worth drawing. */

/** A shorter part of a term says nothing of the rest. */
const SHARE_MIN = 1 / 4;
/** But for so many units: those come from many requests. A hot key would need many draws to learn how hot it is. */
const CROWD_MIN = 16;
const CROWD_SHARE_MIN = 1 / 64;

export class Demand {
  readonly #termMs: number;
  #startMs = -Infinity;
  #asked = 0;
  #askedBefore = 0;
  /** What was asked for last. */
  #latest = 0;

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
    this.#latest = units;
  }

  /** Forgets what was asked for. */
  forget(): void {
    this.#startMs = -Infinity;
  }

  /**
   * Units of the last term, or what follows from the pace of this one where that is more: a key that turns hot must not
   * send a message for each step of its way up. One request alone has no pace.
   */
  perTerm(monotonicMs: number): number {
    const passed = Math.min((monotonicMs - this.#startMs) / this.#termMs, 1);
    const last = this.#asked + this.#askedBefore * (1 - passed);
    const before = this.#asked - this.#latest;
    const shareMin = before < CROWD_MIN || passed === 0 ? SHARE_MIN : CROWD_SHARE_MIN;
    const pace = before / Math.max(passed, shareMin);
    return Math.min(Math.ceil(Math.max(last, pace)), Number.MAX_SAFE_INTEGER);
  }
}
