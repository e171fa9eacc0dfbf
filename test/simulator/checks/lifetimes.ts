/**
 * When a thing certainly existed, and when it may have: a record in a listing, a lease. Calls that overlap may have been applied
 * in any order, and an unknown one at any time or never; so a lifetime is two sets of intervals, and never one.
 */
import type { MsSpan } from "./clocks.ts";
import type { Durations } from "./durations.ts";
import type { Moment } from "./history.ts";
import { afterMs, beforeMs, earlier, isBefore, later, lowerBound, NEVER } from "./order.ts";

/** From the first moment to the second one. */
export interface Interval {
  readonly from: Moment;
  readonly to: Moment;
}

/** What a call did to a thing, or saw of it. */
export interface Change {
  readonly leaves: "present" | "absent";
  /** Applied between these moments; `to` is NEVER for a call that may be applied at any time. */
  readonly from: Moment;
  readonly to: Moment;
  /**
   * `done`: it was applied. `open`: it may have been. `seen`: the thing was so already. A sighting only ends what may have been,
   * so that it can contradict what must have been.
   */
  readonly certainty: "done" | "open" | "seen";
  /** It removes what is there, and does not say what. A thing that had ended by then has no row of it, and may be there again. */
  readonly mayFindNothing?: boolean;
  /** It changes only what is there, such as the renewal of a lease. */
  readonly isExtension?: boolean;
  /** How long the thing lives from then on, by the object's time, at least and at most. Endless when it is left out. */
  readonly livesMs?: MsSpan;
}

export interface PossibleInterval extends Interval {
  /** The change that made it possible. */
  readonly change: Change;
}

export interface Lifetimes {
  /** Merged, in order. */
  readonly sure: readonly Interval[];
  /** For each change that may have left the thing present, in the order of `from`; several where it may have been there again. */
  readonly possible: readonly PossibleInterval[];
}

const fromOf = ({ from }: Interval | Change): Moment => from;
const ENDLESS: MsSpan = { fromMs: Infinity, toMs: Infinity };

export function lifetimesOf(changes: readonly Change[], durations: Durations): Lifetimes {
  const ordered = changes.toSorted((a, b) => (isBefore(a.from, b.from) ? -1 : 1));
  return {
    sure: sureIntervals(ordered, durations),
    possible: possibleIntervals(ordered, durations),
  };
}

/** Present for all of an interval. */
export function coversAll(sure: readonly Interval[], from: Moment, to: Moment): boolean {
  return sure.some((interval) => !isBefore(from, interval.from) && !isBefore(interval.to, to));
}

/** Present at some moment of an interval, by another change than `except`. */
export function meetsAny(
  possible: readonly PossibleInterval[],
  from: Moment,
  to: Moment,
  except?: Change,
): boolean {
  return possible.some(
    (interval) =>
      interval.change !== except && !isBefore(interval.to, from) && !isBefore(to, interval.from),
  );
}

export function mergeIntervals(intervals: readonly Interval[]): Interval[] {
  const merged: { from: Moment; to: Moment }[] = [];
  for (const { from, to } of intervals.toSorted((a, b) => (isBefore(a.from, b.from) ? -1 : 1))) {
    const last = merged.at(-1);
    if (last === undefined || isBefore(last.to, from)) merged.push({ from, to });
    else last.to = later(last.to, to);
  }
  return merged;
}

/** A sure interval begins when a change is over, and ends with whatever may have been applied after that change began. */
function sureIntervals(ordered: readonly Change[], durations: Durations): Interval[] {
  const effective = ordered.filter(({ certainty }) => certainty !== "seen");
  // Of all up to an index: where to begin to look for what may have been applied after a moment.
  let latest = beforeMs(-Infinity);
  const latestTo = effective.map(({ to }) => (latest = later(latest, to)));
  const ends = new Map<Change, Moment>();
  const earliestEndOf = (change: Change): Moment => {
    let end = ends.get(change);
    if (end === undefined) ends.set(change, (end = earliestEnd(change, durations)));
    return end;
  };
  const intervals: Interval[] = [];
  for (const change of effective) {
    if (change.certainty !== "done" || change.leaves !== "present") continue;
    let end = earliestEndOf(change);
    const start = lowerBound(latestTo, change.from, (to) => to);
    for (let i = start; i < effective.length && isBefore(change.to, end); i++) {
      const other = effective[i]!;
      if (!isBefore(other.from, end)) break;
      if (other === change || !isBefore(change.from, other.to)) continue;
      if (other.leaves === "absent") end = other.from;
      else end = earlier(end, later(other.from, earliestEndOf(other)));
    }
    if (isBefore(change.to, end)) intervals.push({ from: change.to, to: end });
  }
  return mergeIntervals(intervals);
}

