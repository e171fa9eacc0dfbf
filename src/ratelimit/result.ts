/** What a limiter answers. */
import type { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult, QuotaResult } from "../wire/edge/limit.ts";

/**
 * What was decided.
 *
 * Where the server could not be asked, and `onError` has decided, the figures are unknown: `limit` is the smallest one of the
 * strategy, `remaining` 0, `reset` null, `quotas` empty, and `retryAfterMs` 0 for
 * "open", null for "closed". `reason` is "timeout" or "error" then, and `error` says more.
 *
 * @example
 * const { success, retryAfterMs }: Decision = await limiter.limit("ada");
 */
export interface Decision {
  readonly success: boolean;
  /** The limit of the quota with the smallest `remaining`. */
  readonly limit: number;
  /** Further requests of cost 1 that would be allowed at once. */
  readonly remaining: number;
  /**
   * Milliseconds since the epoch by the server's clock: of a refusal, when the same request is allowed without further
   * requests meanwhile; null where no wait helps.
   */
  readonly reset: number | null;
  /** 0 where the request is allowed; null where no wait helps. A retry after it succeeds without further requests meanwhile. */
  readonly retryAfterMs: number | null;
  /**
   * Set where the limit was not simply used up: the cost is more than the limit ever grants; the server could not be asked;
   * or `blockUntilReady` would have had to wait longer than its timeout.
   */
  readonly reason?: "cost_exceeds_limit" | "timeout" | "error";
  /**
   * By name: `default` where the strategy has one limit; of a composite `primary_…` and
   * `secondary_default`. Where the primary of a composite refuses, the primary's only.
   */
  readonly quotas: Readonly<Record<string, QuotaResult>>;
  /**
   * True where a cached refusal answered. Its figures are those of the refusal, except `retryAfterMs`, which is the rest of
   * the wait; a greater cost than the refused one may have to wait longer.
   */
  readonly cached?: true;
  /** Why the server could not be asked. */
  readonly error?: ThrottrError;
}

/**
 * What a limiter answers.
 *
 * @example
 * const result: RateLimitResult = await limiter.limit("ada", { cost: 2 });
 * if (!result.success) console.log(`try again in ${result.retryAfterMs} ms`);
 */
export interface RateLimitResult extends Decision {
  /** In shadow mode: what was decided. The result itself is a success then, with the same figures. */
  readonly shadow?: Decision;
}

/** The decision of a backend, without fields that its transport may have added. */
export function decisionOf(answer: LimitResult): Decision {
  const { success, limit, remaining, reset, retryAfterMs, reason, quotas } = answer;
  return {
    success,
    limit,
    remaining,
    reset,
    retryAfterMs,
    ...(reason === undefined ? {} : { reason }),
    quotas,
  };
}

/** The result of a limiter in shadow mode. */
export function shadowOf(decision: Decision): RateLimitResult {
  const { limit, remaining, reset, quotas } = decision;
  return { success: true, limit, remaining, reset, retryAfterMs: 0, quotas, shadow: decision };
}
