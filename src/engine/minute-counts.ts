/**
 * Counts by index, in all and in the last 60 seconds.
 *
 * The last 60 seconds are estimated: this minute, and a share of the previous minute. Nothing is stored for each second.
 */

export const MINUTE_MS = 60_000;

export class MinuteCounts {
  /** Counts so far, by index. Callers add to it, after `turn` with the present time. */
  readonly totals: Float64Array<ArrayBuffer>;
  readonly #atMinute: Float64Array<ArrayBuffer>;
  readonly #lastMinute: Float64Array;
  #minute = 0;
  #minuteBefore = 0;

  /** @param length how many counts there are */
  constructor(length: number) {
    this.totals = new Float64Array(length);
    this.#atMinute = new Float64Array(length);
    this.#lastMinute = new Float64Array(length);
  }

  /** The minute that is counted now, since the epoch. */
  get minute(): number {
    return this.#minute;
  }

  /** The minute before it in which anything was counted, the last of `atMinute`; 0 for none. */
  get minuteBefore(): number {
    return this.#minuteBefore;
  }

  /** Totals when this minute began. */
  get atMinute(): Readonly<Float64Array<ArrayBuffer>> {
    return this.#atMinute;
  }

  /** Moves the clock: what is counted from now on belongs to the minute of `nowMs`. */
  turn(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute === this.#minute) return;
    const isNext = minute === this.#minute + 1;
    let hasCounted = false;
    for (let index = 0; index < this.totals.length; index++) {
      const total = this.totals[index]!;
      if (total !== this.#atMinute[index]) hasCounted = true;
      this.#lastMinute[index] = isNext ? total - this.#atMinute[index]! : 0;
      this.#atMinute[index] = total;
    }
    if (hasCounted) this.#minuteBefore = this.#minute;
    this.#minute = minute;
  }

  /**
   * Adds to a count.
   *
   * @param total in all
   * @param ofMinute how much of it belongs to this minute; the rest was counted before
   */
  add(index: number, total: number, ofMinute: number): void {
    this.totals[index]! += total;
    this.#atMinute[index]! += total - ofMinute;
  }

  /** Sets counts back to 0: those with an index from `from` up to, and without, `to`. */
  clear(from = 0, to = this.totals.length): void {
    for (const counts of [this.totals, this.#atMinute, this.#lastMinute]) counts.fill(0, from, to);
  }

  /** Totals, then the last 60 seconds, by index. */
  figures(nowMs: number): Float64Array<ArrayBuffer> {
    this.turn(nowMs);
    const { length } = this.totals;
    const left = 1 - (nowMs % MINUTE_MS) / MINUTE_MS;
    const figures = new Float64Array(2 * length);
    for (let index = 0; index < length; index++) {
      const total = this.totals[index]!;
      figures[index] = total;
      figures[length + index] = Math.round(
        total - this.#atMinute[index]! + this.#lastMinute[index]! * left,
      );
    }
    return figures;
  }
}
