/** Random choices of a run. Each part of it forks its own, so that one part's choices change no other's. */
import { Mulberry32 } from "./mulberry32.ts";

export class Random extends Mulberry32 {
  /** A source of its own, that depends on the name and on this one's state of now. */
  fork(name: string): Random {
    let hash = this.state ^ 0x811c9dc5;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    const forked = new Random(hash);
    forked.u32();
    return forked;
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
}
