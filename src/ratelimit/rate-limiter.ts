/** The rate limiter: a name, a strategy, and a policy for when the server can't be asked. */
import {
  checkOptions,
  idempotencyKeyOf,
  invalid,
  type FieldNames,
  type Text,
} from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { configurationOf, type LimitResult, type LimitStrategy } from "../wire/edge/limit.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import { checkAmount } from "../wire/ratelimit/configuration.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";
import { checkName } from "../wire/ratelimit/keys.ts";
import type { LimitBackend } from "./backend.ts";
import { pause, TIMER_MS_MAX, type Clock } from "../wire/clock.ts";
import { clockOf, systemClock, type LegacyClock } from "./clock.ts";
import { encodeKey } from "./key.ts";
import { optionsOf } from "./known-options.ts";
import { RefusalCache } from "./refusals.ts";
import { decisionOf, shadowOf, type RateLimitResult } from "./result.ts";
import { limitMinOf } from "./strategies.ts";
import { within } from "./wait.ts";

const OPTIONS: FieldNames<RateLimiterOptions> = {
  throttr: true,
  name: true,
  strategy: true,
  timeoutMs: true,
  onError: true,
  cache: true,
  shadow: true,
  clock: true,
};
const ASK: FieldNames<AskOptions> = { signal: true };
const WAIT: FieldNames<Omit<LimitOptions, "idempotencyKey">> = { cost: true, signal: true };
const LIMIT: FieldNames<LimitOptions> = { ...WAIT, idempotencyKey: true };
const REQUEST: FieldNames<KeyedRequest> = { key: true, cost: true, idempotencyKey: true };

/** Longer than any answer should take, and short enough for a person who waits for a page. */
const TIMEOUT_MS = 5_000;

/**
 * Options of a limiter.
 *
 * @example
 * const options: RateLimiterOptions = {
 *   throttr: env.THROTTR,
 *   name: "login",
 *   strategy: slidingWindow({ limit: 5, window: "1 m" }),
 *   timeoutMs: 500,
 *   onError: "closed",
 * };
 */
export interface RateLimiterOptions {
  /** The server that decides: a client, or the service binding of a Worker. */
  readonly throttr: LimitBackend;
  /**
   * Names the limit: 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`. The state of a key is stored under
   * `name:key`, `name:key:c` for a composite. Where keys come from strangers, no name may be another one with a colon and
   * more (`api` and `api:login`): their records could collide.
   */
  readonly name: string;
  /** How it counts. */
  readonly strategy: LimitStrategy;
  /**
   * How long an answer may take, in ms: 1 to 2^31 - 1, or Infinity; 5,000 unless given. A call that took longer may have
   * been applied.
   */
  readonly timeoutMs?: number;
  /**
   * What to answer when the server can't be asked, or not in time: "open" allows, "closed" refuses, both with `reason`
   * "timeout" or "error". Unless given, the call throws. Wrong arguments always throw, and so does `reset`.
   */
  readonly onError?: "open" | "closed";
  /**
   * Caches refusals until their reset, and answers from the cache without a call: true, or a cache that several limiters
   * share; false unless given. A refund or reset by this limiter shows at once, one by another limiter when the refusal
   * ends. A call with an idempotency key is always sent.
   */
  readonly cache?: boolean | RefusalCache;
  /**
   * Decides, charges and reports, but never refuses: every result is a success, and `shadow` has the decision. A failure
   * does not throw then: it is a refusal in `shadow`, or a success where `onError` is "open". `blockUntilReady` does not
   * wait. False unless given.
   */
  readonly shadow?: boolean;
  /** The clock of the platform unless given. */
  readonly clock?: Clock | LegacyClock;
}

/**
 * Options of a request.
 *
 * @example
 * await limiter.limit("ada", { cost: 5, signal: AbortSignal.timeout(100) });
 */
export interface LimitOptions extends AskOptions {
  /** An integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
  /** 1 to 64 bytes: a repeated call with the same one is charged once, and answered as the first one was. */
  readonly idempotencyKey?: Text | undefined;
}

/**
 * Options of every call.
 *
 * @example
 * await limiter.peek("ada", { signal: request.signal });
 */
