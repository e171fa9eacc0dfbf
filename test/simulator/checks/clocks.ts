/**
 * What the clocks of objects may have shown. Faults set a clock forwards and back; checkers of what ends by an object's time ask
 * for spans, and leave both outcomes open within them.
 */
import type { MsSpan } from "../../support/models/span.ts";
import { ClockSteps, type StepBack } from "./clock-steps.ts";
import { JointClocks } from "./joint-clocks.ts";

export type { MsSpan };

const ALWAYS_RIGHT = new ClockSteps();

export class ClockHistory {
  readonly #clocks = new Map<string, ClockSteps>();
  readonly #starts = new Map<string, number[]>();
  readonly #members = new Map<string, string[]>();
  /** Of objects with members: made when they are asked about, as all of them may still be set. */
  readonly #joint = new Map<string, JointClocks>();

  /**
   * An object did a part of the work of another one, and takes over its time: the time of the work may be that of either (see
   * `JointClocks`).
   */
  addMember(object: string, member: string): void {
    this.#joint.clear();
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
    return this.#members.has(object) ? this.#jointOf(object).spreadMs : 0;
  }

  #jointOf(object: string): JointClocks {
    let joint = this.#joint.get(object);
    if (joint === undefined) {
      const members = this.#membersOf(object).map((member) => ({
        clock: this.#clockOf(member),
        bornMs: this.#starts.get(member)?.[0] ?? -Infinity,
      }));
      this.#joint.set(object, (joint = new JointClocks(members)));
    }
    return joint;
  }

  /** Whether the clock of an object was never set during the run. */
  isSteady(object: string): boolean {
    return (
      this.#spreadOf(object) === 0 &&
      this.#membersOf(object).every((member) => this.#clockOf(member).count === 0)
    );
  }

  /** When lives of an object started, in the order of time. */
  startsOf(object: string): readonly number[] {
    const starts = this.#membersOf(object).flatMap((member) => this.#starts.get(member) ?? []);
    return starts.toSorted((a, b) => a - b);
  }

  /** How often the clock of one object, not of its members, was set, or found to be another one. */
  stepCount(object: string): number {
    return this.#clockOf(object).count;
  }

  /** When the clock of an object went back, in the order of time. */
  stepsBack(object: string): readonly StepBack[] {
    const members = this.#members.get(object);
    if (members === undefined) return this.#clockOf(object).back;
    const back = members.flatMap((member) => this.#clockOf(member).back);
    return back.toSorted((a, b) => a.atMs - b.atMs);
  }

  /** The least and the greatest time that an object may have had between two moments of true time. */
  spanOf(object: string, beginMs: number, endMs: number): MsSpan {
    if (!this.#members.has(object)) return this.#clockOf(object).spanOf(beginMs, endMs);
    const joint = this.#jointOf(object);
    return { fromMs: joint.earliestIn(beginMs, endMs), toMs: joint.latestAt(endMs) };
  }

  /** By how much an object's time may have been ahead of its clock between two moments, because that went back. */
  lagMost(object: string, beginMs: number, endMs: number): number {
    const clock = this.#members.has(object) ? this.#jointOf(object) : this.#clockOf(object);
    return clock.lagMost(beginMs, endMs);
  }

  /**
   * How much of an object's time may have passed from a moment of one span of true time to a later one of another span. What a
   * restart may have taken back is left out: see `ObjectTime`.
   */
  elapsed(object: string, from: MsSpan, to: MsSpan): MsSpan {
    if (!this.#members.has(object)) return this.#elapsedOfOne(object, from, to);
    const most = this.#jointOf(object).elapsedMost(from, to);
    return {
      fromMs: this.isApart(object) ? 0 : this.#elapsedLeast(object, from, to),
      toMs: Math.max(0, Math.min(most, this.elapsedByClock(object, from, to).toMs)),
    };
  }

  /**
   * The clock of an object is set: from `atMs` of true time on it shows true time and the offset. Called in the order of time,
   * with -Infinity for a clock that was never right. A clock that is never set is right.
   */
  set(object: string, atMs: number, offsetMs: number): void {
    this.#joint.clear();
    const clock = this.#clocks.get(object);
    if (clock !== undefined) clock.add(atMs, offsetMs);
    else {
      const first = new ClockSteps(atMs === -Infinity ? offsetMs : 0);
      if (atMs > -Infinity) first.add(atMs, offsetMs);
      this.#clocks.set(object, first);
    }
  }

  /** A life of an object starts. Called in the order of time, after `set`. */
  start(object: string, atMs: number): void {
    this.#joint.clear();
    const starts = this.#starts.get(object);
    if (starts === undefined) this.#starts.set(object, [atMs]);
    else starts.push(atMs);
  }

  #elapsedLeast(object: string, from: MsSpan, to: MsSpan): number {
    const members = this.#membersOf(object);
    return Math.min(...members.map((member) => this.#elapsedOfOne(member, from, to).fromMs));
  }

  #elapsedOfOne(object: string, from: MsSpan, to: MsSpan): MsSpan {
    const { fromMs, toMs } = this.#clockOf(object).elapsed(from, to);
    const byClock = this.elapsedByClock(object, from, to);
    return {
      fromMs: Math.max(0, fromMs, byClock.fromMs),
      toMs: Math.max(0, Math.min(toMs, byClock.toMs)),
    };
  }

  /** As `elapsed`, as far as the object's clock tells it: its time is never behind that, however often it restarts. */
  elapsedByClock(object: string, from: MsSpan, to: MsSpan): MsSpan {
    const then = this.spanOf(object, from.fromMs, from.toMs);
    const now = this.spanOf(object, to.fromMs, to.toMs);
    return { fromMs: now.fromMs - then.toMs, toMs: now.toMs - then.fromMs };
  }

  #clockOf(object: string): ClockSteps {
    return this.#clocks.get(object) ?? ALWAYS_RIGHT;
  }
}
