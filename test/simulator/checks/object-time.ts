/**
 * The time of one object, as closely as clocks and calls tell it. It goes back only where the object restarts after its clock went
 * back. It then continues from the time of the object's last row, or from its clock if that is later. Only reads can have seen a
 * later time, as each write has a row.
 */
import type { MsSpan } from "../../support/models/span.ts";
import { ROUNDING_MS, SLEWED_PACE, type StepBack } from "./clock-steps.ts";
import type { ClockHistory } from "./clocks.ts";

/** An object's time may have gone back. */
export interface Return {
  readonly atMs: number;
  /** By so much at most. */
  readonly byMs: number;
}

/** What calls tell of an object: spans of true time. */
export interface Activity {
  /** Within each of these it took a reading of its clock. */
  readonly readings: readonly MsSpan[];
  /** Within each of these it wrote a row that no restart has lost. */
  readonly rows: readonly MsSpan[];
}

export class ObjectTime {
  readonly returns: readonly Return[];
  readonly #clocks: ClockHistory;
  readonly #object: string;
  /** From the first step back on, its time may pass at the slower pace. */
  readonly #slowFromMs: number;
  /** Around each step back: no reading is known within, so its time may stand still. */
  readonly #still: readonly MsSpan[];

  constructor(clocks: ClockHistory, object: string, { readings, rows }: Activity) {
    this.#clocks = clocks;
    this.#object = object;
    const steps = clocks.stepsBack(object);
    this.#slowFromMs = steps[0]?.atMs ?? Infinity;
    this.#still = steps.map(({ atMs }) => stillAround(atMs, readings));
    this.returns = steps.length === 0 ? [] : this.#returnsOf(steps, rows);
  }

  /** Whether the object's clock was never set during the run. */
  get isSteady(): boolean {
    return this.#clocks.isSteady(this.#object);
  }

  /** The least and the greatest time that the object may have had within a span of true time. */
  spanOf({ fromMs, toMs }: MsSpan): MsSpan {
    return this.#clocks.spanOf(this.#object, fromMs, toMs);
  }

  /** How much of it may have passed from a moment of one span of true time to a later one of another span; less than 0 over a return. */
  elapsed(from: MsSpan, to: MsSpan): MsSpan {
    const passed = this.#clocks.elapsed(this.#object, from, to);
    if (to.toMs < this.#slowFromMs) return passed;
    const byClock = this.#clocks.elapsedByClock(this.#object, from, to);
    const backMs = this.#backMs(from.fromMs, to.toMs);
    // Of shards that have split, the readings are those of either: the one that has the record may have taken none of them.
    const least = this.#clocks.isApart(this.#object)
      ? -Infinity
      : Math.floor(this.#pacedMs(from.toMs, to.fromMs)) - ROUNDING_MS - backMs;
    return {
      fromMs: Math.max(least, byClock.fromMs, backMs === 0 ? 0 : -Infinity),
      toMs: passed.toMs,
    };
  }

  /** What passes at least between two moments if there is no return. */
  #pacedMs(fromMs: number, toMs: number): number {
    if (toMs <= fromMs) return 0;
    const slowFromMs = Math.min(toMs, Math.max(fromMs, this.#slowFromMs));
    let ms = slowFromMs - fromMs + (toMs - slowFromMs) * SLEWED_PACE;
    for (const still of this.#still) {
      ms -= Math.max(0, Math.min(toMs, still.toMs) - Math.max(fromMs, still.fromMs));
    }
    return Math.max(0, ms);
  }

  #backMs(fromMs: number, toMs: number): number {
    let backMs = 0;
    for (const { atMs, byMs } of this.returns) {
      if (atMs >= fromMs && atMs <= toMs) backMs += byMs;
    }
    return backMs;
  }

  /** A restart takes back at most the time that had passed since the last row, and at most what the clock went back since then. */
  #returnsOf(steps: readonly StepBack[], rows: readonly MsSpan[]): Return[] {
    const returns: Return[] = [];
    for (const atMs of this.#clocks.startsOf(this.#object)) {
      const rowMs = latestBefore(atMs, rows);
      let stepsMs = 0;
      for (const step of steps) if (step.atMs >= rowMs && step.atMs <= atMs) stepsMs += step.byMs;
      if (stepsMs === 0) continue;
      const row = { fromMs: rowMs, toMs: rowMs };
      const passed = this.#clocks.elapsed(this.#object, row, { fromMs: atMs, toMs: atMs });
      returns.push({ atMs, byMs: Math.ceil(Math.min(stepsMs, passed.toMs)) });
    }
    return returns;
  }
}

/** The greatest begin of the spans that have ended by then. */
function latestBefore(ms: number, spans: readonly MsSpan[]): number {
  return spans.reduce(
    (latest, { fromMs, toMs }) => (toMs < ms ? Math.max(latest, fromMs) : latest),
    -Infinity,
  );
}

function stillAround(atMs: number, readings: readonly MsSpan[]): MsSpan {
  const toMs = readings.reduce(
    (first, reading) => (reading.fromMs > atMs ? Math.min(first, reading.toMs) : first),
    Infinity,
  );
  return { fromMs: latestBefore(atMs, readings), toMs };
}
