/**
 * The last hour of a namespace, minute by minute, made of the reports of its objects.
 *
 * Reports have sums, so a minute gets what has been added since the report that is known of the same object. Late ones
 * join their minute. Clocks of objects differ: a minute that has not begun here is taken for the present one.
 */
import type { DecisionCounts, HistoryMinute } from "../wire/history.ts";
import { MINUTE_MS } from "./minute-counts.ts";
import {
  mostDecisions,
  NO_SUMS,
  type LimitOfMinute,
  type MinuteReport,
  type ReportedMinute,
  type Sums,
} from "./minute-report.ts";
import { HISTORY_OBJECTS_MAX } from "./sizes.ts";

/** Whole minutes that are shown. */
export const HISTORY_MINUTES = 60;

/** What is known of an object. */
interface Known {
  readonly sinceMs: number;
  readonly sums: Sums;
}

interface Minute {
  readonly sums: Sums;
  readonly limits: readonly LimitOfMinute[];
}

/** What is stored: plain data. */
export interface StoredHistory {
  readonly minutes: readonly (readonly [minute: number, Minute])[];
  readonly known: readonly (readonly [object: string, Known])[];
}

export class History {
  /** By minutes since the epoch. */
  readonly #minutes: Map<number, Minute>;
  /** By object, the one that reported last at the end. */
  readonly #known: Map<string, Known>;

  constructor({ minutes, known }: StoredHistory = { minutes: [], known: [] }) {
    this.#minutes = new Map(minutes);
    this.#known = new Map(known);
  }

  /** Adds what an object has counted since its last report. */
  add(object: string, { sinceMs, base, minutes }: MinuteReport, nowMs: number): void {
    const known = this.#known.get(object);
    let sums = known?.sinceMs === sinceMs ? known.sums : base;
    const last = minutes.at(-1)!.sums;
    // A report that came twice. One of an object that lost its last counts says less than is known, and counts on from there.
    if (known?.sinceMs === sinceMs && last.every((sum, i) => sum === known.sums[i])) return;
    for (const minute of minutes) {
      this.#addMinute(minute, sums, nowMs);
      sums = minute.sums;
    }
    this.#known.delete(object);
    this.#known.set(object, { sinceMs, sums });
    if (this.#known.size > HISTORY_OBJECTS_MAX) this.forget(this.#known.keys().next().value!);
    this.#drop(nowMs);
  }

  /** An object is gone: another one by its name begins anew. */
  forget(object: string): void {
    this.#known.delete(object);
  }

  /** The whole minutes of the last hour, oldest first. */
  list(nowMs: number): HistoryMinute[] {
    const present = minuteOf(nowMs);
    return [...this.#minutes]
      .filter(([minute]) => minute < present && minute >= present - HISTORY_MINUTES)
      .toSorted(([a], [b]) => a - b)
      .map(([minute, { sums, limits }]) => {
        const [requests, readBytes, writeBytes, ...outcomes] = sums;
        return {
          atMs: minute * MINUTE_MS,
          requests,
          readBytes,
          writeBytes,
          limits: decisionsOf(outcomes),
          byLimit: Object.fromEntries(
            limits.map(([name, ...ofLimit]) => [name, decisionsOf(ofLimit)]),
          ),
        };
      });
  }

  get stored(): StoredHistory {
    return { minutes: [...this.#minutes], known: [...this.#known] };
  }

  #addMinute({ atMs, sums, limits }: ReportedMinute, known: Sums, nowMs: number): void {
    const minute = Math.min(minuteOf(atMs), minuteOf(nowMs));
    const before = this.#minutes.get(minute);
    const added = plus(before?.sums ?? NO_SUMS, minus(sums, known));
    const all = [...(before?.limits ?? []), ...limits];
    if (added.every((sum) => sum === 0) && all.length === 0) return;
    this.#minutes.set(minute, { sums: added, limits: mostDecisions(byName(all)) });
  }

  /** Drops what is too old, and, where the clock has gone back, what has not begun yet. */
  #drop(nowMs: number): void {
    const present = minuteOf(nowMs);
    for (const minute of this.#minutes.keys()) {
      if (minute < present - HISTORY_MINUTES || minute > present) this.#minutes.delete(minute);
    }
  }
}

const minuteOf = (ms: number): number => Math.floor(ms / MINUTE_MS);

const plus = (a: Sums, b: Sums): Sums => a.map((sum, i) => sum + b[i]!) as unknown as Sums;

/** What was lost with an object since it last reported was counted then: it is not taken off again. */
const minus = (a: Sums, b: Sums): Sums =>
  a.map((sum, i) => Math.max(0, sum - b[i]!)) as unknown as Sums;

const decisionsOf = ([allowed, refused, errors]: readonly [
  number,
  number,
  number,
]): DecisionCounts => ({ allowed, refused, errors });

/** One entry for each name. */
function byName(limits: readonly LimitOfMinute[]): LimitOfMinute[] {
  const sums = new Map<string, LimitOfMinute>();
  for (const [name, ...counts] of limits) {
    const [, allowed, refused, errors] = sums.get(name) ?? [name, 0, 0, 0];
    sums.set(name, [name, allowed + counts[0], refused + counts[1], errors + counts[2]]);
  }
  return [...sums.values()];
}
