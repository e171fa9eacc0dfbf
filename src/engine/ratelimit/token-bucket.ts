/**
 * Token bucket: `burst` tokens that come back at `rate` a second; a request takes its cost in tokens.
 *
 * Source: rate limit reference, "Algorithms".
 */
import { tokenBucketCodec, type BucketState } from "../../wire/ratelimit/bucket-state.ts";
import type { BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import { bucketStrategy } from "./bucket.ts";
import type { Strategy } from "./strategy.ts";

export function tokenBucket(configuration: BucketConfiguration): Strategy<BucketState> {
  const { burst } = configuration;
  return bucketStrategy(configuration, {
    codec: tokenBucketCodec,
    fresh: burst,
    freed: (tokens, by) => Math.min(tokens + by, burst),
    free: (tokens) => tokens,
    fits: (tokens, cost) => tokens >= cost,
  });
}
