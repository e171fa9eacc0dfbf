/** The rate limiter: a name, a strategy, and a policy for when the server can't be asked. */
import {
  checkOptions,
  idempotencyKeyOf,
  integerOf,
  invalid,
  signalOption,
} from "../wire/edge/argument.ts";
import type { DrawReturn } from "../wire/edge/draw.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitStrategy } from "../wire/edge/limit.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import { RESERVE_TTL_MS_MAX, RESERVE_TTL_MS_MIN } from "../wire/edge/reservation-bounds.ts";
import { checkAmount } from "../wire/ratelimit/configuration.ts";
import { monotonicMsOf, pause, type Clock } from "../wire/clock.ts";
import { chargeOptions, type LimitBackend } from "./backend.ts";
import { CachedDecider } from "./cached-decider.ts";
import { ExactDecider, type Decider, type Wish } from "./decider.ts";
import { encodeKey } from "./key.ts";
import { LimiterCalls } from "./limiter-calls.ts";
import {
  ASK,
  entryOf,
  LIMIT,
  MANY,
  RESERVE,
  settingsOf,
  WAIT,
  type AskOptions,
  type KeyedRequest,
  type LimitOptions,
  type ManyOptions,
  type RateLimiterOptions,
  type ReserveOptions,
} from "./limiter-options.ts";
import { LocalDecider } from "./local/local-decider.ts";
import {
  readReservationId,
  reservationIdOf,
  type Reservation,
  type SettledResult,
} from "./reservation.ts";
import { RelaxedCalls, type DecisionCalls } from "./relaxed.ts";
import { decisionOf, type RateLimitResult } from "./result.ts";
import { callOf05 } from "./unknown-call.ts";

/** What `limitAll` needs of a limiter. */
export let insideOf: (limiter: RateLimiter) => {
  readonly isShadow: boolean;
  /** @throws ThrottrError `cost_invalid` */
  readonly requestOf: (key: string, options: LimitOptions) => LimitRequest;
  /** Takes all units of a key that the limiter has in this isolate, for a message that gives them back: see `local`. */
  readonly takeReturns: (storedKey: string) => DrawReturn[];
};

const NO_OPTIONS: LimitOptions = {};

/** What a call that reserves says; `id` is null where nothing is reserved, or `onError` has decided. */
interface Reserved {
  readonly decision: RateLimitResult;
  readonly id: string | null;
}

/** What a call that settles says; `settled` is null where `onError` has decided. */
interface Settled {
  readonly decision: RateLimitResult;
  readonly settled: number | null;
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
  /** Those of the server, relaxed where the limiter is. */
  readonly #decisions: DecisionCalls;
  readonly #calls: LimiterCalls;
  readonly #decider: Decider;
  readonly #isShadow: boolean;

  static {
    insideOf = (limiter) => ({
      isShadow: limiter.#isShadow,
      requestOf: (key, options) => limiter.#requestOf(key, options),
      takeReturns: (storedKey) => limiter.#decider.takeReturns(storedKey),
    });
  }

