/** Turns the form of the Limiter screen into a strategy. */
import { ThrottrError } from "../wire/edge/error.ts";
import type { BucketStrategy, FixedWindowStrategy, LimitStrategy } from "../wire/edge/limit.ts";
import { shown } from "../wire/ratelimit/error.ts";

export const STRATEGIES = {
  token_bucket: "Token bucket",
  leaky_bucket: "Leaky bucket",
  gcra: "GCRA",
  fixed_window: "Fixed window",
  sliding_window: "Sliding window",
  composite: "Composite",
} as const;

export type StrategyName = keyof typeof STRATEGIES;

/** What each strategy allows, in a sentence. */
export const STRATEGY_HINTS: Readonly<Record<StrategyName, string>> = {
  token_bucket: "Allows a burst at once, then requests at the rate.",
  leaky_bucket: "Like a token bucket, counted as a level that drains at the rate.",
  gcra: "Allows evenly spaced requests, and a burst of them early.",
  fixed_window:
    "Allows a number of requests in a window that begins with the first request. Each quota must have room.",
  sliding_window: "Allows a number of requests in any window of time, estimated from two windows.",
  composite: "A fixed window and a bucket, charged together or not at all.",
};

export const UNITS = { ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 } as const;
export type UnitName = keyof typeof UNITS;

const isUnit = (name: string): name is UnitName => Object.hasOwn(UNITS, name);

/** An amount of a unit in ms; NaN for text that is not a number. */
export function millisecondsOf(amount: string, unit: string): number {
  if (amount.trim() === "" || !isUnit(unit)) return Number.NaN;
  return Math.round(Number(amount) * UNITS[unit]);
}

/**
 * The text of a field of a form, by name; "" for a field that does not exist. Quotas are `limit.0`, `window.0`, `unit.0`,
 * `name.0` and so on.
 */
export type Fields = (name: string) => string;

/**
 * The strategy that a form says. Ranges are left to the limiter, which names field and limit.
 *
 * @param quotas how many rows of quotas the form has
 * @throws ThrottrError such as `burst_invalid` for text that is not a number
 */
export function strategyOf(name: StrategyName, field: Fields, quotas: number): LimitStrategy {
  switch (name) {
    case "token_bucket":
    case "leaky_bucket":
    case "gcra":
      return bucketOf(name, field);
    case "fixed_window":
      return fixedWindowOf(field, quotas);
    case "sliding_window":
      return { strategy: name, ...windowOf(field, "", "") };
    case "composite":
      return {
        strategy: name,
        primary: fixedWindowOf(field, quotas),
        secondary: bucketOf(field("secondary") as BucketStrategy["strategy"], field),
      };
  }
}

function bucketOf(strategy: BucketStrategy["strategy"], field: Fields): BucketStrategy {
  return {
    strategy,
    burst: numberOf(field("burst"), "burst", "burst_invalid"),
    rate: numberOf(field("rate"), "rate per second", "rate_invalid"),
  };
}

function fixedWindowOf(field: Fields, quotas: number): FixedWindowStrategy {
  return {
    strategy: "fixed_window",
    quotas: Array.from({ length: quotas }, (_, i) => ({
      name: field(`name.${i}`),
      ...windowOf(field, `.${i}`, `quota ${i + 1}: `),
    })),
  };
}

/**
 * @param suffix of the names of the fields
 * @param place what stands before the names in messages
 */
function windowOf(
  field: Fields,
  suffix: string,
  place: string,
): { limit: number; windowMs: number } {
  const limit = numberOf(field(`limit${suffix}`), `${place}limit`, "limit_invalid");
  const window = field(`window${suffix}`);
  numberOf(window, `${place}window`, "window_invalid");
  return { limit, windowMs: millisecondsOf(window, field(`unit${suffix}`)) };
}

/**
 * The number that a field says. An empty one is no number, and not 0.
 *
 * @param label what the field is called, for the message
 * @throws ThrottrError with the given code
 */
export function numberOf(text: string, label: string, code: string): number {
  const number = text.trim() === "" ? Number.NaN : Number(text);
  if (!Number.isNaN(number)) return number;
  throw new ThrottrError(code, `${label}: expected a number, got ${shown(text)}`);
}

/**
 * The whole number that a field says.
 *
 * @param range what may be in it, for the message: the server checks it
 * @throws ThrottrError such as `quota_invalid`
 */
export function integerOf(fields: Fields, name: string, range = "from 0 to 2^64 - 1"): bigint {
  const text = fields(name).trim();
  if (/^\d+$/.test(text)) return BigInt(text);
  throw new ThrottrError(`${name}_invalid`, `${name}: expected an integer ${range}`);
}

/**
 * The time that the fields `ttl` and `unit` say, ms.
 *
 * @throws ThrottrError `ttl_invalid`
 */
export function ttlOf(fields: Fields): number {
  const ttlMs = millisecondsOf(fields("ttl"), fields("unit"));
  if (Number.isSafeInteger(ttlMs) && ttlMs >= 0) return ttlMs;
  throw new ThrottrError("ttl_invalid", "time: expected a number from 0");
}
