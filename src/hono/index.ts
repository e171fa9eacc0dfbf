/** Rate limits for Hono: `throttr-edge/hono`. */
export type { HeaderStyle } from "../ratelimit/http/headers.ts";
export type { RateLimitProblem } from "../ratelimit/http/problem.ts";
export type { RequestLimiter } from "../ratelimit/http/request-limiter.ts";
export { rateLimit, type RateLimitOptions, type RateLimitVariables } from "./rate-limit.ts";
export { ThrottrStore } from "./store.ts";
export type {
  ClientHits,
  CounterBackend,
  ThrottrStoreOptions,
} from "../adapters/express-rate-limit/store.ts";