  /** @throws RateLimitError with code and field */
  constructor(options: RateLimiterOptions) {
    const settings = settingsOf(options);
    const { throttr, name, strategy, clock, cache, local, durability } = settings;
    this.name = name;
    this.strategy = strategy;
    this.clock = clock;
    this.#throttr = throttr;
    this.#isShadow = settings.isShadow;
    this.#calls = new LimiterCalls(settings);
    this.#decisions = durability === "relaxed" ? new RelaxedCalls(throttr) : throttr;
    const exact = new ExactDecider(this.#decisions);
    if (local !== null) this.#decider = new LocalDecider(exact, local);
    else this.#decider = cache === null ? exact : new CachedDecider(exact, cache, settings);
  }

  /**
   * Charges the cost if the limit allows it.
   *
   * @example
   * const { success, remaining } = await limiter.limit("ada", { cost: 2 });
   */
  async limit(key: string, options: LimitOptions = NO_OPTIONS): Promise<RateLimitResult> {
    if (options !== NO_OPTIONS) checkOptions(options, LIMIT, "limit");
    const { cost = 1, idempotencyKey, signal, waitUntil } = options;
    if (idempotencyKey === undefined && !signal?.aborted) {
      const known = this.#decider.decide(key, cost, waitUntil);
      if (known !== null) return this.#calls.shown(known);
    }
    const wish = { key, request: this.#requestOf(await encodeKey(key), options) };
    const ask = async (gone: AbortSignal): Promise<RateLimitResult> => {
      const coming = this.#decider.waitFor?.(wish, gone) ?? null;
      const come = coming === null ? null : await coming;
      return come ?? (await this.#decider.ask([wish], gone, waitUntil))[0]!;
    };
    return await this.#calls.decide(ask, signal);
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
    options: ManyOptions = {},
  ): Promise<RateLimitResult[]> {
    checkOptions(options, MANY, "limitMany");
    if (!Array.isArray(keys)) {
      throw invalid("keys", "a list", keys, "argument_invalid");
    }
    const entries = (keys as readonly (string | KeyedRequest)[]).map(entryOf);
    const stored = await Promise.all(entries.map(async ({ key }) => await encodeKey(key)));
    const wishes = entries.map((entry, i) => {
      return { key: entry.key, request: this.#requestOf(stored[i]!, entry) };
    });
    signalOption(options.signal)?.throwIfAborted();
    const known = wishes.map(({ key, request: { cost = 1, idempotencyKey } }) =>
      idempotencyKey === undefined ? this.#decider.decide(key, cost, options.waitUntil) : null,
    );
    const asked = wishes.filter((_, i) => known[i] === null);
    const answers = await this.#ask(asked, options);
    let at = 0;
    return known.map((decision) => this.#calls.shown(decision ?? answers[at++]!));
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
      decisionOf(await this.#decisions.peek(request));
    return await this.#calls.decide(call, options.signal);
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
      try {
        return decisionOf(await this.#decisions.refund(request));
      } finally {
        this.#decider.noteRefund(stored);
      }
    };
    return await this.#calls.decide(call, options.signal);
  }

  /**
   * Charges an estimate, to be settled with the real cost when that is known: tokens of a model, bytes of an upload. It is
   * refused as by `limit`. The server decides, also with `cache` and `local`, whose units count as spent here.
   *
   * @example
   * const held = await limiter.reserve("ada", { cost: 800, ttlMs: 30_000 });
   * if (!held.success) return tooManyRequests(held.retryAfterMs);
   * const { text, tokens } = await generate(prompt);
   * await held.settle(tokens);
   *
   * @throws ThrottrError as of the class; `ttl_invalid`, and `request_type_unknown` of a server before 0.5
   */
  async reserve(key: string, options: ReserveOptions = {}): Promise<Reservation> {
    checkOptions(options, RESERVE, "reserve");
    const { cost, ttlMs, signal } = options;
    const stored = await encodeKey(key);
    const request = { ...this.#requestOf(stored, { cost }), ...reserveTtlOf(ttlMs) };
    const { decision, id } = await this.#calls.answer<Reserved>(
      async (gone) => {
        const options = chargeOptions(this.#throttr, gone);
        const answer = await callOf05("reserve", () => this.#throttr.reserve!(request, ...options));
        return { decision: decisionOf(answer), id: answer.id };
      },
      signal,
      (fallback) => ({ decision: fallback, id: null }),
    );
    const shown = this.#calls.shown(decision);
    const settle = async (real: number, asked: AskOptions = {}): Promise<SettledResult> => {
      checkSettlement(real, asked);
      if (id === null) return { ...shown, settled: null };
      return await this.#settle({ id, key: stored }, real, asked);
    };
    return {
      ...shown,
      id: id === null ? null : reservationIdOf(id, stored),
      settle,
      release: (asked) => settle(0, asked),
    };
  }

  /**
   * Settles a reservation by its `id`, also one that another Worker has made: see `Reservation`. A reservation is settled
   * once, and later calls change nothing. Where a window that was charged has ended, or the limit was reset, nothing is
   * given back or charged.
   *
   * @example
   * if (held.id !== null) await limiter.settle(held.id, 523);
   *
   * @param cost an integer from 0
   * @throws ThrottrError as of the class; `reservation_invalid`; without `onError` also `reservation_ended`
   */
  async settle(id: string, cost: number, options: AskOptions = {}): Promise<SettledResult> {
    return await this.#settle(readReservationId(id), cost, options);
  }

  async #settle(
    { id, key }: { readonly id: string; readonly key: string },
    cost: number,
    options: AskOptions,
  ): Promise<SettledResult> {
    checkSettlement(cost, options);
    const { name, strategy } = this;
    const request = { name, key, strategy, id, cost };
    const { decision, settled } = await this.#calls.answer<Settled>(
      async () => {
        try {
          const answer = await callOf05("settle", () => this.#throttr.settle!(request));
          return { decision: decisionOf(answer), settled: answer.settled };
        } finally {
          // Units may have come back.
          this.#decider.noteRefund(key);
        }
      },
      options.signal,
      (fallback) => ({ decision: fallback, settled: null }),
    );
    return { ...this.#calls.shown(decision), settled };
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
      try {
        return await this.#throttr.reset(request);
      } finally {
        // Also when it fails: it may have been applied.
        this.#decider.noteReset(stored);
      }
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
    const untilMs = monotonicMsOf(this.clock) + timeoutMs;
    for (;;) {
      const result = await this.limit(key, options);
      const { success, retryAfterMs } = result;
      if (success || retryAfterMs === null) return result;
      const leftMs = untilMs - monotonicMsOf(this.clock);
      if (retryAfterMs > leftMs) return { ...result, reason: "timeout" };
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

  /** Asks the server for what is not known here, in one message. */
  async #ask(
    wishes: readonly Wish[],
    { signal, waitUntil }: ManyOptions,
  ): Promise<RateLimitResult[]> {
    if (wishes.length === 0) return [];
    return await this.#calls.answer(
      (gone) => this.#decider.ask(wishes, gone, waitUntil),
      signal,
      (fallback) => wishes.map(() => fallback),
    );
  }
}

/** @throws ThrottrError `argument_invalid`, `option_invalid`, `cost_invalid` */
function checkSettlement(cost: number, options: AskOptions): void {
  checkOptions(options, ASK, "settle");
  integerOf(cost, "cost", 0, Number.MAX_SAFE_INTEGER);
}

/** @throws ThrottrError `ttl_invalid` */
function reserveTtlOf(ttlMs: number | undefined): { readonly ttlMs?: number } {
  if (ttlMs === undefined) return {};
  return {
    ttlMs: integerOf(ttlMs, "ttlMs", RESERVE_TTL_MS_MIN, RESERVE_TTL_MS_MAX, "ttl_invalid"),
  };
}
