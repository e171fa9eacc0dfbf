/** The rate limiter: a name, a strategy, and a policy for when the server can't be asked. */
import { checkOptions, idempotencyKeyOf, invalid } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult, LimitStrategy } from "../wire/edge/limit.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import { checkAmount } from "../wire/ratelimit/configuration.ts";
import { pause, type Clock } from "../wire/clock.ts";
import type { LimitBackend } from "./backend.ts";
import { encodeKey } from "./key.ts";
import { LimiterCalls } from "./limiter-calls.ts";
import {
  ASK,
  entryOf,
  LIMIT,
  settingsOf,
  WAIT,
  type AskOptions,
  type KeyedRequest,
  type LimitOptions,
  type RateLimiterOptions,
} from "./limiter-options.ts";
import type { RefusalCache } from "./refusals.ts";
import { decisionOf, type RateLimitResult } from "./result.ts";
import { limitMinOf } from "./strategies.ts";

/**
 * A rate limiter. A key is any text that is not empty: an IP address, an e-mail address, a path; see `encodeKey`.
 *
 * Methods throw ThrottrError: `key_invalid`, `cost_invalid`, `idempotency_key_invalid`,
 * `argument_invalid`, `option_invalid` for wrong arguments, and, without `onError`, the code of the server, or `timeout`.
 *
 * @example
 * import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
 *
 * const limiter = new RateLimiter({
 *   throttr: env.THROTTR,
 *   name: "api",
 *   strategy: tokenBucket({ burst: 10, rate: 1 }),
 *   onError: "open",
 * });
 * const { success, retryAfterMs } = await limiter.limit("203.0.113.7");
 */
export class RateLimiter {
  readonly name: string;
  readonly strategy: LimitStrategy;
  readonly clock: Clock;
  readonly #throttr: LimitBackend;
  readonly #calls: LimiterCalls;
  readonly #cache: RefusalCache | null;
  /** Prefix of keys in a cache that limiters share: another strategy may grant what this one refuses. */
  readonly #cacheScope: string;
  readonly #limitMin: number;

  /** @throws RateLimitError with code and field */
  constructor(options: RateLimiterOptions) {
    const settings = settingsOf(options);
    const { throttr, name, strategy, clock, cache } = settings;
    this.name = name;
    this.strategy = strategy;
    this.clock = clock;
    this.#throttr = throttr;
    this.#calls = new LimiterCalls(settings);
    this.#cache = cache;
    this.#cacheScope = `${name}\n${JSON.stringify(strategy)}\n`;
    this.#limitMin = limitMinOf(strategy);
  }

