/**
 * Leaky bucket: a request pours its cost in, unless that would rise above `burst`; `rate` a second
 * leaks out.
 *
 * Source: rate limit reference, "Algorithms".
 */
import { leakyBucketCodec, type BucketState } from "../../wire/ratelimit/bucket-state.ts";
import type { BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import { bucketStrategy } from "./bucket.ts";
import type { Strategy } from "./strategy.ts";

export function leakyBucket(configuration: BucketConfiguration): Strategy<BucketState> {
  const { burst } = configuration;
  return bucketStrategy(configuration, {
    codec: leakyBucketCodec,
    fresh: 0,
    freed: (level, by) => Math.max(0, level - by),
    free: (level) => burst - level,
    fits: (level, cost) => level + cost <= burst,
  });
}
