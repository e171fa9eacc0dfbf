/** Random numbers that a seed repeats: mulberry32. */

const U32 = 2 ** 32;

export class Mulberry32 {
  protected state: number;

  /** @param seed a whole number from 0 to 2^32 - 1 */
  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  u32(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
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
