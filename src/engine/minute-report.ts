/**
 * What an object tells the Directory once a minute: what it has counted.
 *
 * A report has sums since counting began, not what was added: so one that is lost is made good by the next, and one that
 * comes twice changes nothing. Only counts by limiter are of their minute alone, as there may be many names.
 */
import { COUNTED_REQUESTS } from "./counted-requests.ts";
import {
  LIMIT_COUNTS,
  LIMIT_OUTCOMES,
  LimitRow,
  type LimitFigures,
  type LimitTotals,
} from "./limit-figures.ts";
import { MINUTE_MS } from "./minute-counts.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, type Tally } from "./tally.ts";

/** Names of limiters of one minute. */
export const REPORTED_LIMITS_MAX = 16;

/** Requests, bytes read and written; decisions that allowed and refused, and errors. */
export type Sums = readonly [number, number, number, number, number, number];
export const NO_SUMS: Sums = [0, 0, 0, 0, 0, 0];
/** A limiter, and what it decided in a minute: allowed, refused, errors. */
export type LimitOfMinute = readonly [name: string, number, number, number];

export interface ReportedMinute {
  /** When it began, ms since the epoch. */
  readonly atMs: number;
  /** Of all that was counted up to its end, or until now. */
  readonly sums: Sums;
  /** Those with the most decisions. */
  readonly limits: readonly LimitOfMinute[];
}

export interface MinuteReport {
  /** When counting began, ms since the epoch: with another time sums have begun again. */
  readonly sinceMs: number;
  /** What the report before said, or what there was when the object started. */
  readonly base: Sums;
  /** Oldest first: the rest of the minute before, and this one as far as it goes. */
  readonly minutes: readonly ReportedMinute[];
}

/** Of one object. Its tally and figures must have been turned to the present before each call. */
export class MinuteReporter {
  readonly #tally: Tally;
  readonly #limits: LimitFigures | null;
  #sinceMs = 0;
  /** When the last of what was restored was counted. */
  #restoredMs = 0;
  #base: Sums = NO_SUMS;
  #limitsBase: LimitTotals | null = null;
  /** The minute of the last report. */
  #reported = -1;

  constructor(tally: Tally, limits: LimitFigures | null) {
    this.#tally = tally;
    this.#limits = limits;
  }

  /** Once counts of an earlier instance have been restored, of which the last may not have been reported. */
  begin(sinceMs: number, restoredMs: number): void {
    this.#sinceMs = sinceMs;
    this.#restoredMs = restoredMs;
    this.#base = sumsOf(this.#tally.totals, this.#limits?.snapshot() ?? null);
    this.#limitsBase = this.#limits?.snapshot() ?? null;
    // The first request of a minute makes its report: it was made before the object slept.
    this.#reported = minuteOf(restoredMs);
  }

  /**
   * The report of this minute; null when there was one, or nothing is new.
   *
   * @param isLast counting ends: there is a report of what is new, even if there was one
   */
  take(isLast: boolean = false): MinuteReport | null {
    // Asked after every batch: mostly this is all.
    if (this.#tally.minute === this.#reported && !isLast) return null;
    const { minute, minuteBefore, totals, atMinute } = this.#tally;
    const isFirst = this.#restoredMs > 0;
    const limitsBefore = this.#limits?.snapshotAtMinute() ?? null;
    const limitsNow = this.#limits?.snapshot() ?? null;
    const before = sumsOf(atMinute, limitsBefore);
    const now = sumsOf(totals, limitsNow);
    const beforeMs = isFirst ? this.#restoredMs : minuteBefore * MINUTE_MS;
    const minutes: ReportedMinute[] = [];
    /** No report has all that was counted before this minute. Else one may have been made in this minute. */
    const isNew = isMore(before, this.#base);
    if (isFirst || isNew) {
      const limits = limitsBetween(this.#limitsBase, limitsBefore);
      minutes.push({ atMs: minuteOf(beforeMs) * MINUTE_MS, sums: before, limits });
    }
    if (isMore(now, isNew ? before : this.#base)) {
      const limits = limitsBetween(isNew ? limitsBefore : this.#limitsBase, limitsNow);
      minutes.push({ atMs: minute * MINUTE_MS, sums: now, limits });
    }
    if (minutes.length === 0) return null;
    const report = { sinceMs: this.#sinceMs, base: this.#base, minutes };
    this.#reported = minute;
    this.#restoredMs = 0;
    this.#base = now;
    this.#limitsBase = limitsNow;
    return report;
  }

  /** Reports may not have arrived that were made since sums were these: the next one has what they said. */
  repeatFrom(sums: Sums): void {
    this.#base = sums;
  }

  /** The same, without anything new where nothing is. */
  takeAnyway(): MinuteReport {
    const report = this.take(true);
    if (report !== null) return report;
    const atMs = this.#tally.minute * MINUTE_MS;
    const minutes = [{ atMs, sums: this.#base, limits: [] }];
    return { sinceMs: this.#sinceMs, base: this.#base, minutes };
  }
}

const minuteOf = (ms: number): number => Math.floor(ms / MINUTE_MS);

function sumsOf(counts: Readonly<Float64Array>, limits: LimitTotals | null): Sums {
  const requests = COUNTED_REQUESTS.reduce((sum, { index }) => sum + counts[index]!, 0);
  const [allowed = 0, refused = 0, errors = 0] = limits === null ? [] : outcomesAt(limits, 0);
  return [
    requests,
    counts[TALLY_READ_BYTES]!,
    counts[TALLY_WRITE_BYTES]!,
    allowed,
    refused,
    errors,
  ];
}

const isMore = (sums: Sums, than: Sums): boolean => sums.some((sum, i) => sum > than[i]!);

/** What each limiter has decided between two moments. One whose row is new since began at 0. */
function limitsBetween(from: LimitTotals | null, to: LimitTotals | null): LimitOfMinute[] {
  if (to === null) return [];
  const before = new Map(from?.names.map((name, i) => [name, outcomesAt(from, rowOf(i))]));
  return mostDecisions(
    to.names.map((name, i): LimitOfMinute => {
      const now = outcomesAt(to, rowOf(i));
      const was = before.get(name);
      const [allowed, refused, errors] = now.map((count, at) => {
        const more = count - (was?.[at] ?? 0);
        return more < 0 ? count : more;
      });
      return [name, allowed!, refused!, errors!];
    }),
  );
}

/** Those that decided anything, at most as many as a minute has. */
export function mostDecisions(limits: readonly LimitOfMinute[]): LimitOfMinute[] {
  const sumOf = ([, allowed, refused, errors]: LimitOfMinute): number => allowed + refused + errors;
  return limits
    .filter((limit) => sumOf(limit) > 0)
    .toSorted((a, b) => sumOf(b) - sumOf(a) || (a[0] < b[0] ? -1 : 1))
    .slice(0, REPORTED_LIMITS_MAX);
}

const rowOf = (name: number): number => (LimitRow.firstName + name) * LIMIT_COUNTS;

const outcomesAt = ({ counts }: LimitTotals, at: number): number[] => [
  ...counts.subarray(at, at + LIMIT_OUTCOMES),
];