/** A possible interval begins with a change, and ends with what certainly was applied after it. */
function possibleIntervals(ordered: readonly Change[], durations: Durations): PossibleInterval[] {
  const absent = ordered.filter(({ leaves }) => leaves === "absent");
  const done = absent.filter(({ certainty }) => certainty === "done");
  const removals = new FirstOver(done.filter((change) => !mayFindNothing(change)));
  const clearings = new FirstOver(done.filter(mayFindNothing));
  const sightings = new FirstOver(
    absent.filter((change) => change.certainty === "seen" || mayFindNothing(change)),
  );
  const removedAt = (change: Change): Moment => {
    const removed = removals.after(change.to)?.to ?? NEVER;
    const cleared = clearings.after(change.to)?.to ?? NEVER;
    return isBefore(cleared, earliestEnd(change, durations)) ? earlier(removed, cleared) : removed;
  };
  const intervalsOf = (change: Change): PossibleInterval[] => {
    const end = earlier(removedAt(change), latestEnd(change, durations));
    const intervals: PossibleInterval[] = [];
    // A thing that was seen to have ended may be there again: no row says it, and the object's time may go back.
    let { from, to: after } = change;
    do {
      const sighting = sightings.after(after);
      intervals.push({ from, to: earlier(sighting?.to ?? NEVER, end), change });
      if (sighting === null) break;
      from = after = beforeMs(durations.goesBackAtMs(sighting.from.ms));
    } while (isBefore(from, end));
    return intervals;
  };
  const present = ordered.filter(({ leaves }) => leaves === "present");
  const intervals = present.filter((change) => !isOpenExtension(change)).flatMap(intervalsOf);
  // It may be applied late, to what was made after it was asked for; and then another one may be applied to what it has left.
  let waiting = present.filter(isOpenExtension);
  for (let before = Infinity; waiting.length < before;) {
    before = waiting.length;
    const meets = ({ from, to }: Change): boolean => meetsAny(intervals, from, to);
    const met = waiting.filter(meets);
    waiting = waiting.filter((change) => !met.includes(change));
    intervals.push(...met.flatMap(intervalsOf));
  }
  return intervals.toSorted((a, b) => (isBefore(a.from, b.from) ? -1 : 1));
}

/** Of changes that end what may have been: which one is the first to be over after a moment. */
class FirstOver {
  readonly #changes: readonly Change[];
  /** By index: of the changes from there on. */
  readonly #firsts: Change[] = [];

  /** @param changes in the order of `from` */
  constructor(changes: readonly Change[]) {
    this.#changes = changes;
    let first: Change | null = null;
    for (let i = changes.length - 1; i >= 0; i--) {
      const change = changes[i]!;
      if (first === null || isBefore(change.to, first.to)) first = change;
      this.#firsts[i] = first;
    }
  }

  /** Of those that began at a moment or later. */
  after(moment: Moment): Change | null {
    return this.#firsts[lowerBound(this.#changes, moment, fromOf)] ?? null;
  }
}

const mayFindNothing = (change: Change): boolean =>
  change.certainty === "done" && change.mayFindNothing === true;

const isOpenExtension = ({ isExtension = false, certainty }: Change): boolean =>
  isExtension && certainty === "open";

function earliestEnd({ from, to, livesMs = ENDLESS }: Change, durations: Durations): Moment {
  if (livesMs.fromMs === Infinity) return NEVER;
  return beforeMs(durations.earliestEnd({ fromMs: from.ms, toMs: to.ms }, livesMs.fromMs));
}

function latestEnd({ from, to, livesMs = ENDLESS }: Change, durations: Durations): Moment {
  if (livesMs.toMs === Infinity) return NEVER;
  return afterMs(durations.latestEnd({ fromMs: from.ms, toMs: to.ms }, livesMs.toMs));
}
