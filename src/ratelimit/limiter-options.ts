/** Options of a limiter and of its calls, and their checks. */
import { checkOptions, type FieldNames, type Text } from "../wire/edge/argument.ts";
import { configurationOf, type LimitStrategy } from "../wire/edge/limit.ts";
import type { LimitDurability } from "../wire/edge/limits.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";
import { LEASE_MS, LEASE_MS_MAX, LEASE_MS_MIN } from "../wire/edge/drawn.ts";
import { checkName } from "../wire/ratelimit/keys.ts";
import { TIMER_MS_MAX, type Clock } from "../wire/clock.ts";
import type { LimitBackend } from "./backend.ts";
import { clockOf, systemClock, type LegacyClock } from "./clock.ts";
import type { WaitUntil } from "./decider.ts";
import { optionsOf } from "./known-options.ts";
import { AllowanceStore, sharedStore } from "./local/allowance-store.ts";
import type { LocalSettings } from "./local/local-decider.ts";
import { termMsOf } from "./local/term.ts";
import { RefusalCache } from "./refusals.ts";

const OPTIONS: FieldNames<RateLimiterOptions> = {
  throttr: true,
  name: true,
  strategy: true,
  timeoutMs: true,
  onError: true,
  cache: true,
  local: true,
  shadow: true,
  durability: true,
  clock: true,
};
/** Options of calls, by call. */
export const ASK: FieldNames<AskOptions> = { signal: true };
export const MANY: FieldNames<ManyOptions> = { signal: true, waitUntil: true };
export const WAIT: FieldNames<Omit<LimitOptions, "idempotencyKey">> = { cost: true, ...MANY };
const LOCAL: FieldNames<LocalOptions> = {
  leaseMs: true,
  keysMax: true,
  store: true,
  waitUntil: true,
};
export const LIMIT: FieldNames<LimitOptions> = { ...WAIT, idempotencyKey: true };
export const RESERVE: FieldNames<ReserveOptions> = { cost: true, ttlMs: true, signal: true };
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
  readonly timeoutMs?: number | undefined;
  /**
   * What to answer when the server can't be asked, or not in time: "open" allows, "closed" refuses, both with `reason`
   * "timeout" or "error". Unless given, the call throws. Wrong arguments always throw, and so does `reset`.
   */
  readonly onError?: "open" | "closed" | undefined;
  /**
   * Caches refusals until their reset, and answers from the cache without a call: true, or a cache that several limiters
   * share; false unless given. A refund or reset by this limiter shows at once, one by another limiter when the refusal
   * ends. A call with an idempotency key is always sent.
   */
  readonly cache?: boolean | RefusalCache | undefined;
  /**
   * Decides most requests in this isolate, in microseconds: it draws units of the limit, which are charged first, and spends
   * them without a call. True, or how; false unless given. Calls with an idempotency key are always sent. See
   * `docs/rate-limits.md` for the bound, which a server with `DURABILITY=relaxed` does not keep.
   */
  readonly local?: boolean | LocalOptions | undefined;
  /**
   * Decides, charges and reports, but never refuses: every result is a success, and `shadow` has the decision. A failure
   * does not throw then: it is a refusal in `shadow`, or a success where `onError` is "open". `blockUntilReady` does not
   * wait. False unless given.
   */
  readonly shadow?: boolean | undefined;
  /**
   * "strict", unless given: an answer comes when it is on disk, so that no crash takes it back. "relaxed" answers before
   * that: faster, and with fewer rows written, but a crash of the shard may take back what this limiter charged or refunded
   * within the last 50 ms. For limits that protect from load, not for those that count money. Resets, reservations and
   * the draws of `local` are always strict. A server or shard before 0.5 is asked again, strictly.
   */
  readonly durability?: LimitDurability | undefined;
  /** The clock of the platform unless given. */
  readonly clock?: Clock | LegacyClock | undefined;
}

/**
 * How a limiter decides in its isolate.
 *
 * @example
 * const local: LocalOptions = { leaseMs: 500, waitUntil: (work) => ctx.waitUntil(work) };
 */
export interface LocalOptions {
  /**
   * How long drawn units may be spent, in ms: 50 to 10,000; 1,000 unless given. They never live longer than a tenth of the
   * shortest window, or of `burst / rate`; where that is below 20 ms, every request is sent.
   */
  readonly leaseMs?: number | undefined;
  /** For how many keys units are kept, from 1. Without it and `store`, all limiters of one `throttr` share 10,000. */
  readonly keysMax?: number | undefined;
  /** Shared by limiters that are created for each request, with a client of their own. */
  readonly store?: AllowanceStore | undefined;
  /**
   * Keeps work alive after the response, as `ctx.waitUntil` of a Worker: units are drawn ahead and given back there. Other
   * runtimes need none. A Worker without it draws only when a request has to wait anyway.
   */
  readonly waitUntil?: WaitUntil | undefined;
}

/**
 * Options of a request.
 *
 * @example
 * await limiter.limit("ada", { cost: 5, signal: AbortSignal.timeout(100) });
 */
export interface LimitOptions extends ManyOptions {
  /** An integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
  /** 1 to 64 bytes: a repeated call with the same one is charged once, and answered as the first one was. */
  readonly idempotencyKey?: Text | undefined;
}

/**
 * Options of `limitMany`.
 *
 * @example
 * await limiter.limitMany(["ada", "bob"], { waitUntil: (work) => ctx.waitUntil(work) });
 */
