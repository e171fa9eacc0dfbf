/** Builders of strategies. They check the figures where the developer writes them, not at the first request. */
import {
  configurationOf,
  type BucketStrategy,
  type CompositeStrategy,
  type FixedWindowStrategy,
  type LimitStrategy,
  type Quota,
  type SlidingWindowStrategy,
} from "../wire/edge/limit.ts";
import type { FieldNames } from "../wire/edge/argument.ts";
import { checkAmount } from "../wire/ratelimit/configuration.ts";
import { optionsOf } from "./known-options.ts";
import { windowMsOf, type Window } from "./duration.ts";

/**
 * `burst` at once, and `rate` a second in the long run.
 *
 * @example
 * const options: BucketOptions = { burst: 10, rate: 2.5 };
 */
export interface BucketOptions {
  /** An integer above 0. */
  readonly burst: number;
  /** Per second, above 0; need not be whole. */
  readonly rate: number;
}

/**
 * `limit` in a window.
 *
 * @example
 * const options: WindowOptions = { limit: 100, window: "1 m" };
 */
export type WindowOptions = Window & {
  /** An integer above 0. */
  readonly limit: number;
};

/**
 * One of several quotas.
 *
 * @example
 * const options: QuotaOptions = { name: "daily", limit: 1000, window: "1 d" };
 */
export type QuotaOptions = WindowOptions & {
  /** 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`; results and headers show it. */
  readonly name: string;
};

const BUCKET: FieldNames<BucketOptions> = { burst: true, rate: true };
const WINDOW: FieldNames<WindowOptions> = { limit: true, window: true, windowMs: true };
const QUOTA: FieldNames<QuotaOptions> = { name: true, ...WINDOW };
const COMPOSITE = { primary: true, secondary: true } as const;

/** Name of a quota that is the only one. */
const DEFAULT_QUOTA = "default";

/**
 * Token bucket: `burst` tokens that come back at `rate` a second; a request takes its cost in tokens.
 *
 * @example
 * const strategy = tokenBucket({ burst: 10, rate: 1 });
 *
 * @throws RateLimitError with code and field
 */
export function tokenBucket(options: BucketOptions): BucketStrategy {
  return bucket("token_bucket", options);
}

/**
 * Leaky bucket: requests fill it up to `burst`, and it leaks `rate` a second.
 *
 * @example
 * const strategy = leakyBucket({ burst: 10, rate: 1 });
 *
 * @throws RateLimitError with code and field
 */
export function leakyBucket(options: BucketOptions): BucketStrategy {
  return bucket("leaky_bucket", options);
}

/**
 * GCRA: requests arrive every `1 / rate` seconds in theory, and may come early by `burst` such intervals.
 *
 * @example
 * const strategy = gcra({ burst: 10, rate: 1 });
 *
 * @throws RateLimitError with code and field; `rate` is at most 10^9
 */
export function gcra(options: BucketOptions): BucketStrategy {
  return bucket("gcra", options);
}

/**
 * Fixed windows: each starts with the first request that it counts. One, or up to 8 with names of their
 * own, no two of the same ratio of limit to window; a request is charged to all of them or to none.
 *
 * @example
 * const one = fixedWindow({ limit: 100, window: "1 m" });
 * const both = fixedWindow([
 *   { name: "burst", limit: 10, window: "1 s" },
 *   { name: "daily", limit: 1000, window: "1 d" },
 * ]);
 *
 * @throws RateLimitError with code and field
 */
export function fixedWindow(quotas: WindowOptions | readonly QuotaOptions[]): FixedWindowStrategy {
  return checked({
    strategy: "fixed_window",
    quotas: isList(quotas) ? quotas.map(quotaOf) : [onlyQuotaOf(quotas)],
  });
}

function quotaOf(quota: QuotaOptions, i: number): Quota {
  const path = `quotas[${i}].`;
  const { name, limit } = optionsOf(quota, QUOTA, path);
  return { name, limit, windowMs: windowMsOf(quota, path) };
}

/** Checked here: its fields are not in a list where the caller wrote them. */
function onlyQuotaOf(options: WindowOptions): Quota {
  const windowMs = windowMsOf(optionsOf(options, WINDOW), "");
  const limit = checkAmount(options.limit, "limit", "limit_invalid");
  return { name: DEFAULT_QUOTA, limit, windowMs };
}

/**
 * Sliding window: `limit` in any window, as two buckets approximate it.
 *
 * @example
 * const strategy = slidingWindow({ limit: 100, window: "1 m" });
 *
 * @throws RateLimitError with code and field
 */
export function slidingWindow(options: WindowOptions): SlidingWindowStrategy {
  const windowMs = windowMsOf(optionsOf(options, WINDOW), "");
  return checked({ strategy: "sliding_window", limit: options.limit, windowMs });
}

/**
 * Two strategies that must both allow a request, and are charged together: fixed windows, and one of
 * token bucket, leaky bucket and GCRA.
 *
 * @example
 * const strategy = composite({
 *   primary: fixedWindow({ limit: 1000, window: "1 d" }),
 *   secondary: tokenBucket({ burst: 10, rate: 1 }),
 * });
 *
 * @throws RateLimitError with code and field
 */
export function composite(
  options: Pick<CompositeStrategy, "primary" | "secondary">,
): CompositeStrategy {
  const { primary, secondary } = optionsOf(options, COMPOSITE);
  return checked({ strategy: "composite", primary, secondary });
}

/** The least that a strategy ever grants at once: a cost above it is never granted. */
export function limitMinOf(strategy: LimitStrategy): number {
  switch (strategy.strategy) {
    case "fixed_window":
      return Math.min(...strategy.quotas.map(({ limit }) => limit));
    case "sliding_window":
      return strategy.limit;
    case "composite":
      return Math.min(limitMinOf(strategy.primary), limitMinOf(strategy.secondary));
    default:
      return strategy.burst;
  }
}

function bucket(strategy: BucketStrategy["strategy"], options: BucketOptions): BucketStrategy {
  const { burst, rate } = optionsOf(options, BUCKET);
  return checked({ strategy, burst, rate });
}

function checked<Strategy extends LimitStrategy>(strategy: Strategy): Strategy {
  configurationOf(strategy);
  return strategy;
}

function isList(
  quotas: WindowOptions | readonly QuotaOptions[],
): quotas is readonly QuotaOptions[] {
  return Array.isArray(quotas);
}
