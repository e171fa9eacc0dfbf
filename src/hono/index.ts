/** Rate limits for Hono: `throttr-edge/hono`. */
export type { HeaderStyle } from "./headers.ts";
export type { RateLimitProblem } from "./problem.ts";
export {
  rateLimit,
  type RateLimitOptions,
  type RateLimitVariables,
  type RequestLimiter,
} from "./rate-limit.ts";
export {
  ThrottrStore,
  type ClientHits,
  type CounterBackend,
  type ThrottrStoreOptions,
} from "./store.ts";
