/**
 * What the clock of one object has shown, and what the object made of it: a shard's time follows its clock forwards at once. It
 * never goes back: where its clock does, its time stands still until the next reading, and then runs at nine tenths of the pace.
 *
 * Checkers ask for thousands of spans, and a clock may be set hundreds of times: each step says what follows from all before it.
 */
import type { MsSpan } from "../../support/models/span.ts";

interface Step {
  readonly atMs: number;
  /** The clock less true time, from then on. */
  readonly offsetMs: number;
  /** By how much the object's time may be ahead of true time, right after the step. */
  readonly leadMs: number;
  /** By how much the clock has gone forwards with all steps up to this one. */
  readonly forwardsMs: number;
  /** How many of the steps up to this one went back. */
  readonly backs: number;
}

/** Objects read whole milliseconds, and a slower pace is rounded to them. */
export const ROUNDING_MS = 2;
/** Of a shard's time while it is ahead of its clock. */
export const SLEWED_PACE = 0.9;

/** The clock of an object went back. */
export interface StepBack {
  readonly atMs: number;
  readonly byMs: number;
}

export class ClockSteps {
  readonly #steps: Step[];
  /** In the order of time. */
  readonly back: StepBack[] = [];

  /** @param offsetMs the clock less true time, before all steps */
  constructor(offsetMs = 0) {
    this.#steps = [{ atMs: -Infinity, offsetMs, leadMs: offsetMs, forwardsMs: 0, backs: 0 }];
  }

  /** The clock is set, or found to be as it was, which is no step. Called in the order of time. */
  add(atMs: number, offsetMs: number): void {
    const last = this.#steps.at(-1)!;
    if (offsetMs === last.offsetMs) return;
    if (offsetMs < last.offsetMs) this.back.push({ atMs, byMs: last.offsetMs - offsetMs });
    this.#steps.push(stepAfter(last, atMs, offsetMs));
  }

  /** When it was set, and to what: the clock less true time from then on. */
  get settings(): readonly { readonly atMs: number; readonly offsetMs: number }[] {
    return this.#steps;
  }

  /** The clock less true time at a moment. */
  offsetAt(ms: number): number {
    return this.#steps[this.#lastUntil(ms)]!.offsetMs;
  }

  /** How often it was set. */
  get count(): number {
    return this.#steps.length - 1;
  }

  /** The least and the greatest time that the object may have had between two moments of true time. */
  spanOf(beginMs: number, endMs: number): MsSpan {
    const leadMs = this.#leadAt(endMs);
    return { fromMs: earliestIn(this.#steps, beginMs, endMs), toMs: Math.ceil(endMs + leadMs) };
  }

  /** By how much the object's time may have been ahead of its clock between two moments, because that went back. */
  lagMost(beginMs: number, endMs: number): number {
    const steps = this.#steps;
    let most = 0;
    for (let i = this.#lastUntil(beginMs); i < steps.length && steps[i]!.atMs <= endMs; i++) {
      const { atMs, offsetMs } = steps[i]!;
      most = Math.max(most, this.#leadAt(Math.max(atMs, beginMs)) - offsetMs);
    }
    return most === 0 ? 0 : Math.ceil(most) + ROUNDING_MS;
  }

  /** How much of the object's time may have passed, as far as the steps between the two spans tell. */
  elapsed(from: MsSpan, to: MsSpan): MsSpan {
    const steps = this.#steps;
    const last = steps[this.#lastUntil(to.toMs)]!;
    const before = steps[this.#lastBefore(from.fromMs)] ?? steps[0]!;
    const jumpsMs = Math.max(0, last.forwardsMs - before.forwardsMs);
    const slowPace = last.backs > before.backs ? 0 : SLEWED_PACE;
    const pace = last.backs > 0 ? slowPace : 1;
    const least = Math.max(0, to.fromMs - from.toMs) * pace - ROUNDING_MS;
    const most = Math.max(0, to.toMs - from.fromMs) + jumpsMs + ROUNDING_MS;
    return { fromMs: Math.floor(least), toMs: Math.ceil(most) };
  }

  /** By how much the object's time may be ahead of true time. */
  #leadAt(ms: number): number {
    return leadAfter(this.#steps[this.#lastUntil(ms)]!, ms);
  }

  #lastUntil(ms: number): number {
    return lastUntil(this.#steps, ms);
  }

  /** The index of the last step before a moment; -1 for none. */
  #lastBefore(ms: number): number {
    let at = this.#lastUntil(ms);
    while (at >= 0 && this.#steps[at]!.atMs >= ms) at--;
    return at;
  }
}

/** The index of the last of some steps until a moment; the first one's where all are later. */
export function lastUntil(steps: readonly { readonly atMs: number }[], ms: number): number {
  let low = 0;
  let high = steps.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (steps[middle]!.atMs <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The earliest time that a clock may have shown between two moments of true time. @param steps its settings, in the order of time */
export function earliestIn(
  steps: readonly { readonly atMs: number; readonly offsetMs: number }[],
  beginMs: number,
  endMs: number,
): number {
  const first = lastUntil(steps, beginMs);
  let least = beginMs + steps[first]!.offsetMs;
  for (let i = first + 1; i < steps.length && steps[i]!.atMs <= endMs; i++) {
    least = Math.min(least, steps[i]!.atMs + steps[i]!.offsetMs);
  }
  return Math.floor(least) - ROUNDING_MS;
}

/**
 * After its clock went back, an object's time keeps its lead, which shrinks by a tenth of the time that passes. A step forwards adds
 * to the lead, as the object can't know that its clock is right again.
 */
function stepAfter(last: Step, atMs: number, offsetMs: number): Step {
  const forwardsMs = Math.max(0, offsetMs - last.offsetMs);
  return {
    atMs,
    offsetMs,
    leadMs: Math.max(leadAfter(last, atMs) + forwardsMs, offsetMs),
    forwardsMs: last.forwardsMs + forwardsMs,
    backs: last.backs + (offsetMs < last.offsetMs ? 1 : 0),
  };
}

/** What is left of a lead when no step has happened since the last one. */
export function leadAfter(
  { leadMs, atMs, offsetMs }: Pick<Step, "leadMs" | "atMs" | "offsetMs">,
  ms: number,
): number {
  if (leadMs <= offsetMs) return leadMs;
  return Math.max(offsetMs, leadMs - (ms - atMs) * (1 - SLEWED_PACE));
}
