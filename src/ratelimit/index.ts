/** Rate limits for applications: `throttr-edge/ratelimit`. */
export { ThrottrError } from "../wire/edge/error.ts";
export type {
  BucketStrategy,
  CompositeStrategy,
  FixedWindowStrategy,
  LimitResult,
  LimitStrategy,
  Quota,
  QuotaResult,
  SlidingWindowStrategy,
} from "../wire/edge/limit.ts";
export type { LimitAllEntry, LimitAllRequest, LimitAllResult } from "../wire/edge/limit-all.ts";
export type {
  LimitDurability,
  LimitRequest,
  ReserveRequest,
  ReserveResult,
  SettleRequest,
  SettleResult,
} from "../wire/edge/operations.ts";
export { RateLimitError, type RateLimitErrorCode } from "../wire/ratelimit/error.ts";
export type { DrawRequest, DrawResult, DrawReturn } from "../wire/edge/draw.ts";
export type { ChargeOptions, LimitBackend } from "./backend.ts";
export type { WaitUntil } from "./decider.ts";
export type { Clock } from "../wire/clock.ts";
export { systemClock, type LegacyClock } from "./clock.ts";
export type { Duration, Window } from "./duration.ts";
export { encodeKey } from "./key.ts";
export {
  limitAll,
  type LimitAllOptions,
  type LimitTogether,
  type RateLimitAllResult,
} from "./limit-all.ts";
export type {
  AskOptions,
  KeyedRequest,
  LimitOptions,
  LocalOptions,
  ManyOptions,
  RateLimiterOptions,
  ReserveOptions,
} from "./limiter-options.ts";
export { AllowanceStore } from "./local/allowance-store.ts";
export { RateLimiter } from "./rate-limiter.ts";
export type { Reservation, SettledResult } from "./reservation.ts";
export { RefusalCache } from "./refusals.ts";
export type { Decision, RateLimitResult } from "./result.ts";
export {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
  type BucketOptions,
  type QuotaOptions,
  type WindowOptions,
} from "./strategies.ts";