  /**
   * Charges the cost if the limit allows it.
   *
   * @example
   * const { success, remaining } = await limiter.limit("ada", { cost: 2 });
   */
  async limit(key: string, options: LimitOptions = {}): Promise<RateLimitResult> {
    checkOptions(options, LIMIT, "limit");
    const stored = await encodeKey(key);
    const request = this.#requestOf(stored, options);
    const [decision] = await this.#decide([request], options.signal, async () => {
      return [await this.#throttr.limit(request)];
    });
    return this.#calls.shown(decision!);
  }

  /**
   * Asks for many keys in one call; the results are in the order of the keys. When one of them fails, the call fails, and
   * the others may have been charged.
   *
   * @example
   * const [ada, bob] = await limiter.limitMany(["ada", { key: "bob", cost: 2 }]);
   */
  async limitMany(
    keys: readonly (string | KeyedRequest)[],
    options: AskOptions = {},
  ): Promise<RateLimitResult[]> {
    checkOptions(options, ASK, "limitMany");
    if (!Array.isArray(keys)) {
      throw invalid("keys", "a list", keys, "argument_invalid");
    }
    const entries = (keys as readonly (string | KeyedRequest)[]).map(entryOf);
    const stored = await Promise.all(entries.map(async ({ key }) => await encodeKey(key)));
    const requests = entries.map((entry, i) => this.#requestOf(stored[i]!, entry));
    const decisions = await this.#decide(requests, options.signal, async (asked) => {
      return await this.#throttr.limitMany(asked);
    });
    return decisions.map((decision) => this.#calls.shown(decision));
  }

  /**
   * What the limit would answer to a cost of 1; `remaining` is the value before that. Nothing is charged, and the cache is
   * not used.
   *
   * @example
   * const { remaining } = await limiter.peek("ada");
   */
  async peek(key: string, options: AskOptions = {}): Promise<RateLimitResult> {
    checkOptions(options, ASK, "peek");
    const stored = await encodeKey(key);
    const request = this.#requestOf(stored);
    const call = async (): Promise<RateLimitResult> =>
      decisionOf(await this.#throttr.peek(request));
    return this.#calls.shown(
      await this.#calls.answer(call, options.signal, (fallback) => fallback),
    );
  }

  /**
   * Gives a cost back, at most what was charged; the result is that of `peek`.
   *
   * @example
   * if (upload.failed) await limiter.refund("ada", { cost: 5 });
   */
  async refund(key: string, options: LimitOptions = {}): Promise<RateLimitResult> {
    checkOptions(options, LIMIT, "refund");
    const stored = await encodeKey(key);
    const request = this.#requestOf(stored, options);
    const call = async (): Promise<RateLimitResult> => {
      return decisionOf(await this.#changing(stored, this.#throttr.refund(request)));
    };
    return this.#calls.shown(
      await this.#calls.answer(call, options.signal, (fallback) => fallback),
    );
  }

  /**
   * Removes everything that was charged to a key; false where nothing was. It throws when it fails, whatever `onError` is.
   *
   * @example
   * await limiter.reset("ada");
   */
  async reset(key: string, options: AskOptions = {}): Promise<boolean> {
    checkOptions(options, ASK, "reset");
    const stored = await encodeKey(key);
    const { name, strategy } = this;
    const request = { name, key: stored, strategy };
    return await this.#calls.call(async () => {
      return await this.#changing(stored, this.#throttr.reset(request));
    }, options.signal);
  }

  /**
   * Asks until the limit allows the request: after a refusal it waits `retryAfterMs`, and asks again. When the timeout leaves
   * no time for that, or no wait helps, the result is the refusal, with `reason` "timeout" or its own. Waiting callers are
   * served in no particular order.
   *
   * The timeout covers the waits. Each call has the limiter's own timeout, and a call that fails ends the loop.
   *
   * @example
   * const { success } = await limiter.blockUntilReady("ada", 2_000);
   *
   * @param timeoutMs 0 or more; Infinity waits as long as it takes
   */
  async blockUntilReady(
    key: string,
    timeoutMs: number,
    options: Omit<LimitOptions, "idempotencyKey"> = {},
  ): Promise<RateLimitResult> {
    checkOptions(options, WAIT, "blockUntilReady");
    if (typeof timeoutMs !== "number" || !(timeoutMs >= 0)) {
      throw invalid("timeoutMs", "milliseconds from 0", timeoutMs, "timeout_invalid");
    }
    const untilMs = this.clock.nowMs() + timeoutMs;
    for (;;) {
      const result = await this.limit(key, options);
      const { success, retryAfterMs } = result;
      if (success || retryAfterMs === null) return result;
      if (retryAfterMs > untilMs - this.clock.nowMs()) return { ...result, reason: "timeout" };
      // With a wait of 0 the loop would not let other code run.
      await pause(Math.max(1, retryAfterMs), this.clock, [options.signal]);
    }
  }

  #requestOf(key: string, { cost = 1, idempotencyKey }: LimitOptions = {}): LimitRequest {
    try {
      checkAmount(cost, "cost", "cost_invalid");
    } catch (error) {
      throw ThrottrError.from(error);
    }
    idempotencyKeyOf(idempotencyKey);
    const { name, strategy } = this;
    const once = idempotencyKey === undefined ? {} : { idempotencyKey };
    return { name, key, strategy, cost, ...once };
  }

  /** Decides requests: from cached refusals, and by asking the server for the rest. */
  async #decide(
    requests: readonly LimitRequest[],
    signal: AbortSignal | undefined,
    ask: (asked: readonly LimitRequest[]) => Promise<readonly LimitResult[]>,
  ): Promise<RateLimitResult[]> {
    signal?.throwIfAborted();
    const cached = requests.map((request) => this.#findCached(request));
    const asked = requests.filter((_, i) => cached[i] === null);
    if (asked.length === 0) return cached as RateLimitResult[];
    const answers = await this.#calls.answer(
      async () => {
        const askedAt = this.#cache?.version ?? 0;
        const results = await ask(asked);
        if (results.length !== asked.length) {
          const detail = `expected ${asked.length} results, got ${results.length}`;
          throw new ThrottrError("reply_invalid", detail);
        }
        return asked.map((request, i) => this.#noted(request, askedAt, decisionOf(results[i]!)));
      },
      signal,
      (fallback) => asked.map(() => fallback),
    );
    let at = 0;
    return cached.map((decision) => decision ?? answers[at++]!);
  }

  #findCached({ key, cost = 1, idempotencyKey }: LimitRequest): RateLimitResult | null {
    if (this.#cache === null || idempotencyKey !== undefined || cost > this.#limitMin) return null;
    const nowMs = this.clock.nowMs();
    const refusal = this.#cache.find(this.#cacheScope + key, cost, nowMs);
    if (refusal === null) return null;
    const retryAfterMs = Math.ceil(refusal.untilMs - nowMs);
    return { ...refusal.decision, retryAfterMs, cached: true };
  }

  #noted(
    { key, cost = 1, idempotencyKey }: LimitRequest,
    askedAt: number,
    decision: RateLimitResult,
  ): RateLimitResult {
    // The answer to a repeated call may have been decided long ago.
    if (this.#cache === null || idempotencyKey !== undefined) return decision;
    const id = this.#cacheScope + key;
    const { success, retryAfterMs } = decision;
    if (success) {
      this.#cache.remove(id);
    } else if (retryAfterMs !== null) {
      const atMs = this.clock.nowMs();
      const untilMs = atMs + retryAfterMs;
      this.#cache.add(id, askedAt, { cost, decision, atMs, untilMs });
    }
    return decision;
  }

  /** Runs a refund or reset, and invalidates the cache also when it fails: it may have been applied. */
  async #changing<Result>(key: string, call: PromiseLike<Result>): Promise<Result> {
    try {
      return await call;
    } finally {
      this.#cache?.invalidate(this.#cacheScope + key);
    }
  }
}
