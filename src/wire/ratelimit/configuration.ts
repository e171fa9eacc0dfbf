/**
 * Configurations of rate limits: what a caller says, checked.
 *
 * Source: rate limit reference, "Keys and configuration". Every time that follows from a checked configuration
 * fits int64 nanoseconds for a present up to the year 2116.
 */
import { RateLimitError } from "./error.ts";
import { checkName } from "./keys.ts";
import { INT64_MAX } from "./numbers.ts";

/** `burst` is an integer, 1 to 2^53 - 1; `rate` is per second, finite, above 0; at most 10^9 for GCRA. */
export interface BucketConfiguration {
  readonly strategy: "token_bucket" | "leaky_bucket" | "gcra";
  readonly burst: number;
  readonly rate: number;
}

/** `limit` is an integer, 1 to 2^53 - 1; `windowNs` is 1 to `WINDOW_NS_MAX`. */
export interface QuotaConfiguration {
  readonly name: string;
  readonly limit: number;
  readonly windowNs: bigint;
}

/** 1 to 8 quotas; no two of the same name, nor of the same ratio of limit to window. */
export interface FixedWindowConfiguration {
  readonly strategy: "fixed_window";
  readonly quotas: readonly QuotaConfiguration[];
}

/** `limit` and `windowNs` as in a quota. */
export interface SlidingWindowConfiguration extends Omit<QuotaConfiguration, "name"> {
  readonly strategy: "sliding_window";
}

export interface CompositeConfiguration {
  readonly strategy: "composite";
  readonly primary: FixedWindowConfiguration;
  readonly secondary: BucketConfiguration;
}

export type RateLimitConfiguration =
  | BucketConfiguration
  | FixedWindowConfiguration
  | SlidingWindowConfiguration
  | CompositeConfiguration;

/** A state is stored for as many times the time that it takes to become fresh. */
export const TTL_FACTOR = 5;
/** Longest window: so that its TTL fits. 58 years. */
export const WINDOW_NS_MAX = INT64_MAX / BigInt(TTL_FACTOR);
/** The same in whole ms. */
export const WINDOW_MS_MAX = Number(WINDOW_NS_MAX / 1_000_000n);
/** Longest TTL, s. */
const TTL_SECONDS_MAX = Number(INT64_MAX / 1_000_000_000n);
/** GCRA counts in whole nanoseconds between two requests. */
const GCRA_RATE_MAX = 1e9;
const QUOTAS_MAX = 8;
const STRATEGIES = "token_bucket, leaky_bucket, gcra, fixed_window, sliding_window, composite";

/** How long the state of a bucket or of GCRA is stored, s. */
export function bucketTtlSeconds(burst: number, rate: number): number {
  return Math.max(1, Math.trunc((burst / rate) * TTL_FACTOR));
}

/**
 * A configuration from outside, checked and without unknown fields.
 *
 * @throws RateLimitError that names field and range
 */
export function checkConfiguration(value: unknown): RateLimitConfiguration {
  const fields = strategyFields(value, "strategy");
  if (fields.strategy !== "composite") return checkSingle(fields, "");
  const primary = checkSingle(strategyFields(fields.primary, "primary"), "primary.");
  const secondary = checkSingle(strategyFields(fields.secondary, "secondary"), "secondary.");
  if (primary.strategy !== "fixed_window") {
    throw combinationInvalid("primary.strategy", "expected fixed_window", primary.strategy);
  }
  if (secondary.strategy === "fixed_window" || secondary.strategy === "sliding_window") {
    const expected = "expected one of token_bucket, leaky_bucket, gcra";
    throw combinationInvalid("secondary.strategy", expected, secondary.strategy);
  }
  return { strategy: "composite", primary, secondary };
}

function combinationInvalid(field: string, expected: string, got: unknown): RateLimitError {
  return new RateLimitError("combination_invalid", field, expected, got);
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}

/** @param field that has the value, for the message */
function strategyFields(value: unknown, field: string): Fields {
  if (isObject(value)) return value;
  const expected = "expected an object with a field strategy";
  throw new RateLimitError("strategy_unknown", field, expected, value);
}

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;

