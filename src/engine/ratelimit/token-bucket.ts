/**
 * Token bucket: `burst` tokens that come back at `rate` a second; a request takes its cost in tokens.
 *
 * Source: rate limit reference, "Algorithms". Tokens are doubles, and refilled by this one formula everywhere.
 */
import type { BucketState } from "../../wire/ratelimit/bucket-state.ts";
import { tokenBucketCodec } from "../../wire/ratelimit/bucket-state.ts";
import { bucketTtlSeconds, type BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import { amountBetween, firstMoment, nsFor } from "./moments.ts";
import { DEFAULT_QUOTA, type Strategy } from "./strategy.ts";

export function tokenBucket(
  { burst, rate }: BucketConfiguration,
  name = DEFAULT_QUOTA,
): Strategy<BucketState> {
  const ttlNs = BigInt(bucketTtlSeconds(burst, rate)) * 1_000_000_000n;

  function tokensAt(state: BucketState | null, ns: bigint): number {
    if (state === null) return burst;
    return Math.min(state.amount + amountBetween(state.atNs, ns, rate), burst);
  }

  /** @param tokens at the present */
  function resetNs(
    state: BucketState | null,
    nowNs: bigint,
    cost: number,
    tokens: number,
  ): bigint | null {
    if (cost > burst) return null;
    if (tokens >= cost) return nowNs;
    const estimateNs = nowNs + nsFor(cost - tokens, rate);
    return firstMoment(nowNs, estimateNs, (ns) => tokensAt(state, ns) >= cost);
  }

  return {
    codec: tokenBucketCodec,
    leadingQuotas: 1,
    judge: (state, nowNs, cost) => {
      const tokens = tokensAt(state, nowNs);
      return [
        {
          name,
          allowed: tokens >= cost,
          limit: burst,
          remaining: Math.max(0, Math.floor(tokens)),
          resetNs: resetNs(state, nowNs, cost, tokens),
        },
      ];
    },
    charge: (state, nowNs, cost, [quota]) => {
      quota!.remaining -= cost;
      return { amount: tokensAt(state, nowNs) - cost, atNs: nowNs };
    },
    refund: (state, nowNs, cost) => {
      if (tokensAt(state, nowNs) === burst) return null;
      return { amount: Math.min(state.amount + cost, burst), atNs: state.atNs };
    },
    ttlNs: () => ttlNs,
  };
}
