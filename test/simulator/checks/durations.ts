/**
 * When a duration by an object's time is over, in true time: the earliest moment at which it may be, and the moment from which on
 * it surely is. A clock that was set meanwhile makes the two differ.
 */
import { SLEWED_PACE } from "./clock-steps.ts";
import type { ClockHistory, MsSpan } from "./clocks.ts";

/** What a clock history rounds, and a little more. */
const ROUNDING_MS = 4;
const PRECISION_MS = 0.25;

/** The latest moment that a checker looks at: a duration that is not over by then counts as endless. */
const HORIZON_MS = 40 * 86_400_000;

/** Durations by the time of one object. */
export class Durations {
  readonly #clocks: ClockHistory;
  readonly #object: string;

  constructor(clocks: ClockHistory, object: string) {
    this.#clocks = clocks;
    this.#object = object;
  }

  /** Ms of true time before which it is certainly not over. */
  earliestEnd(begun: MsSpan, durationMs: number): number {
    if (durationMs === Infinity) return Infinity;
    const guessMs = begun.fromMs + durationMs;
    const isOver = (ms: number): boolean => this.#mayBeOver(begun, durationMs, ms);
    const lowMs = isOver(guessMs - ROUNDING_MS) ? begun.fromMs : guessMs - ROUNDING_MS;
    return bisect(isOver, lowMs, guessMs + ROUNDING_MS).low;
  }

  /** Ms of true time from which on it is certainly over; Infinity where that can't be said. */
  latestEnd(begun: MsSpan, durationMs: number): number {
    if (durationMs === Infinity || begun.toMs === Infinity) return Infinity;
    let endMs = this.#firstOver(begun, durationMs, begun.toMs);
    // An object that took no reading of its clock before that went back does not know that time had passed.
    for (const { atMs: stepMs } of this.#clocks.stepsBack(this.#object)) {
      if (stepMs < endMs || this.#isOver(begun, durationMs, stepMs)) continue;
      endMs = this.#firstOver(begun, durationMs, stepMs);
    }
    return endMs;
  }

  /** Ms of true time at which the object's clock went back, from a moment on; Infinity where it did not. */
  goesBackAtMs(fromMs: number): number {
    const steps = this.#clocks.stepsBack(this.#object);
    return steps.find(({ atMs }) => atMs >= fromMs)?.atMs ?? Infinity;
  }

  /**
   * How long it is by the object's time until its machine's clock shows a time, from a moment of a span of true time on. While the
   * object's time is ahead of that clock it passes slower.
   */
  until(endsAtMs: number, { fromMs, toMs }: MsSpan): MsSpan {
    const clock = this.#clocks.spanOf(this.#object, fromMs, toMs);
    const pace = this.#clocks.isSteady(this.#object) ? 1 : SLEWED_PACE;
    return {
      fromMs: Math.max(0, Math.floor((endsAtMs - clock.toMs) * pace) - ROUNDING_MS),
      toMs: Math.max(0, endsAtMs - clock.fromMs + ROUNDING_MS),
    };
  }

  #firstOver(begun: MsSpan, durationMs: number, fromMs: number): number {
    const isOver = (ms: number): boolean => this.#isOver(begun, durationMs, ms);
    let lowMs = fromMs;
    let stepMs = durationMs + ROUNDING_MS;
    while (!isOver(lowMs + stepMs)) {
      lowMs += stepMs;
      stepMs *= 2;
      if (stepMs > HORIZON_MS) return Infinity;
    }
    const highMs = lowMs + stepMs;
    return bisect(isOver, Math.max(lowMs, highMs - 2 * ROUNDING_MS), highMs).high;
  }

  #mayBeOver(begun: MsSpan, durationMs: number, ms: number): boolean {
    const at = { fromMs: ms, toMs: ms };
    if (this.#clocks.elapsed(this.#object, begun, at).toMs < durationMs) return false;
    const then = this.#clocks.spanOf(this.#object, begun.fromMs, begun.toMs);
    return this.#clocks.spanOf(this.#object, ms, ms).toMs - then.fromMs >= durationMs;
  }

  #isOver(begun: MsSpan, durationMs: number, ms: number): boolean {
    const at = { fromMs: ms, toMs: ms };
    if (this.#clocks.elapsed(this.#object, begun, at).fromMs >= durationMs) return true;
    const then = this.#clocks.spanOf(this.#object, begun.fromMs, begun.toMs);
    return this.#clocks.spanOf(this.#object, ms, ms).fromMs - then.toMs >= durationMs;
  }
}

/**
 * Two numbers that the least one at which `isOver` is true, which it stays, lies between; both are near `highMs` when it is false
 * below that.
 */
function bisect(
  isOver: (ms: number) => boolean,
  lowMs: number,
  highMs: number,
): { readonly low: number; readonly high: number } {
  let low = lowMs;
  let high = highMs;
  while (high - low > PRECISION_MS) {
    const middle = (low + high) / 2;
    if (isOver(middle)) high = middle;
    else low = middle;
  }
  return { low, high };
}
