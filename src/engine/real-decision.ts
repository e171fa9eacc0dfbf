/** Decisions in the platform's time. Limiters decide in the shard's time, which may be ahead: see `ShardClock`. */
import type { LimitDecision } from "../wire/edge/decision.ts";
import type { StoredDecision } from "./ratelimit/limiter.ts";
import type { Records } from "./records.ts";
import { U64 } from "./time.ts";

/**
 * Converts the times of a decision, so that a retry after `retryAfterNs` is late enough by the shard's clock. Without a lag
 * it is the decision itself.
 */
export function realDecision(records: Records, decision: StoredDecision): LimitDecision {
  if (records.clock.lagMs === 0) return decision;
  const time = new U64();
  const realOf = (ns: bigint): bigint => records.toReal(time.setBig(ns)).toBig();
  const { retryAfterNs } = decision;
  return {
    ...withReal(decision, realOf),
    retryAfterNs:
      retryAfterNs === null || retryAfterNs === 0n
        ? retryAfterNs
        : realOf(records.now.toBig() + retryAfterNs) - records.realNow.toBig(),
    quotas: decision.quotas.map((quota) => withReal(quota, realOf)),
  };
}

function withReal<T extends { readonly resetNs: bigint | null }>(
  judgement: T,
  realOf: (ns: bigint) => bigint,
): T {
  const { resetNs } = judgement;
  return resetNs === null ? judgement : { ...judgement, resetNs: realOf(resetNs) };
}