export interface ManyOptions extends AskOptions {
  /** As `local.waitUntil` of the limiter, for one that outlives requests. */
  readonly waitUntil?: WaitUntil | undefined;
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
 * Options of a reservation.
 *
 * @example
 * await limiter.reserve("ada", { cost: 800, ttlMs: 30_000 });
 */
export interface ReserveOptions extends AskOptions {
  /** The estimate, an integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
  /**
   * How long the reservation may be settled, in ms, 1,000 to 86,400,000; 60,000 unless given. After that it counts as
   * spent.
   */
  readonly ttlMs?: number | undefined;
}

/**
 * One request of `limitMany`.
 *
 * @example
 * await limiter.limitMany(["ada", { key: "bob", cost: 2 }]);
 */
export interface KeyedRequest extends Omit<LimitOptions, keyof ManyOptions> {
  readonly key: string;
}

/** Options of a limiter, checked, and complete. */
export interface LimiterSettings {
  readonly throttr: LimitBackend;
  readonly name: string;
  readonly strategy: LimitStrategy;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly onError: "open" | "closed" | undefined;
  readonly cache: RefusalCache | null;
  /** Null where every request is sent. */
  readonly local: LocalSettings | null;
  readonly isShadow: boolean;
  readonly durability: LimitDurability;
}

/** @throws RateLimitError with code and field */
export function settingsOf(options: RateLimiterOptions): LimiterSettings {
  optionsOf(options, OPTIONS);
  const { throttr, strategy } = options;
  const { cache = false, local = false, shadow = false, durability = "strict" } = options;
  configurationOf(strategy);
  const name = checkName(options.name, "name", "base_key_invalid");
  const clock = clockOf(options.clock ?? systemClock);
  check("throttr", `expected ${BACKEND}`, throttr, isBackend(throttr));
  const policy = failurePolicyOf(options, (field, expected, got) =>
    configurationInvalid(field, `expected ${expected}`, got),
  );
  const isCache = typeof cache === "boolean" || cache instanceof RefusalCache;
  check("cache", "expected true, false or a RefusalCache", cache, isCache);
  check("cache", "expected false with local, which remembers refusals", cache, !cache || !local);
  check("shadow", "expected true or false", shadow, typeof shadow === "boolean");
  const isDurability = durability === "strict" || durability === "relaxed";
  check("durability", "expected one of strict, relaxed", durability, isDurability);
  return {
    throttr,
    name,
    strategy,
    clock,
    ...policy,
    cache: cache === true ? new RefusalCache() : cache || null,
    local: local === false ? null : localOf(local, { throttr, name, strategy, clock }),
    isShadow: shadow,
    durability,
  };
}

/** What `isBackend` expects, for the message. */
export const BACKEND = "a client or a service binding";

/**
 * Whether a limiter may ask it. Platforms make stubs of many kinds, functions and proxies among them, and these have any
 * property: what lacks this one is another thing, such as a transport or an address, and `onError` would decide for ever.
 */
export const isBackend = (throttr: LimitBackend): boolean =>
  (throttr as Partial<LimitBackend> | null | undefined)?.limit !== undefined;

/**
 * How long to wait, and what to answer then.
 *
 * @param errorOf a wrong option
 * @throws what `errorOf` gives
 */
export function failurePolicyOf(
  { timeoutMs = TIMEOUT_MS, onError }: Pick<RateLimiterOptions, "timeoutMs" | "onError">,
  errorOf: (field: string, expected: string, got: unknown) => Error,
): Pick<LimiterSettings, "timeoutMs" | "onError"> {
  const isTimeout = timeoutMs >= 1 && (timeoutMs <= TIMER_MS_MAX || timeoutMs === Infinity);
  if (typeof timeoutMs !== "number" || !isTimeout) {
    throw errorOf("timeoutMs", `1 to ${TIMER_MS_MAX}, or Infinity`, timeoutMs);
  }
  if (onError !== undefined && onError !== "open" && onError !== "closed") {
    throw errorOf("onError", "one of open, closed", onError);
  }
  return { timeoutMs, onError };
}

function localOf(
  local: true | LocalOptions,
  limiter: Pick<LimiterSettings, "throttr" | "name" | "strategy" | "clock">,
): LocalSettings | null {
  const given = local === true ? {} : optionsOf(local, LOCAL, "local.");
  const { leaseMs = LEASE_MS, keysMax, store, waitUntil } = given;
  const isLease = Number.isInteger(leaseMs) && leaseMs >= LEASE_MS_MIN && leaseMs <= LEASE_MS_MAX;
  check("local.leaseMs", `expected ${LEASE_MS_MIN} to ${LEASE_MS_MAX}`, leaseMs, isLease);
  const isStore = store === undefined || store instanceof AllowanceStore;
  check("local.store", "expected an AllowanceStore", store, isStore);
  const isOne = store === undefined || keysMax === undefined;
  check("local.keysMax", "expected none beside store, which has its own", keysMax, isOne);
  const isFunction = waitUntil === undefined || typeof waitUntil === "function";
  check(
    "local.waitUntil",
    "expected a function, (work) => ctx.waitUntil(work)",
    waitUntil,
    isFunction,
  );
  const own = keysMax === undefined ? undefined : new AllowanceStore({ keysMax });
  const termMs = termMsOf(limiter.strategy, leaseMs);
  if (termMs === null) return null;
  return {
    ...limiter,
    lease: { leaseMs, termMs },
    store: store ?? own ?? sharedStore(limiter.throttr),
    waitUntil,
  };
}

/** @throws ThrottrError `argument_invalid`, `option_invalid` */
export function entryOf(entry: string | KeyedRequest): KeyedRequest {
  if (typeof entry === "string") return { key: entry };
  checkOptions(entry ?? null, REQUEST, "a key");
  return entry;
}

function check(field: string, expected: string, got: unknown, isValid: boolean): void {
  if (!isValid) throw configurationInvalid(field, expected, got);
}
