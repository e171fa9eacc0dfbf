/**
 * The least and the most that a figure may have been at each moment: sums of what certainly counts, and of what may count. Steps
 * come in any order; `seal` sorts them once.
 */
import type { Moment } from "./history.ts";
import { compare, isBefore, lowerBound } from "./order.ts";

interface Step {
  readonly at: Moment;
  readonly low: number;
  readonly high: number;
}

/** From `at` to the next segment. */
export interface Segment {
  readonly at: Moment;
  readonly low: number;
  readonly high: number;
}

const atOf = ({ at }: Segment): Moment => at;

export class Bounds {
  readonly #steps: Step[] = [];
  #segments: readonly Segment[] | null = null;
  /** For each segment, the most until its end. */
  #mosts: readonly number[] = [];

  /** From a moment on, the figure's bounds are changed by so much. */
  add(at: Moment, low: number, high: number): void {
    if (at.ms === Infinity || (low === 0 && high === 0)) return;
    this.#steps.push({ at, low, high });
    this.#segments = null;
    this.#mosts = [];
  }

  /** In order. Before the first one both bounds are 0. */
  get segments(): readonly Segment[] {
    return (this.#segments ??= this.#seal());
  }

  /** What holds at some moment between two, in order. */
  *between(from: Moment, to: Moment): Generator<Segment> {
    const { segments } = this;
    let index = lowerBound(segments, from, atOf);
    // The segment that `from` is in may have begun before.
    if (index === segments.length || isBefore(from, segments[index]!.at)) {
      yield segments[index - 1] ?? { at: from, low: 0, high: 0 };
    } else yield segments[index++]!;
    for (; index < segments.length && isBefore(segments[index]!.at, to); index++) {
      yield segments[index]!;
    }
  }

  /** The figure may have been so at some moment between two. */
  mayBe(value: number, from: Moment, to: Moment): boolean {
    for (const { low, high } of this.between(from, to)) {
      if (low <= value && value <= high) return true;
    }
    return false;
  }

  leastBetween(from: Moment, to: Moment): number {
    let least = Infinity;
    for (const { low } of this.between(from, to)) least = Math.min(least, low);
    return least;
  }

  mostBetween(from: Moment, to: Moment): number {
    let most = 0;
    for (const { high } of this.between(from, to)) most = Math.max(most, high);
    return most;
  }

  /** The most at any moment up to one. */
  mostUntil(to: Moment): number {
    const { segments } = this;
    if (this.#mosts.length !== segments.length) {
      let most = 0;
      this.#mosts = segments.map(({ high }) => (most = Math.max(most, high)));
    }
    return this.#mosts[lowerBound(segments, to, atOf) - 1] ?? 0;
  }

  #seal(): Segment[] {
    this.#steps.sort((a, b) => compare(a.at, b.at));
    const segments: Segment[] = [];
    let low = 0;
    let high = 0;
    for (const step of this.#steps) {
      low += step.low;
      high += step.high;
      const segment = { at: step.at, low, high };
      const last = segments.at(-1);
      if (last !== undefined && compare(last.at, step.at) === 0) segments.pop();
      segments.push(segment);
    }
    return segments;
  }
}
