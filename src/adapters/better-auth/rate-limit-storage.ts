/** The storage of better-auth's own rate limits: each decision is one call, exact for all isolates and servers. */
import type { FieldNames } from "../../wire/edge/argument.ts";
import { WINDOW_MS_MAX } from "../../wire/ratelimit/configuration.ts";
import type { LimitBackend } from "../../ratelimit/backend.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import type { RateLimiterOptions } from "../../ratelimit/limiter-options.ts";
import { RateLimiter } from "../../ratelimit/rate-limiter.ts";
import { RefusalCache } from "../../ratelimit/refusals.ts";
import { fixedWindow } from "../../ratelimit/strategies.ts";

/**
 * Options of `rateLimitStorage`.
 *
 * @example
 * const options: RateLimitStorageOptions = { throttr: env.THROTTR, onError: "closed", cache: true };
 */
export interface RateLimitStorageOptions extends Pick<
  RateLimiterOptions,
  "timeoutMs" | "onError" | "cache"
> {
  /** The server that decides: a client, or the service binding of a Worker. */
  readonly throttr: LimitBackend;
  /** Names the limit, as `name` of a RateLimiter; `better-auth-limit` unless given. */
  readonly name?: string | undefined;
}

/**
 * A rule of better-auth: `max` requests in `window` seconds.
 *
 * @example
 * const rule: RateLimitRule = { window: 10, max: 3 };
 */
export interface RateLimitRule {
  readonly window: number;
  readonly max: number;
}

/**
 * `BetterAuthRateLimitStorage` of better-auth 1.7.
 *
 * @example
 * const { allowed }: RateLimitDecision = await storage.consume("203.0.113.7|/sign-in/email", rule);
 */
export interface RateLimitDecision {
  allowed: boolean;
  /** In seconds, rounded up; null for a request that is allowed, and where no wait is known to help. */
  retryAfter: number | null;
}

const OPTIONS: FieldNames<RateLimitStorageOptions> = {
  throttr: true,
  name: true,
  timeoutMs: true,
  onError: true,
  cache: true,
};

/** Not `better-auth`: better-auth counts the same keys in the secondary storage, whose prefix is `better-auth:`. */
const NAME = "better-auth-limit";

/**
 * `rateLimit.customStorage` of better-auth: one call to the server decides and counts, so that concurrent requests can't
 * pass on one count. A window begins with the first request that it counts; refused requests are not counted.
 *
 * Without `onError` a failed call rejects, and with it the handler of better-auth.
 *
 * @example
 * import { betterAuth } from "better-auth";
 * import { rateLimitStorage } from "throttr-edge/better-auth";
 *
 * const auth = betterAuth({
 *   rateLimit: { enabled: true, customStorage: rateLimitStorage({ throttr: env.THROTTR }) },
 * });
 *
 * @throws RateLimitError `configuration_invalid`, `base_key_invalid`
 */
export function rateLimitStorage(options: RateLimitStorageOptions): {
  consume(key: string, rule: RateLimitRule): Promise<RateLimitDecision>;
} {
  const { name = NAME, cache = false, ...others } = optionsOf(options, OPTIONS);
  // Limiters are made for each rule: rules may depend on the request.
  const shared = { ...others, name, cache: cache === true ? new RefusalCache() : cache };
  const limiterOf = (limit: number, windowMs: number): RateLimiter =>
    new RateLimiter({ ...shared, strategy: fixedWindow({ limit, windowMs }) });
  limiterOf(1, 1_000);

  return {
    async consume(key, { window, max }) {
      if (!(max >= 1)) return { allowed: false, retryAfter: window };
      // better-auth takes Infinity for both.
      const limit = Math.min(Math.floor(max), Number.MAX_SAFE_INTEGER);
      const windowMs = Math.min(Math.max(1, Math.ceil(window * 1_000)), WINDOW_MS_MAX);
      const { success, retryAfterMs } = await limiterOf(limit, windowMs).limit(key);
      const isKnown = !success && retryAfterMs !== null;
      return { allowed: success, retryAfter: isKnown ? Math.ceil(retryAfterMs / 1_000) : null };
    },
  };
}
