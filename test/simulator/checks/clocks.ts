/**
 * What the clocks of objects may have shown. Faults set a clock forwards and back; checkers of what ends by an object's time ask
 * for spans, and leave both outcomes open within them.
 *
 * A shard's time follows its clock forwards at once. It never goes back: where its clock does, its time stands still until
 * the next reading, and then runs at nine tenths of the pace.
 */
import type { MsSpan } from "../../support/models/span.ts";

export type { MsSpan };

interface Step {
  readonly atMs: number;
  /** The clock less true time, from then on. */
  readonly offsetMs: number;
}

/** Objects read whole milliseconds, and a slower pace is rounded to them. */
export const ROUNDING_MS = 2;
/** Of a shard's time while it is ahead of its clock. */
export const SLEWED_PACE = 0.9;
const RIGHT: readonly Step[] = [{ atMs: -Infinity, offsetMs: 0 }];

/** The clock of an object went back. */
export interface StepBack {
  readonly atMs: number;
  readonly byMs: number;
}

export class ClockHistory {
  readonly #steps = new Map<string, Step[]>();
  readonly #starts = new Map<string, number[]>();
  readonly #members = new Map<string, string[]>();

  /**
   * An object did a part of the work of another one, and takes over its time: the time of the work may be that of either, and
   * as far from either clock as the clocks are apart.
   */
  addMember(object: string, member: string): void {
    const members = this.#members.get(object);
    if (members === undefined) this.#members.set(object, [object, member]);
    else members.push(member);
  }

