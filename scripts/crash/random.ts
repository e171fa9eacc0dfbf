/** Random choices that a seed repeats: mulberry32. */

const U32 = 2 ** 32;

export class Random {
  #state: number;

  /** @param seed any number of integers; each of them changes everything that follows */
  constructor(...seed: readonly number[]) {
    this.#state = 0;
    for (const part of seed) this.#state = (this.u32() ^ part) >>> 0;
  }

  u32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  u64(): bigint {
    return (BigInt(this.u32()) << 32n) | BigInt(this.u32());
  }

  /** An integer from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor((this.u32() / U32) * (max - min + 1));
  }

  /** True in `percent` of a hundred cases. */
  chance(percent: number): boolean {
    return (this.u32() / U32) * 100 < percent;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)]!;
  }

  bytes(length: number): Uint8Array {
    const words = new Uint32Array(Math.ceil(length / 4));
    for (let i = 0; i < words.length; i++) words[i] = this.u32();
    return new Uint8Array(words.buffer, 0, length);
  }
}
