/** The form of a limiter, turned into its strategy. */
import type { BucketStrategy, FixedWindowStrategy, LimitStrategy } from "../wire/edge/limit.ts";

export const STRATEGIES = {
  token_bucket: "Token bucket",
  leaky_bucket: "Leaky bucket",
  gcra: "GCRA",
  fixed_window: "Fixed window",
  sliding_window: "Sliding window",
  composite: "Composite",
} as const;

export type StrategyName = keyof typeof STRATEGIES;

/** What each allows, in a line. */
export const STRATEGY_HINTS: Readonly<Record<StrategyName, string>> = {
  token_bucket: "A burst at once, then as many as the rate brings back.",
  leaky_bucket: "As a token bucket, seen as a level that drains at the rate.",
  gcra: "Evenly spaced requests, up to a burst early.",
  fixed_window:
    "So many in a window that begins with its first request; all quotas must have room.",
  sliding_window: "So many in any window, as two buckets approximate it.",
  composite: "A fixed window and a bucket; charged together, or not at all.",
};

export const UNITS = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 } as const;
export type UnitName = keyof typeof UNITS;

export const isUnit = (name: string): name is UnitName => Object.hasOwn(UNITS, name);

/** An amount of a unit in ms; NaN where it is none. */
export function millisecondsOf(amount: string, unit: string): number {
  if (amount.trim() === "" || !isUnit(unit)) return Number.NaN;
  return Math.round(Number(amount) * UNITS[unit]);
}

/** Fields by name; quotas are `limit.0`, `window.0`, `unit.0`, `name.0` and so on. */
export type FieldReader = (name: string) => string;

/**
 * The strategy that a form says. Ranges are left to the limiter, which names field and limit.
 *
 * @param quotas how many rows of quotas the form has
 */
export function strategyOf(name: StrategyName, field: FieldReader, quotas: number): LimitStrategy {
  switch (name) {
    case "token_bucket":
    case "leaky_bucket":
    case "gcra":
      return bucketOf(name, field);
    case "fixed_window":
      return fixedWindowOf(field, quotas);
    case "sliding_window":
      return { strategy: name, limit: numberOf(field("limit")), windowMs: windowOf(field, "") };
    case "composite":
      return {
        strategy: name,
        primary: fixedWindowOf(field, quotas),
        secondary: bucketOf(field("secondary") as BucketStrategy["strategy"], field),
      };
  }
}

function bucketOf(strategy: BucketStrategy["strategy"], field: FieldReader): BucketStrategy {
  return { strategy, burst: numberOf(field("burst")), rate: numberOf(field("rate")) };
}

function fixedWindowOf(field: FieldReader, quotas: number): FixedWindowStrategy {
  return {
    strategy: "fixed_window",
    quotas: Array.from({ length: quotas }, (_, i) => ({
      name: field(`name.${i}`),
      limit: numberOf(field(`limit.${i}`)),
      windowMs: windowOf(field, `.${i}`),
    })),
  };
}

const windowOf = (field: FieldReader, suffix: string): number =>
  millisecondsOf(field(`window${suffix}`), field(`unit${suffix}`));

/** An empty field is no number, and not 0. */
const numberOf = (text: string): number => (text.trim() === "" ? Number.NaN : Number(text));
