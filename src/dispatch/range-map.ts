/**
 * Range map: where the ranges of a namespace's shards begin, as far as one place knows.
 *
 * Ranges only split, so the map is a set of hashes, and two maps merge as a union: news that come late never make it
 * coarser. It is a sorted array, because each request on a key looks its range up.
 */
import { MAP_RANGES_MAX } from "../engine/sizes.ts";
import { WHOLE, type Range } from "../wire/range.ts";

export class RangeMap {
  /** Ascending; the first is 0. Replaced, and never changed, when a range splits. */
  #froms: Uint32Array = Uint32Array.of(0);
  /**
   * By the leading bits of a hash, as many as the ranges need: index of the range that has the first such hash. So a
   * look-up among equal ranges takes a step or two, where halving the whole array takes twelve.
   */
  #firsts: Uint16Array = Uint16Array.of(0, 0);
  /** Bits of a hash behind the leading ones. */
  #shift = 32;

  /** @param froms where ranges begin, in any order */
  constructor(froms: Iterable<number> = []) {
    this.merge(froms);
  }

  /** Where ranges begin, ascending. The array does not change: another one means that ranges have split since. */
  get froms(): Uint32Array {
    return this.#froms;
  }

  /** How many ranges are known. */
  get count(): number {
    return this.#froms.length;
  }

  /** Which of the ranges has a hash: 0 to `count` - 1. */
  indexOf(hash: number): number {
    const froms = this.#froms;
    // A shift by 32 bits would be one by none.
    const bits = this.#shift === 32 ? 0 : hash >>> this.#shift;
    let low = this.#firsts[bits]!;
    let high = this.#firsts[bits + 1]! + 1;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (froms[middle]! <= hash) low = middle;
      else high = middle;
    }
    return low;
  }

  /** The range with an index. */
  at(index: number): Range {
    const froms = this.#froms;
    return froms.length === 1 ? WHOLE : { from: froms[index]!, to: froms[index + 1] ?? 0 };
  }

  /** The range that has a hash. */
  rangeOf(hash: number): Range {
    return this.at(this.indexOf(hash));
  }

  /** The known ranges that have hashes of another one, in the order of the circle. */
  within({ from, to }: Range): Range[] {
    const last = this.indexOf(to === 0 ? 2 ** 32 - 1 : to - 1);
    const ranges: Range[] = [];
    for (let index = this.indexOf(from); index <= last; index++) ranges.push(this.at(index));
    return ranges;
  }

  /**
   * Adds hashes at which ranges begin, in any order. A namespace never has as many ranges as a map may have; beyond that
   * nothing is added, as only a peer that is out of order would say so.
   *
   * @returns whether the map has become finer
   */
  merge(froms: Iterable<number>): boolean {
    const known = new Set(this.#froms);
    for (const from of froms) known.add(from);
    if (known.size === this.#froms.length || known.size > MAP_RANGES_MAX) return false;
    this.#froms = Uint32Array.from(known).toSorted();
    this.#index();
    return true;
  }

  #index(): void {
    const froms = this.#froms;
    const bits = Math.ceil(Math.log2(froms.length));
    this.#shift = 32 - bits;
    this.#firsts = new Uint16Array(2 ** bits + 1);
    let range = 0;
    for (let first = 0; first <= 2 ** bits; first++) {
      while (range + 1 < froms.length && froms[range + 1]! <= first * 2 ** this.#shift) range++;
      this.#firsts[first] = range;
    }
  }
}