  #membersOf(object: string): readonly string[] {
    return this.#members.get(object) ?? [object];
  }

  /** Several objects did an object's work, by clocks that were not always the same. */
  isApart(object: string): boolean {
    return this.#spreadOf(object) > 0;
  }

  /** How far the clocks of those who did an object's work are apart at most. */
  #spreadOf(object: string): number {
    const members = this.#membersOf(object);
    if (members.length === 1) return 0;
    const offsets = members.flatMap((member) =>
      this.#stepsOf(member).map(({ offsetMs }) => offsetMs),
    );
    return Math.max(...offsets) - Math.min(...offsets);
  }

  /** Whether the clock of an object was never set during the run. */
  isSteady(object: string): boolean {
    return (
      this.#spreadOf(object) === 0 &&
      this.#membersOf(object).every((member) => this.#isSteadyOfOne(member))
    );
  }

  /** When lives of an object started, in the order of time. */
  startsOf(object: string): readonly number[] {
    const starts = this.#membersOf(object).flatMap((member) => this.#startsOfOne(member));
    return starts.toSorted((a, b) => a - b);
  }

  /** How often the clock of one object, not of its members, was set, or found to be another one. */
  stepCount(object: string): number {
    return this.#stepsOf(object).length - 1;
  }

  /** When the clock of an object went back, in the order of time. */
  stepsBack(object: string): StepBack[] {
    return this.#membersOf(object)
      .flatMap((member) => this.#stepsBackOfOne(member))
      .toSorted((a, b) => a.atMs - b.atMs);
  }

  /** The least and the greatest time that an object may have had between two moments of true time. */
  spanOf(object: string, beginMs: number, endMs: number): MsSpan {
    const spans = this.#membersOf(object).map((one) => this.#spanOfOne(one, beginMs, endMs));
    return {
      fromMs: Math.min(...spans.map(({ fromMs }) => fromMs)),
      toMs: Math.max(...spans.map(({ toMs }) => toMs)) + this.#spreadOf(object),
    };
  }

  /** By how much an object's time may have been ahead of its clock between two moments, because that went back. */
  lagMost(object: string, beginMs: number, endMs: number): number {
    const lags = this.#membersOf(object).map((one) => this.#lagMostOfOne(one, beginMs, endMs));
    return Math.max(...lags) + this.#spreadOf(object);
  }

  /**
   * How much of an object's time may have passed from a moment of one span of true time to a later one of another span. What a
   * restart may have taken back is left out: see `ObjectTime`.
   */
  elapsed(object: string, from: MsSpan, to: MsSpan): MsSpan {
    const spans = this.#membersOf(object).map((member) => this.#elapsedOfOne(member, from, to));
    const spreadMs = this.#spreadOf(object);
    return {
      fromMs: spreadMs > 0 ? 0 : Math.min(...spans.map(({ fromMs }) => fromMs)),
      toMs: Math.max(...spans.map(({ toMs }) => toMs)) + spreadMs,
    };
  }

  /**
   * The clock of an object is set: from `atMs` of true time on it shows true time and the offset. Called in the order of time,
   * with -Infinity for a clock that was never right. A clock that is never set is right.
   */
  set(object: string, atMs: number, offsetMs: number): void {
    const steps = this.#steps.get(object);
    if (steps !== undefined) steps.push({ atMs, offsetMs });
    else if (atMs === -Infinity) this.#steps.set(object, [{ atMs, offsetMs }]);
    else this.#steps.set(object, [...RIGHT, { atMs, offsetMs }]);
  }

  /** A life of an object starts. Called in the order of time, after `set`. */
  start(object: string, atMs: number): void {
    const starts = this.#starts.get(object);
    if (starts === undefined) this.#starts.set(object, [atMs]);
    else starts.push(atMs);
  }

  #isSteadyOfOne(object: string): boolean {
    return this.#stepsOf(object).every(({ atMs }) => atMs === -Infinity);
  }

  #startsOfOne(object: string): readonly number[] {
    return this.#starts.get(object) ?? [];
  }

  #stepsBackOfOne(object: string): StepBack[] {
    const back: StepBack[] = [];
    let offset = -Infinity;
    for (const { atMs, offsetMs } of this.#stepsOf(object)) {
      if (offsetMs < offset) back.push({ atMs, byMs: offset - offsetMs });
      offset = offsetMs;
    }
    return back;
  }

  #spanOfOne(object: string, beginMs: number, endMs: number): MsSpan {
    let least = Infinity;
    for (const { atMs, offsetMs } of this.#stepsOf(object)) {
      if (atMs > endMs) break;
      if (atMs <= beginMs) least = beginMs + offsetMs;
      else least = Math.min(least, atMs + offsetMs);
    }
    const leadMs = this.#leadAt(object, endMs);
    return { fromMs: Math.floor(least) - ROUNDING_MS, toMs: Math.ceil(endMs + leadMs) };
  }

  #lagMostOfOne(object: string, beginMs: number, endMs: number): number {
    let most = 0;
    for (const { atMs, offsetMs } of this.#stepsOf(object)) {
      if (atMs > endMs) break;
      const ms = Math.max(atMs, beginMs);
      const lagMs = Math.max(0, this.#leadAt(object, ms) - offsetMs);
      most = atMs <= beginMs ? lagMs : Math.max(most, lagMs);
    }
    return most === 0 ? 0 : Math.ceil(most) + ROUNDING_MS;
  }

  /**
   * By how much an object's time may be ahead of true time. After its clock went back, its time keeps its lead, which shrinks by a
   * tenth of the time that passes. A step forwards adds to the lead, as the object can't know that its clock is right again.
   */
  #leadAt(object: string, ms: number): number {
    let leadMs = -Infinity;
    let last: Step | null = null;
    for (const step of this.#stepsOf(object)) {
      if (step.atMs > ms) break;
      if (last !== null) {
        const forwardsMs = Math.max(0, step.offsetMs - last.offsetMs);
        leadMs = leadAfter(leadMs, last, step.atMs) + forwardsMs;
      }
      leadMs = Math.max(leadMs, step.offsetMs);
      last = step;
    }
    return last === null ? 0 : leadAfter(leadMs, last, ms);
  }

  #elapsedOfOne(object: string, from: MsSpan, to: MsSpan): MsSpan {
    let jumpsMs = 0;
    let pace = 1;
    let offset = Infinity;
    for (const { atMs, offsetMs } of this.#stepsOf(object)) {
      if (atMs > to.toMs) break;
      const isMeanwhile = atMs >= from.fromMs;
      if (offsetMs < offset && offset < Infinity)
        pace = isMeanwhile ? 0 : Math.min(pace, SLEWED_PACE);
      else if (isMeanwhile) jumpsMs += Math.max(0, offsetMs - offset);
      offset = offsetMs;
    }
    const least = Math.max(0, to.fromMs - from.toMs) * pace - ROUNDING_MS;
    const most = Math.max(0, to.toMs - from.fromMs) + jumpsMs + ROUNDING_MS;
    if (!this.#steps.has(object))
      return { fromMs: Math.max(0, Math.floor(least)), toMs: Math.ceil(most) };
    const byClock = this.elapsedByClock(object, from, to);
    return {
      fromMs: Math.max(0, Math.floor(least), byClock.fromMs),
      toMs: Math.max(0, Math.min(Math.ceil(most), byClock.toMs)),
    };
  }

  /** As `elapsed`, as far as the object's clock tells it: its time is never behind that, however often it restarts. */
  elapsedByClock(object: string, from: MsSpan, to: MsSpan): MsSpan {
    const then = this.spanOf(object, from.fromMs, from.toMs);
    const now = this.spanOf(object, to.fromMs, to.toMs);
    return { fromMs: now.fromMs - then.toMs, toMs: now.toMs - then.fromMs };
  }

  #stepsOf(object: string): readonly Step[] {
    return this.#steps.get(object) ?? RIGHT;
  }
}

/** What is left of a lead when no step has happened since the last one. */
function leadAfter(leadMs: number, { atMs, offsetMs }: Step, ms: number): number {
  if (leadMs <= offsetMs) return leadMs;
  return Math.max(offsetMs, leadMs - (ms - atMs) * (1 - SLEWED_PACE));
}
