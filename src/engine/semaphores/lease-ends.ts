/**
 * Ends of leases: a heap with the earliest first.
 *
 * Each lease knows its place in the heap, so that a lease that is renewed or released is moved or removed without a
 * search.
 */
import type { Rows } from "./rows.ts";

const LEASES_MIN = 16;

export class LeaseEnds {
  readonly #holdings: Rows;
  readonly #word: number;
  #endsAtMs = new Float64Array(0);
  #rows = new Uint32Array(0);
  count = 0;

  /**
   * @param holdings the rows of leases
   * @param word of a row: one more than its place in the heap, 0 for a row that is not in it
   */
  constructor(holdings: Rows, word: number) {
    this.#holdings = holdings;
    this.#word = word;
  }

  get bytes(): number {
    return this.#endsAtMs.byteLength + this.#rows.byteLength;
  }

  /** Bytes that `grow` would add: 0 as long as there is room for one more lease. */
  get growthBytes(): number {
    return this.count < this.#rows.length ? 0 : this.#nextLength * (8 + 4) - this.bytes;
  }

  grow(): void {
    const ends = new Float64Array(this.#nextLength);
    const rows = new Uint32Array(this.#nextLength);
    ends.set(this.#endsAtMs);
    rows.set(this.#rows);
    this.#endsAtMs = ends;
    this.#rows = rows;
  }

  get #nextLength(): number {
    return Math.max(LEASES_MIN, Math.ceil(this.#rows.length * 1.5));
  }

  /** The earliest end, in milliseconds since the epoch; Infinity when there is no lease. */
  get deadlineMs(): number {
    return this.count === 0 ? Infinity : this.#endsAtMs[0]!;
  }

  /** The lease that ends first. */
  get firstRow(): number {
    return this.#rows[0]!;
  }

  /** Adds a lease; there must be room. */
  add(row: number, endsAtMs: number): void {
    this.#rise(this.count++, row, endsAtMs);
  }

  /** Moves the end of a lease. */
  move(row: number, endsAtMs: number): void {
    this.#settle(this.#placeOf(row), row, endsAtMs);
  }

  /** Removes a lease, if it is there. */
  remove(row: number): void {
    const place = this.#placeOf(row);
    if (place < 0) return;
    this.#holdings.words[row + this.#word] = 0;
    const last = --this.count;
    if (place < last) this.#settle(place, this.#rows[last]!, this.#endsAtMs[last]!);
  }

  clear(): void {
    this.#endsAtMs = new Float64Array(0);
    this.#rows = new Uint32Array(0);
    this.count = 0;
  }

  #placeOf(row: number): number {
    return this.#holdings.words[row + this.#word]! - 1;
  }

  #put(place: number, row: number, endsAtMs: number): void {
    this.#endsAtMs[place] = endsAtMs;
    this.#rows[place] = row;
    this.#holdings.words[row + this.#word] = place + 1;
  }

  #settle(place: number, row: number, endsAtMs: number): void {
    const above = (place - 1) >> 1;
    if (place > 0 && this.#endsAtMs[above]! > endsAtMs) this.#rise(place, row, endsAtMs);
    else this.#sink(place, row, endsAtMs);
  }

  #rise(place: number, row: number, endsAtMs: number): void {
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (this.#endsAtMs[above]! <= endsAtMs) break;
      this.#put(place, this.#rows[above]!, this.#endsAtMs[above]!);
      place = above;
    }
    this.#put(place, row, endsAtMs);
  }

  #sink(place: number, row: number, endsAtMs: number): void {
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.count) break;
      if (below + 1 < this.count && this.#endsAtMs[below + 1]! < this.#endsAtMs[below]!) below++;
      if (this.#endsAtMs[below]! >= endsAtMs) break;
      this.#put(place, this.#rows[below]!, this.#endsAtMs[below]!);
      place = below;
    }
    this.#put(place, row, endsAtMs);
  }
}
