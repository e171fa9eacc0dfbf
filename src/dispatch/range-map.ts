/**
 * Range map: where the ranges of a namespace's shards begin, as far as one place knows.
 *
 * Ranges only split, so the map is a set of hashes, and two maps merge as a union: news that come late never make it
 * coarser. It is a sorted array, because each request on a key looks its range up.
 */
import { MAP_RANGES_MAX } from "../engine/sizes.ts";
import { endOf, initialFroms, type Range } from "../wire/range.ts";

/** Never changes: a map with another range is another object, so places compare the objects. */
export class RangeMap {
  /** One range: what a place knows at first. */
  static readonly WHOLE = new RangeMap(Uint32Array.of(0));
  /** Where ranges begin, ascending; the first is 0. */
  readonly froms: Uint32Array;
  /**
   * By the leading bits of a hash, as many as the ranges need: index of the range that has the first such hash. So a
   * look-up among equal ranges takes a step or two, where halving the whole array takes twelve.
   */
  readonly #firsts: Uint16Array;
  /** Bits of a hash behind the leading ones. */
  readonly #shift: number;

  private constructor(froms: Uint32Array) {
    this.froms = froms;
    const bits = Math.ceil(Math.log2(froms.length));
    this.#shift = 32 - bits;
    this.#firsts = new Uint16Array(2 ** bits + 1);
    let range = 0;
    for (let first = 0; first <= 2 ** bits; first++) {
      while (range + 1 < froms.length && froms[range + 1]! <= first * 2 ** this.#shift) range++;
      this.#firsts[first] = range;
    }
  }

  /** The ranges that a namespace begins with. */
  static initial(count: number): RangeMap {
    return RangeMap.WHOLE.with(initialFroms(count));
  }

  /** How many ranges are known. */
  get count(): number {
    return this.froms.length;
  }

  /** Which of the ranges has a hash: 0 to `count` - 1. */
  indexOf(hash: number): number {
    const { froms } = this;
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
    const { froms } = this;
    return { from: froms[index]!, to: froms[index + 1] ?? 0 };
  }

  /** The range that has a hash. */
  rangeOf(hash: number): Range {
    return this.at(this.indexOf(hash));
  }

  /** How many of the known ranges have hashes of another one. */
  countWithin(range: Range): number {
    return this.indexOf(endOf(range) - 1) - this.indexOf(range.from) + 1;
  }

  /** The known ranges that have hashes of another one, in the order of the circle. */
  within(range: Range): Range[] {
    const last = this.indexOf(endOf(range) - 1);
    const ranges: Range[] = [];
    for (let index = this.indexOf(range.from); index <= last; index++) ranges.push(this.at(index));
    return ranges;
  }

  /**
   * The map with more ranges; the same object where it knows them all. A namespace never has more ranges than a map may
   * have: such news can only be wrong, and change nothing.
   *
   * @param froms hashes at which ranges begin, in any order
   */
  with(froms: Iterable<number>): RangeMap {
    const known = new Set(this.froms);
    for (const from of froms) known.add(from);
    if (known.size === this.count || known.size > MAP_RANGES_MAX) return this;
    return new RangeMap(Uint32Array.from(known).toSorted());
  }
}
