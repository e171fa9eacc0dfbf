/**
 * What every strategy of rate limiting does with a state, so that one limiter serves them all.
 *
 * States are values and never change. Times are int64 nanoseconds since the epoch.
 */
import type { QuotaDecision } from "../../wire/edge/decision.ts";
import type { Codec } from "../../wire/ratelimit/state.ts";

/** The judgement of one quota about a request. */
export interface QuotaJudgement extends QuotaDecision {
  /** The most that it could ever grant at once. */
  readonly limit: number;
  /** Further grants of cost 1 at this very moment, 0 to `limit`. */
  remaining: number;
  /**
   * When refused, the first moment at which the same cost is granted without other requests. When granted:
   * buckets, the present; GCRA, the new arrival time and the whole limit; windows, their end. Never
   * behind the end of int64. Null for a cost above `limit`, which is never granted.
   */
  readonly resetNs: bigint | null;
}

/** Units, and the charge that they are about. */
export interface OfCharge<State> {
  /** An integer from 0. */
  readonly units: number;
  /** The state that the charge left. */
  readonly charged: State;
}

/** Units that are given back. */
export interface GivenBack<State> extends OfCharge<State> {
  /** How many of them a bucket may get: it has refilled since they were charged. */
  readonly right: number;
}

export interface Strategy<State> {
  readonly codec: Codec<State>;
  /** How many results, the first ones, hide the others in a refusal that is theirs. */
  readonly leadingQuotas: number;
  /**
   * The judgement of each quota about a cost, with `remaining` before the cost is charged. Always the same number
   * of them, in the order of `resultNames`.
   *
   * @param state null for none
   * @param cost an integer, 1 or more
   */
  judge(state: State | null, nowNs: bigint, cost: number): readonly QuotaJudgement[];
  /**
   * Charges a cost that all quotas allow.
   *
   * @param quotas what `judge` said; `remaining` becomes what it is afterwards
   * @returns the state to be stored
   */
  charge(
    state: State | null,
    nowNs: bigint,
    cost: number,
    quotas: readonly QuotaJudgement[],
  ): State;
  /**
   * Gives a cost back: the inverse of `charge` on what was stored, clamped to fresh.
   *
   * @returns null when the state is fresh or has ended, so that there is nothing to give back to
   */
  refund(state: State, nowNs: bigint, cost: number): State | null;
  /** The longest life of an allowance, ns: a tenth of the time that the limit is about, so that spending late adds little. */
  readonly lifeNsMax: bigint;
  /** How long what is charged now may be spent, ns, up to `lifeNsMax`: not longer than the first window that it counts in. */
  lifeNs(charged: State, nowNs: bigint): bigint;
  /** What a bucket lacks to be full, in units and parts of them; Infinity for windows, which don't refill. */
  missing(state: State, nowNs: bigint): number;
  /**
   * Gives back units of a charge: to a bucket, up to their right; to the windows that were charged, where those still run.
   *
   * @returns null when nothing is left to give back to
   */
  giveBack(state: State, nowNs: bigint, given: GivenBack<State>): State | null;
  /**
   * Charges units that a charge lacked, even beyond the limit: a bucket now, and the windows that were charged, where
   * those still run. A debt stops at the end of int64 ns, or at 2^53 - 1 units.
   *
   * @returns null when every window has ended
   */
  owe(state: State, nowNs: bigint, owed: OfCharge<State>): State | null;
  /**
   * What a charge would have left had it been another one, at its own moment. It bends no rule: nothing has been charged
   * since, so the present follows from that moment.
   *
   * @param state that the charge left
   * @param by an integer: units more; less, where it is below 0
   */
  amend(state: State, by: number): State;
  /** How long a state that is stored now is kept, ns: at least until it is fresh. */
  ttlNs(state: State, nowNs: bigint): bigint;
}

/** A life is at most this part of a window, or of the time in which a bucket fills. */
export const LIFE_PARTS = 10;

/** `lifeNsMax` of a bucket, and of GCRA. */
export const bucketLifeNsMax = (burst: number, rate: number): bigint =>
  BigInt(Math.trunc((burst / rate / LIFE_PARTS) * 1e9));

/** Shortest TTL, ns. */
export const TTL_NS_MIN = 1_000_000_000n;
