/** Random choices of the crash test, which a seed repeats. */
import { Mulberry32 } from "../../test/simulator/kernel/mulberry32.ts";

export class Random extends Mulberry32 {
  /** @param seed any number of integers; each of them changes everything that follows */
  constructor(...seed: readonly number[]) {
    super(0);
    for (const part of seed) this.state = (this.u32() ^ part) >>> 0;
  }

  u64(): bigint {
    return (BigInt(this.u32()) << 32n) | BigInt(this.u32());
  }

  /** An integer from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + this.int(max - min + 1);
  }

  /** True in `percent` of a hundred cases. */
  chance(percent: number): boolean {
    return this.next() * 100 < percent;
  }
}
