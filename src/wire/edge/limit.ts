/**
 * Rate limits as callers speak of them: milliseconds and plain numbers, where the core has nanoseconds.
 *
 * Source: rate limit reference, "The API that people know".
 */
import {
  checkConfiguration,
  WINDOW_MS_MAX,
  WINDOW_NS_MAX,
  type RateLimitConfiguration,
} from "../ratelimit/configuration.ts";
import { RateLimitError } from "../ratelimit/error.ts";
import { storageKey } from "../ratelimit/keys.ts";
import { resultNames } from "../ratelimit/names.ts";
import type { LimitDecision } from "./decision.ts";
import { ThrottrError } from "./error.ts";
import { msOf } from "./milliseconds.ts";

/** `burst` at once, and `rate` a second in the long run. */
export interface BucketStrategy {
  readonly strategy: "token_bucket" | "leaky_bucket" | "gcra";
  /** An integer above 0. */
  readonly burst: number;
  /** Per second, above 0; need not be whole. */
  readonly rate: number;
}

export interface Quota {
  /** 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`. */
  readonly name: string;
  /** An integer above 0. */
  readonly limit: number;
  /** Above 0. */
  readonly windowMs: number;
}

/** 1 to 8 quotas, all of which must have room; no two of the same name or the same ratio. */
export interface FixedWindowStrategy {
  readonly strategy: "fixed_window";
  readonly quotas: readonly Quota[];
}

/** `limit` requests in any `windowMs`, as two buckets approximate it. */
export interface SlidingWindowStrategy {
  readonly strategy: "sliding_window";
  readonly limit: number;
  readonly windowMs: number;
}

/** Both must allow a request, and are charged together. */
export interface CompositeStrategy {
  readonly strategy: "composite";
  readonly primary: FixedWindowStrategy;
  readonly secondary: BucketStrategy;
}

export type LimitStrategy =
  BucketStrategy | FixedWindowStrategy | SlidingWindowStrategy | CompositeStrategy;

/** A nanosecond to 58 years. */
const WINDOW_EXPECTED = `expected 0.000001 to ${WINDOW_MS_MAX} ms`;

/** What one quota of a limit says. */
export interface QuotaResult {
  readonly allowed: boolean;
  readonly limit: number;
  /** Further requests of cost 1 that it would allow at once. */
  readonly remaining: number;
  /** Milliseconds since the epoch; null where no wait helps. */
  readonly reset: number | null;
}

/** What a limit says. */
export interface LimitResult {
  readonly success: boolean;
  /** Of the quota with the smallest `remaining`. */
  readonly limit: number;
  /** Further requests of cost 1 that would be allowed at once. */
  readonly remaining: number;
  /**
   * Milliseconds since the epoch by the server's clock: of a refusal, when the same request is allowed without
   * further requests meanwhile; null where no wait helps.
   */
  readonly reset: number | null;
  /** 0 where it is allowed; null where no wait helps. A retry after it succeeds without further requests meanwhile. */
  readonly retryAfterMs: number | null;
  /** Why it was refused, where it was not for want of room: no wait helps. */
  readonly reason?: "cost_exceeds_limit";
  /**
   * By name: `default` where the strategy has one limit; of a composite `primary_…` and
   * `secondary_default`. Where the primary of a composite refuses, the primary's only.
   */
  readonly quotas: Readonly<Record<string, QuotaResult>>;
}

/** The checked configuration of a limit, and the key of its state. */
export function limitOf({
  name,
  key,
  strategy,
}: {
  readonly name: string;
  readonly key: string;
  readonly strategy: LimitStrategy;
}): { readonly configuration: RateLimitConfiguration; readonly key: string } {
  const configuration = configurationOf(strategy);
  return { configuration, key: storageKey(name, key, configuration.strategy === "composite") };
}

/**
 * The checked configuration of a strategy.
 *
 * @throws RateLimitError that names field and range
 */
export function configurationOf(strategy: LimitStrategy): RateLimitConfiguration {
  if (strategy?.strategy !== "composite") return checkConfiguration(inNanoseconds(strategy, ""));
  return checkConfiguration({
    ...strategy,
    primary: inNanoseconds(strategy.primary, "primary."),
    secondary: inNanoseconds(strategy.secondary, "secondary."),
  });
}

/** A strategy whose windows are nanoseconds. @param path of its fields: "" or such as `primary.` */
function inNanoseconds(strategy: LimitStrategy, path: string): unknown {
  switch (strategy?.strategy) {
    case "fixed_window":
      return fixedWindowOf(strategy, path);
    case "sliding_window":
      return { ...strategy, windowNs: windowNsOf(strategy.windowMs, `${path}windowMs`) };
    default:
      return strategy;
  }
}

function fixedWindowOf({ strategy, quotas }: FixedWindowStrategy, path: string): unknown {
  if (!Array.isArray(quotas)) return { strategy, quotas };
  return {
    strategy,
    quotas: (quotas as readonly Quota[]).map((quota, i) => ({
      ...quota,
      windowNs: windowNsOf(quota?.windowMs, `${path}quotas[${i}].windowMs`),
    })),
  };
}

/**
 * The nearest nanoseconds of a window.
 *
 * @param field that has it, and `got` what the caller wrote there, for the message
 * @throws RateLimitError `window_invalid`, `time_overflow`
 */
export function windowNsOf(windowMs: unknown, field: string, got = windowMs): bigint {
  const ns = typeof windowMs === "number" ? Math.round(windowMs * 1e6) : 0;
  if (!(ns >= 1 && ns < Infinity)) {
    throw new RateLimitError("window_invalid", field, WINDOW_EXPECTED, got);
  }
  if (BigInt(ns) > WINDOW_NS_MAX) {
    throw new RateLimitError("time_overflow", field, WINDOW_EXPECTED, got);
  }
  return BigInt(ns);
}

/** The result of a decision about a configuration. */
export function limitResultOf(
  configuration: RateLimitConfiguration,
  decision: LimitDecision,
): LimitResult {
  const names = resultNames(configuration);
  const quotas: Record<string, QuotaResult> = Object.fromEntries(
    decision.quotas.map(({ allowed, limit, remaining, resetNs }, i) => [
      names[i]!,
      { allowed, limit, remaining, reset: msOrNull(resetNs) },
    ]),
  );
  const { allowed, limit, remaining, resetNs, retryAfterNs } = decision;
  return {
    success: allowed,
    limit,
    remaining,
    reset: msOrNull(resetNs),
    retryAfterMs: msOrNull(retryAfterNs),
    ...(resetNs === null ? { reason: "cost_exceeds_limit" as const } : {}),
    quotas,
  };
}

const msOrNull = (ns: bigint | null): number | null => (ns === null ? null : msOf(ns));

/** Turns what the rate limit core throws into what callers catch. */
export function checked<Result>(check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    throw error instanceof RateLimitError ? ThrottrError.from(error) : error;
  }
}
