/**
 * The common part of token bucket and leaky bucket: an amount that time frees, and costs take.
 *
 * Source: rate limit reference, "Algorithms". Amounts are doubles, and each bucket has one formula for each
 * question, for a grant, a peek, and the search for the moment of a reset alike.
 */
import type { BucketState } from "../../wire/ratelimit/bucket-state.ts";
import { bucketTtlSeconds, type BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import type { Codec } from "../../wire/ratelimit/state.ts";
import { AMOUNT_MAX, amountBetween, firstMoment, nsFor, upToEnd } from "./moments.ts";
import { bucketLifeNsMax, type QuotaJudgement, type Strategy } from "./strategy.ts";

/** How a bucket counts. */
export interface Bucket {
  readonly codec: Codec<BucketState>;
  /** The amount of an unused bucket. */
  readonly fresh: number;
  /** The amount when this much more is free, up to fresh; a negative number takes. */
  freed(amount: number, by: number): number;
  /** The free part, -Infinity to `burst`. `fits` decides, as either may round. */
  free(amount: number): number;
  /** Whether a cost is granted. Once it is, freeing more does not change that. */
  fits(amount: number, cost: number): boolean;
}

export function bucketStrategy(
  { burst, rate }: BucketConfiguration,
  bucket: Bucket,
): Strategy<BucketState> {
  const ttlNs = BigInt(bucketTtlSeconds(burst, rate)) * 1_000_000_000n;
  const lifeNsMax = bucketLifeNsMax(burst, rate);

  function amountAt(state: BucketState | null, ns: bigint): number {
    return state === null
      ? bucket.fresh
      : bucket.freed(state.amount, amountBetween(state.atNs, ns, rate));
  }

  /**
   * The state of an amount at a moment. A token bucket in debt is stored as empty at the moment when the debt is paid:
   * readers of the format know no amount below 0.
   */
  function stateOf(amount: number, ns: bigint): BucketState {
    if (amount >= 0) return { amount: Math.min(amount, AMOUNT_MAX), atNs: ns };
    const isPaid = (atNs: bigint): boolean => amount + amountBetween(ns, atNs, rate) >= 0;
    return { amount: 0, atNs: firstMoment(ns, ns + nsFor(-amount, rate), isPaid) };
  }

  /** The greatest cost that fits. */
  function roomAt(amount: number): number {
    let room = Math.max(0, Math.floor(bucket.free(amount)));
    while (room > 0 && !bucket.fits(amount, room)) room--;
    while (bucket.fits(amount, room + 1)) room++;
    return room;
  }

  function judge(state: BucketState | null, nowNs: bigint, cost: number): QuotaJudgement {
    const amount = amountAt(state, nowNs);
    const allowed = bucket.fits(amount, cost);
    let resetNs: bigint | null = nowNs;
    if (cost > burst) {
      resetNs = null;
    } else if (!allowed) {
      const estimateNs = nowNs + nsFor(cost - bucket.free(amount), rate);
      resetNs = firstMoment(nowNs, estimateNs, (ns) => bucket.fits(amountAt(state, ns), cost));
    }
    return { allowed, limit: burst, remaining: roomAt(amount), resetNs };
  }

  return {
    codec: bucket.codec,
    leadingQuotas: 1,
    judge: (state, nowNs, cost) => [judge(state, nowNs, cost)],
    charge: (state, nowNs, cost, [quota]) => {
      const amount = bucket.freed(amountAt(state, nowNs), -cost);
      quota!.remaining = roomAt(amount);
      return { amount, atNs: nowNs };
    },
    refund: (state, nowNs, cost) => {
      const amountNow = amountAt(state, nowNs);
      if (amountNow === bucket.fresh) return null;
      // In debt: by the stored amount alone, a refund could not be more than a whole bucket.
      if (amountNow < 0) return stateOf(bucket.freed(amountNow, cost), nowNs);
      const amount = bucket.freed(state.amount, cost);
      // Stored as more than fresh when the burst was more: nothing is missing there.
      if (bucket.free(amount) <= bucket.free(state.amount)) return null;
      return { amount, atNs: state.atNs };
    },
    lifeNsMax,
    lifeNs: () => lifeNsMax,
    missing: (state, nowNs) => burst - bucket.free(amountAt(state, nowNs)),
    giveBack: (state, nowNs, { units, right }) => {
      const amount = amountAt(state, nowNs);
      return stateOf(bucket.freed(amount, Math.min(units, right)), nowNs);
    },
    owe: (state, nowNs, { units }) => stateOf(bucket.freed(amountAt(state, nowNs), -units), nowNs),
    amend: ({ amount, atNs }, by) => stateOf(bucket.freed(amount, -by), atNs),
    ttlNs: ({ amount, atNs }, nowNs) => {
      // A bucket in debt is fresh later than an empty one.
      const debtNs = atNs > nowNs ? atNs - nowNs : 0n;
      const freshNs = upToEnd(debtNs + nsFor(Math.max(0, burst - bucket.free(amount)), rate));
      return freshNs > ttlNs ? freshNs : ttlNs;
    },
  };
}
