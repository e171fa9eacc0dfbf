/**
 * The keys that come most often, in fixed memory: a space-saving sketch of 64 entries.
 *
 * A key that has no entry takes the one with the smallest count, and begins with that count, as it may have come that
 * often before. Hot means hot now, so all counts are halved every 5 minutes: a key at a steady rate has the count of
 * 5 to 10 minutes, which is long enough to rank keys that come once a minute, and an hour after a burst 1/4096 of it is
 * left. Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams".
 *
 * With `true` as the exact count of a key, halved in the same way without rounding, and N as the sum over all keys:
 *
 *     count - errorMax <= true < count + 1
 *     a key with true >= N / 64 + 1 has an entry
 */
import { FixedKeys } from "./fixed-keys.ts";

export const SKETCH_ENTRIES = 64;
/** The wire has one byte for the length of a key, so keys are kept whole: two sketches take 36 KiB. */
const KEY_BYTES_MAX = 255;
export const HALVING_MS = 300_000;
/** A caller may claim any number of decisions of its own. */
const COUNT_MAX = 2 ** 32 - 1;
/** More halvings leave nothing of any count. */
const HALVINGS_MAX = 32;

/** An entry of a sketch, as it leaves the shard. */
export interface SketchRow {
  key: Uint8Array<ArrayBuffer>;
  count: number;
  errorMax: number;
}

export class KeySketch {
  readonly #keys = new FixedKeys(SKETCH_ENTRIES, KEY_BYTES_MAX);
  /** 0 for an entry without a key. */
  readonly #counts = new Uint32Array(SKETCH_ENTRIES);
  /** How much of the count may be of keys that had the entry before. */
  readonly #errors = new Uint32Array(SKETCH_ENTRIES);
  /** No count is smaller. */
  #least = 0;
  /** Where the search for the smallest count goes on. */
  #cursor = 0;
  #period = 0;

  /** Moves the clock: halves the counts once for each period of `HALVING_MS` that has begun since the last call. */
  turn(nowMs: number): void {
    const period = Math.floor(nowMs / HALVING_MS);
    if (period === this.#period) return;
    const halvings = Math.min(period - this.#period, HALVINGS_MAX);
    this.#period = period;
    for (let i = 0; i < halvings; i++) this.#halve();
  }

  /** Counts the key `bytes[at, at + length)`. Positions, and no object: it runs for every decision. */
  count(hash: number, bytes: Uint8Array, at: number, length: number, times = 1): void {
    const entry = this.#keys.find(hash, bytes, at, length);
    if (entry >= 0) this.#counts[entry] = Math.min(this.#counts[entry]! + times, COUNT_MAX);
    else this.#admit(hash, bytes, at, length, times);
  }

  /** The entries, those with the largest counts first. */
  rows(): SketchRow[] {
    const rows: SketchRow[] = [];
    for (let entry = 0; entry < SKETCH_ENTRIES; entry++) {
      const count = this.#counts[entry]!;
      if (count === 0) continue;
      rows.push({ key: this.#keys.keyOf(entry), count, errorMax: this.#errors[entry]! });
    }
    return rows.toSorted((a, b) => b.count - a.count || a.errorMax - b.errorMax);
  }

  #admit(hash: number, bytes: Uint8Array, at: number, length: number, times: number): void {
    const entry = this.#findLeast();
    const count = this.#counts[entry]!;
    if (count > 0) this.#keys.remove(entry);
    this.#keys.put(entry, hash, bytes, at, length);
    this.#errors[entry] = count;
    this.#counts[entry] = Math.min(count + times, COUNT_MAX);
  }

  /**
   * An entry with the smallest count. Counts only grow between two halvings, so each value of the smallest is searched
   * for once around the entries, not once for each key.
   */
  #findLeast(): number {
    for (;;) {
      for (let step = 0; step < SKETCH_ENTRIES; step++) {
        const entry = this.#cursor;
        if (this.#counts[entry]! <= this.#least) return entry;
        this.#cursor = (entry + 1) % SKETCH_ENTRIES;
      }
      let least = this.#counts[0]!;
      for (const count of this.#counts) if (count < least) least = count;
      this.#least = least;
    }
  }

  /** Rounds down, both the count and the part of it that is certain. */
  #halve(): void {
    for (let entry = 0; entry < SKETCH_ENTRIES; entry++) {
      const count = this.#counts[entry]!;
      if (count === 0) continue;
      const certain = count - this.#errors[entry]!;
      this.#counts[entry] = count >>> 1;
      this.#errors[entry] = (count >>> 1) - (certain >>> 1);
      if (count === 1) this.#keys.remove(entry);
    }
    this.#least >>>= 1;
  }
}
