/**
 * Rows: a fixed number of u32 words each, in one array, taken and given back.
 *
 * A row is known by the place of its first word, 0 for no row. It stays there until it is given back.
 */
const ROWS_MIN = 16;

export class Rows {
  words = new Uint32Array(0);
  /** Rows in use. */
  count = 0;
  readonly #width: number;
  /** Rows that have never been in use begin here. */
  #end: number;
  /** A row that was given back, whose first word refers to the next one. */
  #free = 0;

  constructor(width: number) {
    this.#width = width;
    this.#end = width;
  }

  get bytes(): number {
    return this.words.byteLength;
  }

  /** Bytes that `grow` would add: 0 as long as there is room for one more row. */
  get growthBytes(): number {
    if (this.#free !== 0 || this.#end + this.#width <= this.words.length) return 0;
    return this.#nextLength * 4 - this.bytes;
  }

  /** Makes room for more rows. */
  grow(): void {
    const grown = new Uint32Array(this.#nextLength);
    grown.set(this.words);
    this.words = grown;
  }

  get #nextLength(): number {
    const rows = this.words.length / this.#width;
    return Math.max(ROWS_MIN, Math.ceil(rows * 1.5)) * this.#width;
  }

  /** Takes a row, of zeros but for the first word, which may be any; there must be room. */
  take(): number {
    let at = this.#free;
    if (at === 0) {
      at = this.#end;
      this.#end += this.#width;
    } else {
      this.#free = this.words[at]!;
    }
    this.count++;
    return at;
  }

  /** Gives a row back. It is of zeros then, but for the first word. */
  free(at: number): void {
    this.words.fill(0, at, at + this.#width);
    this.words[at] = this.#free;
    this.#free = at;
    this.count--;
  }

  /** The row behind another, in use or not; the first one behind 0, 0 behind the last. */
  after(at: number): number {
    const next = at + this.#width;
    return next < this.#end ? next : 0;
  }

  /** Gives all rows and their memory back. */
  clear(): void {
    this.words = new Uint32Array(0);
    this.count = 0;
    this.#end = this.#width;
    this.#free = 0;
  }
}
