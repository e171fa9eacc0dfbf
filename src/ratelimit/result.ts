/** What a limiter answers. */
import type { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult, QuotaResult } from "../wire/edge/limit.ts";

/**
 * What a limiter answers.
 *
 * Where the server could not be asked, and `onError` has decided, the figures are unknown: `limit` is the smallest one of the
 * strategy, `remaining` 0, `reset` null, `quotas` empty, and `retryAfterMs` 0 for
 * "open", null for "closed". `reason` is "timeout" or "error" then, and `error` says more.
 *
 * @example
 * const result: RateLimitResult = await limiter.limit("ada", { cost: 2 });
 * if (!result.success) console.log(`try again in ${result.retryAfterMs} ms`);
 */
export interface RateLimitResult extends Omit<LimitResult, "reason"> {
  /**
   * Set where the limit was not simply used up: the cost is more than the limit ever grants; the server could not be asked;
   * or `blockUntilReady` would have had to wait longer than its timeout.
   */
  readonly reason?: "cost_exceeds_limit" | "timeout" | "error";
  /**
   * True where a cached refusal answered. Its figures are those of the refusal, except `retryAfterMs`, which is the rest of
   * the wait; a greater cost than the refused one may have to wait longer.
   */
  readonly cached?: true;
  /**
   * True where `local` of the limiter decided without a call. `remaining` is what the server said last, less what was spent
   * here since; after a refusal, `retryAfterMs` is the rest of the wait, and a greater cost than the refused one may have to
   * wait longer.
   */
  readonly local?: true;
  /** Why the server could not be asked. */
  readonly error?: ThrottrError;
  /** In shadow mode: what was decided. The result itself is a success then, with the same figures. */
  readonly shadow?: RateLimitResult;
}

/** @deprecated Use `RateLimitResult`. This name goes in 0.6. */
export type Decision = RateLimitResult;

/** The decision of a backend, without fields that its transport may have added. */
export function decisionOf(answer: LimitResult): RateLimitResult {
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

/**
 * A grant of the server, as it is with units that it has charged and that are still to be had here. The hot path: it
 * spreads no result.
 *
 * @param isLocal whether the grant is one of this isolate
 */
export function withUnits(
  grant: RateLimitResult,
  units: number,
  isLocal: boolean,
): RateLimitResult {
  const { limit, reset } = grant;
  // A copy has all names as its own, also `__proto__`, which assigned to an empty object would be its prototype.
  const quotas: Record<string, QuotaResult> = { ...grant.quotas };
  for (const name in grant.quotas) {
    const quota = grant.quotas[name]!;
    quotas[name] = {
      allowed: true,
      limit: quota.limit,
      remaining: quota.remaining + units,
      reset: quota.reset,
    };
  }
  const remaining = grant.remaining + units;
  return isLocal
    ? { success: true, limit, remaining, reset, retryAfterMs: 0, quotas, local: true }
    : { success: true, limit, remaining, reset, retryAfterMs: 0, quotas };
}

/** The result of a limiter in shadow mode. */
export function shadowOf(decision: RateLimitResult): RateLimitResult {
  const { limit, remaining, reset, quotas, local } = decision;
  return {
    success: true,
    limit,
    remaining,
    reset,
    retryAfterMs: 0,
    quotas,
    ...(local === undefined ? {} : { local }),
    shadow: decision,
  };
}
