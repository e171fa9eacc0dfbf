/**
 * Leaky bucket: a request pours its cost in, unless that would rise above `burst`; `rate` a second
 * leaks out.
 *
 * Source: rate limit reference, "Algorithms". The level is a double, and leaks by this one formula everywhere.
 */
import type { BucketState } from "../../wire/ratelimit/bucket-state.ts";
import { leakyBucketCodec } from "../../wire/ratelimit/bucket-state.ts";
import { bucketTtlSeconds, type BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import { amountBetween, firstMoment, nsFor } from "./moments.ts";
import { DEFAULT_QUOTA, type Strategy } from "./strategy.ts";

export function leakyBucket(
  { burst, rate }: BucketConfiguration,
  name = DEFAULT_QUOTA,
): Strategy<BucketState> {
  const ttlNs = BigInt(bucketTtlSeconds(burst, rate)) * 1_000_000_000n;

  function levelAt(state: BucketState | null, ns: bigint): number {
    if (state === null) return 0;
    return Math.max(0, state.amount - amountBetween(state.atNs, ns, rate));
  }

  /** The greatest cost that is granted at a level: floor(burst - level), but for rounding. */
  function roomAt(level: number): number {
    if (level >= burst) return 0;
    let room = Math.floor(burst - level);
    while (level + room > burst) room--;
    while (level + (room + 1) <= burst) room++;
    return room;
  }

  /** @param level at the present */
  function resetNs(
    state: BucketState | null,
    nowNs: bigint,
    cost: number,
    level: number,
  ): bigint | null {
    if (cost > burst) return null;
    if (level + cost <= burst) return nowNs;
    const estimateNs = nowNs + nsFor(level + cost - burst, rate);
    return firstMoment(nowNs, estimateNs, (ns) => levelAt(state, ns) + cost <= burst);
  }

  return {
    codec: leakyBucketCodec,
    leadingQuotas: 1,
    judge: (state, nowNs, cost) => {
      const level = levelAt(state, nowNs);
      return [
        {
          name,
          allowed: level + cost <= burst,
          limit: burst,
          remaining: roomAt(level),
          resetNs: resetNs(state, nowNs, cost, level),
        },
      ];
    },
    charge: (state, nowNs, cost, [quota]) => {
      const amount = levelAt(state, nowNs) + cost;
      quota!.remaining = roomAt(amount);
      return { amount, atNs: nowNs };
    },
    refund: (state, nowNs, cost) => {
      if (levelAt(state, nowNs) === 0) return null;
      return { amount: Math.max(0, state.amount - cost), atNs: state.atNs };
    },
    ttlNs: () => ttlNs,
  };
}