/** @param path of what the fields belong to: "" or such as `primary.` */
function checkSingle(
  fields: Fields,
  path: string,
): Exclude<RateLimitConfiguration, CompositeConfiguration> {
  const { strategy } = fields;
  const at = `${path}strategy`;
  switch (strategy) {
    case "token_bucket":
    case "leaky_bucket":
    case "gcra":
      return checkBucket(strategy, fields, path);
    case "fixed_window":
      return { strategy, quotas: checkQuotas(fields.quotas, `${path}quotas`) };
    case "sliding_window":
      return { strategy, ...checkWindow(fields, path) };
    case "composite":
      throw combinationInvalid(at, "expected a strategy other than composite", strategy);
    default: {
      const expected = `expected one of ${STRATEGIES}`;
      throw new RateLimitError("strategy_unknown", at, expected, strategy);
    }
  }
}

function checkBucket(
  strategy: BucketConfiguration["strategy"],
  fields: Fields,
  path: string,
): BucketConfiguration {
  const burst = checkAmount(fields.burst, `${path}burst`, "burst_invalid");
  const { rate } = fields;
  const rateMax = strategy === "gcra" ? GCRA_RATE_MAX : Number.MAX_VALUE;
  if (typeof rate !== "number" || !(rate > 0 && rate <= rateMax)) {
    const range = strategy === "gcra" ? "number above 0, at most 1e9" : "finite number above 0";
    throw new RateLimitError("rate_invalid", `${path}rate`, `expected a ${range}`, rate);
  }
  if (bucketTtlSeconds(burst, rate) > TTL_SECONDS_MAX) {
    const range = `expected at most ${TTL_SECONDS_MAX / TTL_FACTOR} seconds`;
    throw new RateLimitError("time_overflow", `${path}burst / ${path}rate`, range, burst / rate);
  }
  return { strategy, burst, rate };
}

function checkQuotas(value: unknown, path: string): readonly QuotaConfiguration[] {
  const isList = Array.isArray(value);
  if (!isList || value.length < 1 || value.length > QUOTAS_MAX) {
    const got = isList ? value.length : value;
    throw new RateLimitError("quotas_invalid", path, `expected 1 to ${QUOTAS_MAX} quotas`, got);
  }
  const quotas: QuotaConfiguration[] = [];
  for (const [i, entry] of value.entries()) {
    const fields = fieldsOf(entry);
    const at = `${path}[${i}].`;
    const name = checkName(fields.name, `${at}name`, "quota_name_invalid");
    const quota = { name, ...checkWindow(fields, at) };
    for (const other of quotas) checkPair(other, quota, at);
    quotas.push(quota);
  }
  return quotas;
}

function checkPair(first: QuotaConfiguration, second: QuotaConfiguration, path: string): void {
  if (first.name === second.name) {
    const expected = "expected a different name for each quota";
    throw new RateLimitError("quota_name_taken", `${path}name`, expected, second.name);
  }
  if (BigInt(first.limit) * second.windowNs === BigInt(second.limit) * first.windowNs) {
    const expected = `expected a ratio of limit to window that differs from the ratio of quota ${first.name}`;
    const got = `${second.limit} in ${second.windowNs} ns`;
    throw new RateLimitError("quota_ratio_taken", `${path}limit`, expected, got);
  }
}

function checkWindow(
  { limit: limitValue, windowNs }: Fields,
  path: string,
): { limit: number; windowNs: bigint } {
  const limit = checkAmount(limitValue, `${path}limit`, "limit_invalid");
  if (typeof windowNs !== "bigint" || windowNs < 1n) {
    const expected = "expected nanoseconds above 0 as a bigint";
    throw new RateLimitError("window_invalid", `${path}windowNs`, expected, windowNs);
  }
  if (windowNs > WINDOW_NS_MAX) {
    const expected = `expected at most ${WINDOW_NS_MAX} nanoseconds`;
    throw new RateLimitError("time_overflow", `${path}windowNs`, expected, windowNs);
  }
  return { limit, windowNs };
}

/**
 * Checks a positive integer.
 *
 * @throws RateLimitError with the given code
 */
export function checkAmount(
  value: unknown,
  field: string,
  code: "burst_invalid" | "limit_invalid" | "cost_invalid",
): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return value;
  const expected = `expected an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
  throw new RateLimitError(code, field, expected, value);
}
