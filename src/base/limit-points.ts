/**
 * What limits have decided since the last data point, by limiter: see `data-points.ts`.
 *
 * Each point is billed, and an invocation may write 250: so the busiest limiters have one each, and the rest one together.
 */
import {
  LIMIT_COUNTS,
  LIMIT_OUTCOMES,
  LimitRow,
  type LimitTotals,
} from "../engine/limit-figures.ts";

const LIMITERS_MAX = 20;

/** Decisions of a limiter. */
export interface LimitPoint {
  /** Empty for all other limiters. */
  readonly name: string;
  /** Allowed, refused, errors, and those decided from allowances. */
  readonly counts: readonly number[];
}

export class LimitPoints {
  /** By name: what earlier points have told of. */
  #written: ReadonlyMap<string, readonly number[]> = new Map();

  /** Takes what is new since the last call; a limiter without decisions has no point. */
  take(totals: LimitTotals): LimitPoint[] {
    const rows = new Map([["", rowOf(totals, LimitRow.others)]]);
    totals.names.forEach((name, i) => rows.set(name, rowOf(totals, LimitRow.firstName + i)));
    const points = [...rows]
      .map(([name, counts]) => ({ name, counts: since(counts, this.#written.get(name)) }))
      .filter(({ counts }) => sumOf(counts) > 0)
      .toSorted((a, b) => sumOf(b.counts) - sumOf(a.counts));
    this.#written = rows;
    const named = points.filter(({ name }) => name !== "");
    const rest = [...points.filter(({ name }) => name === ""), ...named.slice(LIMITERS_MAX)];
    const others = NO_COUNTS.map((_, i) => rest.reduce((sum, { counts }) => sum + counts[i]!, 0));
    return [
      ...named.slice(0, LIMITERS_MAX),
      ...(sumOf(others) > 0 ? [{ name: "", counts: others }] : []),
    ];
  }
}

const rowOf = ({ counts }: LimitTotals, row: number): number[] => [
  ...counts.subarray(row * LIMIT_COUNTS, (row + 1) * LIMIT_COUNTS),
];

/** What is less than it was has started anew. */
const since = (counts: readonly number[], before: readonly number[] = NO_COUNTS): number[] =>
  counts.map((count, i) => (count < before[i]! ? count : count - before[i]!));

/** Decisions and errors. */
const sumOf = (counts: readonly number[]): number =>
  counts.slice(0, LIMIT_OUTCOMES).reduce((sum, count) => sum + count, 0);

const NO_COUNTS: readonly number[] = Array.from({ length: LIMIT_COUNTS }, () => 0);
