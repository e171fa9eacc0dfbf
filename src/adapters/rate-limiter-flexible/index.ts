/** A limiter of rate-limiter-flexible: `throttr-edge/rate-limiter-flexible`. */
export {
  RateLimiterThrottr,
  type PointsBackend,
  type RateLimiterThrottrOptions,
} from "./rate-limiter-throttr.ts";
