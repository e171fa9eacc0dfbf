/**
 * The clocks of several objects that do one object's work: shards that have split, of which each took over the time of the one before.
 *
 * An object's time follows its clock forwards at once, also where it is ahead of that already. So what one has been set ahead, the
 * next one takes over, and adds what its own clock is ahead of the other's; then it may be set ahead once more. The time of all is
 * judged together, as if each could have taken over that of any other.
 */
import type { MsSpan } from "../../support/models/span.ts";
import { earliestIn, lastUntil, leadAfter, ROUNDING_MS, type ClockSteps } from "./clock-steps.ts";

/** One of the objects. */
export interface Member {
  readonly clock: ClockSteps;
  /** Its first life; what its clock was before is of no matter. */
  readonly bornMs: number;
}

/** A clock begins, or is set. */
interface Change {
  readonly atMs: number;
  readonly member: number;
  /** The clock less true time, from then on. */
  readonly offsetMs: number;
}

interface Step {
  readonly atMs: number;
  /** The greatest of the clocks less true time. */
  readonly offsetMs: number;
  readonly leastOffsetMs: number;
  /** By how much the time of any member may be ahead of true time, right after the step. */
  readonly leadMs: number;
  /** By how much time has gone forwards at most, by all steps up to this one. */
  readonly forwardsMs: number;
}

/** From a moment on, the least of the clocks less true time, also of members that are not born yet. */
interface Low {
  readonly atMs: number;
  readonly offsetMs: number;
}

/** Checkers ask for thousands of spans, of hundreds of members: each step says what follows for all of them. */
export class JointClocks {
  readonly #steps: readonly Step[];
  readonly #lows: readonly Low[];
  /** How far the clocks are apart at most, at whatever moments. */
  readonly spreadMs: number;

  // A member takes over the time of another one long after it has begun: so each bound is greater by the spread than the steps say.
  constructor(members: readonly Member[]) {
    const changes = changesOf(members);
    const offsets = changes.map(({ offsetMs }) => offsetMs);
    this.spreadMs = Math.max(...offsets) - Math.min(...offsets);
    this.#steps = stepsOf(changes, this.spreadMs);
    this.#lows = lowsOf(members);
  }

  /** The earliest time that a member may have had between two moments of true time. */
  earliestIn(beginMs: number, endMs: number): number {
    return earliestIn(this.#lows, beginMs, endMs);
  }

  /** The latest time that a member may have had until a moment of true time. */
  latestAt(ms: number): number {
    return Math.ceil(ms + this.#leadAt(ms) + this.spreadMs);
  }

  /** By how much the time of a member may have been ahead of its clock between two moments. */
  lagMost(beginMs: number, endMs: number): number {
    const steps = this.#steps;
    let most = 0;
    for (let i = lastUntil(steps, beginMs); i < steps.length && steps[i]!.atMs <= endMs; i++) {
      const { atMs, leastOffsetMs } = steps[i]!;
      const leadMs = this.#leadAt(Math.max(atMs, beginMs)) + this.spreadMs;
      most = Math.max(most, leadMs - leastOffsetMs);
    }
    return most === 0 ? 0 : Math.ceil(most) + ROUNDING_MS;
  }

  /** How much time may have passed at most. */
  elapsedMost(from: MsSpan, to: MsSpan): number {
    const last = this.#steps[lastUntil(this.#steps, to.toMs)]!;
    const jumpsMs = Math.max(0, last.forwardsMs - this.#forwardsBefore(from.fromMs));
    const passed = Math.max(0, to.toMs - from.fromMs) + jumpsMs;
    return Math.ceil(passed + this.spreadMs) + ROUNDING_MS;
  }

  #leadAt(ms: number): number {
    return leadAfter(this.#steps[lastUntil(this.#steps, ms)]!, ms);
  }

  /** No two steps are at the same moment, and the first one adds nothing. */
  #forwardsBefore(ms: number): number {
    const at = lastUntil(this.#steps, ms);
    return this.#steps[this.#steps[at]!.atMs < ms ? at : Math.max(0, at - 1)]!.forwardsMs;
  }
}

/** @param spreadMs what a member adds at most that begins, while it takes over the time of another one */
function stepsOf(all: readonly Change[], spreadMs: number): Step[] {
  const offsets = new Map<number, number>();
  const steps: Step[] = [];
  for (const [atMs, changes] of Map.groupBy(all, (change) => change.atMs)) {
    // Clocks that are set at the same moment are those of one machine: time that they add is added once.
    let addedMs = 0;
    for (const { member, offsetMs } of changes) {
      const before = offsets.get(member);
      addedMs = Math.max(addedMs, before === undefined ? spreadMs : offsetMs - before);
      offsets.set(member, offsetMs);
    }
    const offsetMs = Math.max(...offsets.values());
    const last = steps.at(-1);
    const leadMs = last === undefined ? offsetMs : leadAfter(last, atMs) + addedMs;
    steps.push({
      atMs,
      offsetMs,
      leastOffsetMs: Math.min(...offsets.values()),
      leadMs: Math.max(leadMs, offsetMs),
      forwardsMs: last === undefined ? 0 : last.forwardsMs + addedMs,
    });
  }
  return steps;
}

function lowsOf(members: readonly Member[]): Low[] {
  const offsets = new Map<number, number>();
  const always = members.map(({ clock }) => ({ clock, bornMs: -Infinity }));
  return [...Map.groupBy(changesOf(always), ({ atMs }) => atMs)].map(([atMs, changes]) => {
    for (const { member, offsetMs } of changes) offsets.set(member, offsetMs);
    return { atMs, offsetMs: Math.min(...offsets.values()) };
  });
}

/** In the order of time. */
function changesOf(members: readonly Member[]): Change[] {
  return members
    .flatMap(({ clock, bornMs }, member) => [
      { atMs: bornMs, member, offsetMs: clock.offsetAt(bornMs) },
      ...clock.settings
        .filter(({ atMs }) => atMs > bornMs)
        .map(({ atMs, offsetMs }) => ({ atMs, member, offsetMs })),
    ])
    .toSorted((a, b) => a.atMs - b.atMs);
}
