/** Decisions of rate limits: rates from totals, and what the history knows of one limiter. */
import type { DecisionCounts, HistoryMinute } from "../wire/history.ts";
import type { LimitFigures, LimitRates } from "../wire/limit-figures.ts";
import type { Point } from "./last-hour.ts";
import { ratesBetween, type Totals } from "./rates.ts";

/** The last three minutes, with an answer each two seconds. */
const SAMPLES_MAX = 90;

/** Per second. */
export interface Decisions {
  readonly allowed: number;
  readonly refused: number;
  readonly errors: number;
}

/** Totals of decisions at a moment, and the shards that are not among them. */
export interface DecisionTotals {
  readonly atMs: number;
  readonly rates: LimitRates;
  readonly unreachableShards: readonly number[];
}

const NOTHING = { total: 0, perMinute: 0 };

/** All limiters together. */
export function sumOf({ limits, others }: Pick<LimitFigures, "limits" | "others">): LimitRates {
  const sum = (count: keyof LimitRates): LimitRates["allowed"] =>
    [...limits, ...(others === null ? [] : [others])].reduce(
      ({ total, perMinute }, { [count]: rate }) => ({
        total: total + rate.total,
        perMinute: perMinute + rate.perMinute,
      }),
      NOTHING,
    );
  return {
    allowed: sum("allowed"),
    refused: sum("refused"),
    errors: sum("errors"),
    local: sum("local"),
  };
}

/** The part of all decisions of the last minute that were refusals, 0 to 1; null without decisions. */
export const refusedShare = (rates: LimitRates): number | null => shareOf("refused", rates);

/** The part of all decisions of the last minute that callers made from allowances, 0 to 1; null without decisions. */
export const localShare = (rates: LimitRates): number | null => shareOf("local", rates);

function shareOf(count: "refused" | "local", rates: LimitRates): number | null {
  const decisions = rates.allowed.perMinute + rates.refused.perMinute;
  return decisions === 0 ? null : Math.min(1, rates[count].perMinute / decisions);
}

/** What was seen of some limiters since the page is open: a point for each answer. */
export class DecisionSamples {
  #before: DecisionTotals | null = null;
  #points: readonly Point[] = [];
  #rates: Decisions | null = null;

  /** Granted and refused per second. */
  get points(): readonly Point[] {
    return this.#points;
  }

  /** Since the last answer but one; null where that says nothing. */
  get rates(): Decisions | null {
    return this.#rates;
  }

  add(now: DecisionTotals): void {
    this.#rates = decisionsBetween(this.#before, now);
    this.#before = now;
    const values = this.#rates === null ? null : [this.#rates.allowed, this.#rates.refused];
    this.#points = [...this.#points, { atMs: now.atMs, values }].slice(-SAMPLES_MAX);
  }
}

/** Null also where other shards have answered: the totals of one that is missing would look like decisions. */
function decisionsBetween(before: DecisionTotals | null, now: DecisionTotals): Decisions | null {
  if (before === null || before.unreachableShards.join() !== now.unreachableShards.join()) {
    return null;
  }
  return ratesBetween(totalsOf(before), totalsOf(now)) as Decisions | null;
}

const totalsOf = ({ atMs, rates: { allowed, refused, errors } }: DecisionTotals): Totals => ({
  atMs,
  totals: { allowed: allowed.total, refused: refused.total, errors: errors.total },
});

/**
 * Granted and refused of a minute of the history.
 *
 * @param name of a limiter; null: all of them
 * @returns null where the minute has decisions of limiters that it does not name, as this one may be among them
 */
export function countsOfMinute(
  { limits, byLimit }: Pick<HistoryMinute, "limits" | "byLimit">,
  name: string | null,
): readonly number[] | null {
  if (name === null) return [limits.allowed, limits.refused];
  const counts = Object.hasOwn(byLimit, name) ? byLimit[name] : undefined;
  if (counts !== undefined) return [counts.allowed, counts.refused];
  const named = Object.values(byLimit).reduce((sum, counts) => sum + decisionsOf(counts), 0);
  return named < decisionsOf(limits) ? null : [0, 0];
}

const decisionsOf = ({ allowed, refused }: DecisionCounts): number => allowed + refused;
