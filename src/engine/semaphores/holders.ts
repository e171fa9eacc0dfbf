/**
 * Holders by kind and id: a hash table of rows, each with the first holding of its holder.
 *
 *     row = next row of the bucket, first holding, holder 17 in five words
 */
import { copyBytes } from "../../wire/bytes.ts";
import { hashBytes, type HashKey } from "../hash.ts";
import { HOLDER_BYTES } from "./holder.ts";
import { Rows } from "./rows.ts";

const NEXT_OF_BUCKET = 0;
const FIRST = 1;
const HOLDER = 2;
const ROW_WORDS = HOLDER + Math.ceil(HOLDER_BYTES / 4);
const BUCKETS_MIN = 16;

export class Holders {
  readonly #hashKey: HashKey;
  readonly #rows = new Rows(ROW_WORDS);
  /** The same memory as the rows. */
  #rowBytes = new Uint8Array(0);
  /** A power of two of them. */
  #buckets = new Uint32Array(0);

  /** @param hashKey random, so that a caller can't prepare ids that collide */
  constructor(hashKey: HashKey) {
    this.#hashKey = hashKey;
  }

  get count(): number {
    return this.#rows.count;
  }

  get bytes(): number {
    return this.#rows.bytes + this.#buckets.byteLength;
  }

  /** Bytes that `grow` would add: 0 as long as there is room for one more holder. */
  get growthBytes(): number {
    return this.#rows.growthBytes + (this.#bucketsNeeded - this.#buckets.length) * 4;
  }

  grow(): void {
    if (this.#rows.growthBytes > 0) {
      this.#rows.grow();
      this.#rowBytes = new Uint8Array(this.#rows.words.buffer);
    }
    if (this.#bucketsNeeded > this.#buckets.length) this.#spread(this.#bucketsNeeded);
  }

  get #bucketsNeeded(): number {
    const { length } = this.#buckets;
    return this.#rows.count < length ? length : Math.max(BUCKETS_MIN, length * 2);
  }

  #spread(buckets: number): void {
    const old = this.#buckets;
    this.#buckets = new Uint32Array(buckets);
    for (const first of old) {
      for (let row = first, next = 0; row !== 0; row = next) {
        next = this.#rows.words[row + NEXT_OF_BUCKET]!;
        this.#chain(row);
      }
    }
  }

  /** Row of the holder that `bytes` begins with; 0 when it holds nothing. */
  find(bytes: Uint8Array): number {
    if (this.#rows.count === 0) return 0;
    const { words } = this.#rows;
    let row = this.#buckets[this.#bucketOf(bytes, 0)]!;
    while (row !== 0 && !this.#is(row, bytes)) row = words[row + NEXT_OF_BUCKET]!;
    return row;
  }

  /** Adds the holder that `bytes` begins with, which is not there; there must be room. */
  add(bytes: Uint8Array): number {
    const row = this.#rows.take();
    copyBytes(bytes, 0, this.#rowBytes, (row + HOLDER) * 4, HOLDER_BYTES);
    this.#chain(row);
    return row;
  }

  remove(row: number): void {
    const { words } = this.#rows;
    const bucket = this.#bucketOf(this.#rowBytes, (row + HOLDER) * 4);
    const next = words[row + NEXT_OF_BUCKET]!;
    if (this.#buckets[bucket] === row) {
      this.#buckets[bucket] = next;
    } else {
      let before = this.#buckets[bucket]!;
      while (words[before + NEXT_OF_BUCKET] !== row) before = words[before + NEXT_OF_BUCKET]!;
      words[before + NEXT_OF_BUCKET] = next;
    }
    this.#rows.free(row);
  }

  /** The first holding of a holder; 0 for a row that is not in use. */
  firstOf(row: number): number {
    return this.#rows.words[row + FIRST]!;
  }

  setFirst(row: number, holding: number): void {
    this.#rows.words[row + FIRST] = holding;
  }

  /** Kind of a holder. */
  kindOf(row: number): number {
    return this.#rowBytes[(row + HOLDER) * 4]!;
  }

  /** Copies `count` bytes of a holder, from its byte `from` on, to `target[at…]`. */
  copy(row: number, from: number, count: number, target: Uint8Array, at: number): void {
    copyBytes(this.#rowBytes, (row + HOLDER) * 4 + from, target, at, count);
  }

  /** The row behind another, in use or not; the first one behind 0, 0 behind the last. */
  after(row: number): number {
    return this.#rows.after(row);
  }

  clear(): void {
    this.#rows.clear();
    this.#rowBytes = new Uint8Array(0);
    this.#buckets = new Uint32Array(0);
  }

  #chain(row: number): void {
    const bucket = this.#bucketOf(this.#rowBytes, (row + HOLDER) * 4);
    this.#rows.words[row + NEXT_OF_BUCKET] = this.#buckets[bucket]!;
    this.#buckets[bucket] = row;
  }

  #bucketOf(bytes: Uint8Array, at: number): number {
    return hashBytes(this.#hashKey, 0, bytes, at, HOLDER_BYTES) & (this.#buckets.length - 1);
  }

  #is(row: number, bytes: Uint8Array): boolean {
    const at = (row + HOLDER) * 4;
    for (let i = 0; i < HOLDER_BYTES; i++) if (this.#rowBytes[at + i] !== bytes[i]) return false;
    return true;
  }
}
