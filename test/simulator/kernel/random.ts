/** Random choices that a seed repeats: mulberry32. Each part of a run forks its own, so that one part's choices change no other's. */

const U32 = 2 ** 32;

export class Random {
  #state: number;

  /** @param seed a whole number from 0 to 2^32 - 1 */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A source of its own, that depends on the name and on this one's state of now. */
  fork(name: string): Random {
    let hash = this.#state ^ 0x811c9dc5;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    const forked = new Random(hash);
    forked.u32();
    return forked;
  }

  u32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** From 0 to below 1. */
  next(): number {
    return this.u32() / U32;
  }

  /** A whole number from 0 to below `below`. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  /** Any number from `low` to below `high`. */
  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** A number whose logarithm is uniform between those of `low` and `high`: most are small, few are large. */
  skewed(low: number, high: number): number {
    return low * (high / low) ** this.next();
  }

  /** @param probability from 0 to 1 */
  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(items.length)]!;
  }

  bytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    this.randomize(bytes);
    return bytes;
  }

  /** Fills bytes with random ones, as `crypto.getRandomValues` does. */
  randomize(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i += 4) {
      const word = this.u32();
      for (let j = i; j < bytes.length && j < i + 4; j++) bytes[j] = word >>> (8 * (j - i));
    }
  }
}
