/** Rate limits for any framework that works with `Response`: `throttr-edge/fetch`. */
export type { HeaderStyle } from "../../ratelimit/http/headers.ts";
export type { RateLimitProblem } from "../../ratelimit/http/problem.ts";
export type { RequestLimiter } from "../../ratelimit/http/request-limiter.ts";
export { guard, type Guarded, type GuardOptions } from "./guard.ts";
