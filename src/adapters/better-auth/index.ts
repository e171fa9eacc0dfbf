/** Rate limits and secondary storage of better-auth: `throttr-edge/better-auth`. */
export {
  rateLimitStorage,
  type RateLimitDecision,
  type RateLimitRule,
  type RateLimitStorageOptions,
} from "./rate-limit-storage.ts";
export {
  secondaryStorage,
  type SecondaryStorage,
  type SecondaryStorageOptions,
  type StorageBackend,
} from "./secondary-storage.ts";