export interface AskOptions {
  /** Ends the wait: the call throws the reason of the signal. A call that was sent may have been applied. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * One request of `limitMany`.
 *
 * @example
 * await limiter.limitMany(["ada", { key: "bob", cost: 2 }]);
 */
export interface KeyedRequest extends Omit<LimitOptions, "signal"> {
  readonly key: string;
}

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
  readonly #timeoutMs: number;
  readonly #onError: "open" | "closed" | undefined;
  readonly #isShadow: boolean;
  readonly #cache: RefusalCache | null;
  /** Prefix of keys in a cache that limiters share: another strategy may grant what this one refuses. */
  readonly #cacheScope: string;
  readonly #limitMin: number;

  /** @throws RateLimitError with code and field */
  constructor(options: RateLimiterOptions) {
    optionsOf(options, OPTIONS);
    const { throttr, name, strategy, timeoutMs = TIMEOUT_MS, onError, cache = false } = options;
    configurationOf(strategy);
    this.name = checkName(name, "name", "base_key_invalid");
    this.strategy = strategy;
    this.clock = clockOf(options.clock ?? systemClock);
    // Platforms make stubs of many kinds, functions and proxies among them: only a missing one can be detected.
    check("throttr", "expected a client or a service binding", throttr, throttr != null);
    const isTimeout = timeoutMs >= 1 && (timeoutMs <= TIMER_MS_MAX || timeoutMs === Infinity);
    check(
      "timeoutMs",
      `expected 1 to ${TIMER_MS_MAX}, or Infinity`,
      timeoutMs,
      typeof timeoutMs === "number" && isTimeout,
    );
    const isPolicy = onError === undefined || onError === "open" || onError === "closed";
    check("onError", "expected one of open, closed", onError, isPolicy);
    const isCache = typeof cache === "boolean" || cache instanceof RefusalCache;
    check("cache", "expected true, false or a RefusalCache", cache, isCache);
    const { shadow = false } = options;
    check("shadow", "expected true or false", shadow, typeof shadow === "boolean");
    this.#throttr = throttr;
    this.#timeoutMs = timeoutMs;
    this.#onError = onError;
    this.#isShadow = shadow;
    this.#cache = cache === true ? new RefusalCache() : cache || null;
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
    return this.#shown(decision!);
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
    return decisions.map((decision) => this.#shown(decision));
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
    return this.#shown(await this.#answerOf(call, options.signal, (fallback) => fallback));
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
    return this.#shown(await this.#answerOf(call, options.signal, (fallback) => fallback));
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
    return await this.#call(async () => {
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
    const answers = await this.#answerOf(
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

  /** The answer of a call, or of `onError` when the call fails. */
  async #answerOf<Answer>(
    call: () => Promise<Answer>,
    signal: AbortSignal | undefined,
    answerWith: (fallback: RateLimitResult) => Answer,
  ): Promise<Answer> {
    try {
      return await this.#call(call, signal);
    } catch (error) {
      const isDecided = this.#onError !== undefined || this.#isShadow;
      if (!isDecided || signal?.aborted || !(error instanceof ThrottrError)) throw error;
      return answerWith(this.#fallbackFor(error));
    }
  }

  /** @throws ThrottrError, or the reason of the signal */
  async #call<Answer>(
    call: () => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    signal?.throwIfAborted();
    try {
      return await within(call(), { clock: this.clock, timeoutMs: this.#timeoutMs, signal });
    } catch (cause) {
      signal?.throwIfAborted();
      throw ThrottrError.from(cause, "outcome_unknown");
    }
  }

  #fallbackFor(error: ThrottrError): RateLimitResult {
    const success = this.#onError === "open";
    return {
      success,
      limit: this.#limitMin,
      remaining: 0,
      reset: null,
      retryAfterMs: success ? 0 : null,
      reason: error.code === "timeout" ? "timeout" : "error",
      quotas: {},
      error,
    };
  }

  #shown(decision: RateLimitResult): RateLimitResult {
    return this.#isShadow ? shadowOf(decision) : decision;
  }
}

/** @throws ThrottrError `argument_invalid`, `option_invalid` */
function entryOf(entry: string | KeyedRequest): KeyedRequest {
  if (typeof entry === "string") return { key: entry };
  checkOptions(entry ?? null, REQUEST, "a key");
  return entry;
}

function check(field: string, expected: string, got: unknown, isValid: boolean): void {
  if (!isValid) throw configurationInvalid(field, expected, got);
}
