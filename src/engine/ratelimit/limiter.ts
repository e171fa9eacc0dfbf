/**
 * A limiter: one checked configuration, ready to decide over the stored states of any number of keys.
 *
 * It has no clock and no storage: its caller passes the stored text and the present, and stores the text that
 * it returns. Source: rate limit reference.
 */
import {
  checkAmount,
  checkConfiguration,
  type BucketConfiguration,
} from "../../wire/ratelimit/configuration.ts";
import type { LimitDecision, QuotaDecision } from "../../wire/edge/decision.ts";
import { resultNames } from "../../wire/ratelimit/names.ts";
import { composite } from "./composite.ts";
import { fixedWindow } from "./fixed-window.ts";
import { gcra } from "./gcra.ts";
import { leakyBucket } from "./leaky-bucket.ts";
import { slidingWindow } from "./sliding-window.ts";
import type { GivenBack, QuotaJudgement, Strategy } from "./strategy.ts";
import { tokenBucket } from "./token-bucket.ts";

/** The decision of one quota, under its name. */
interface NamedQuota extends QuotaDecision {
  /** Of `resultNames`. */
  readonly name: string;
}

/** A decision, and the state that it leaves to be stored. */
export interface StoredDecision extends LimitDecision {
  /** `cost_exceeds_limit`: no wait helps. Null for a grant and for a refusal that time ends. */
  readonly reason: "cost_exceeds_limit" | null;
  /**
   * When granted, that of the quota with the smallest `remaining`. When refused, the first moment at
   * which the same cost is granted without other requests; null with a reason.
   */
  readonly resetNs: bigint | null;
  /** From the present to `resetNs` of a refusal; 0 when granted, null with a reason. */
  readonly retryAfterNs: bigint | null;
  /** In the order of the configuration. A limit that a primary refuses shows the primary's only. */
  readonly quotas: readonly NamedQuota[];
  /** The text to store; null: write nothing. */
  readonly state: string | null;
  /** How long it is to be stored, ns; 0 without a state. */
  readonly ttlNs: bigint;
}

/**
 * All three take the stored text, or null for none, and the present, 0 to `NOW_NS_MAX` ns since the
 * epoch. Resetting a key is to delete what is stored.
 *
 * All three throw StateError (`state_invalid`) for a text that is not a state of this strategy, RangeError
 * for another present, and RateLimitError (`cost_invalid`) for a cost that is not an integer from 1 to
 * 2^53 - 1.
 */
export interface Limiter {
  /** Grants a cost and charges it, or refuses it and writes nothing. */
  limit(stored: string | null, nowNs: bigint, cost?: number): StoredDecision;
  /** The decision of `limit` for a cost of 1, with `remaining` before the charge. It writes nothing. */
  peek(stored: string | null, nowNs: bigint): StoredDecision;
  /**
   * Charges an allowance: units that a caller may spend without asking, each as good as a grant for as long as it lives.
   *
   * @returns units 0 for a refusal of the cost, and where a cost of 0 finds too little room to draw ahead
   */
  draw(stored: string | null, nowNs: bigint, ask: Ask): Drawn;
  /** What a bucket lacks to be full, in units and parts of them; Infinity for windows, which don't refill. */
  missing(stored: string | null, nowNs: bigint): number;
  /**
   * Gives back units that were charged and not spent. Times and texts as of `limit`.
   *
   * @param given.charged the text that the charge left
   * @returns what is stored then, null where there is nothing to give back to
   */
  giveBack(
    stored: string,
    nowNs: bigint,
    given: GivenBack<string>,
  ): { readonly state: string; readonly ttlNs: bigint } | null;
  /**
   * Corrects a charge: what it was too much is given back, what it lacked is charged, even beyond the limit. Times and
   * texts as of `limit`.
   *
   * @param by an integer: units more; less, where it is below 0
   * @param charge.units that were charged
   * @param charge.charged the text that the charge left
   * @returns as `giveBack`
   */
  settle(
    stored: string,
    nowNs: bigint,
    by: number,
    charge: GivenBack<string>,
  ): { readonly state: string; readonly ttlNs: bigint } | null;
  /** The longest life of an allowance, ns. */
  readonly lifeNsMax: bigint;
  /** Gives a cost back, clamped to fresh, and returns the decision of `peek` after that. */
  refund(stored: string | null, nowNs: bigint, cost?: number): StoredDecision;
}

/** What a caller asks an allowance for. */
export interface Ask {
  /** Units that it needs now, an integer; 0 to draw ahead only. */
  readonly cost: number;
  /** Units that it expects to need, an integer, 0 or more. It gets at most a quarter of what remains. */
  readonly wanted: number;
}

/** A draw: what was charged. */
export interface Drawn {
  /** Of the cost, or, where it is 0, that of `peek`; `remaining` is what the draw leaves. */
  readonly decision: StoredDecision;
  /** Units charged, those of the cost among them. */
  readonly units: number;
  /** How long the units may be spent, ns; 0 without units. */
  readonly lifeNs: bigint;
}

/** Latest present: no time that follows from it and a checked configuration leaves int64. Year 2116. */
export const NOW_NS_MAX = 2n ** 62n;

/**
 * A limiter of a configuration from outside.
 *
 * @throws RateLimitError that names field and range
 */
export function createLimiter(value: unknown): Limiter {
  const configuration = checkConfiguration(value);
  const names = resultNames(configuration);
  switch (configuration.strategy) {
    case "fixed_window":
      return limiterOf(fixedWindow(configuration), names);
    case "sliding_window":
      return limiterOf(slidingWindow(configuration), names);
    case "composite": {
      const primary = fixedWindow(configuration.primary);
      return withBucket(configuration.secondary, (secondary) =>
        limiterOf(composite(primary, secondary), names),
      );
    }
    default:
      return withBucket(configuration, (strategy) => limiterOf(strategy, names));
  }
}

/** Calls `use` with the bucket of a configuration: it is generic over the state of the strategy. */
function withBucket(
  configuration: BucketConfiguration,
  use: <State>(strategy: Strategy<State>) => Limiter,
): Limiter {
  switch (configuration.strategy) {
    case "token_bucket":
      return use(tokenBucket(configuration));
    case "leaky_bucket":
      return use(leakyBucket(configuration));
    case "gcra":
      return use(gcra(configuration));
  }
}

/** @param names of what the strategy's quotas say, in their order */
function limiterOf<State>(strategy: Strategy<State>, names: readonly string[]): Limiter {
  const { codec, leadingQuotas } = strategy;

  function stateOf(stored: string | null, nowNs: bigint): State | null {
    if (nowNs < 0n || nowNs > NOW_NS_MAX) {
      throw new RangeError(`nowNs: expected 0 to ${NOW_NS_MAX}, got ${nowNs}`);
    }
    return stored === null ? null : codec.decode(stored);
  }

  function answer(
    quotas: readonly QuotaJudgement[],
    shown: readonly QuotaJudgement[],
    nowNs: bigint,
    written: State | null,
  ): StoredDecision {
    let tightest = quotas[0]!;
    let allowed = true;
    let isNever = false;
    let refusedUntilNs = nowNs;
    for (const quota of quotas) {
      if (quota.remaining < tightest.remaining) tightest = quota;
      if (quota.allowed) continue;
      allowed = false;
      if (quota.resetNs === null) isNever = true;
      else if (quota.resetNs > refusedUntilNs) refusedUntilNs = quota.resetNs;
    }
    return {
      allowed,
      reason: isNever ? "cost_exceeds_limit" : null,
      limit: tightest.limit,
      remaining: tightest.remaining,
      resetNs: isNever ? null : allowed ? tightest.resetNs : refusedUntilNs,
      retryAfterNs: isNever ? null : refusedUntilNs - nowNs,
      quotas: shown.map(({ allowed, limit, remaining, resetNs }, i) => ({
        name: names[i]!,
        allowed,
        limit,
        remaining,
        resetNs,
      })),
      state: written === null ? null : codec.encode(written),
      ttlNs: written === null ? 0n : strategy.ttlNs(written, nowNs),
    };
  }

  function look(state: State | null, nowNs: bigint, written: State | null): StoredDecision {
    const quotas = strategy.judge(state, nowNs, 1);
    return answer(quotas, quotas, nowNs, written);
  }

  function encoded(
    written: State | null,
    nowNs: bigint,
  ): { readonly state: string; readonly ttlNs: bigint } | null {
    if (written === null) return null;
    return { state: codec.encode(written), ttlNs: strategy.ttlNs(written, nowNs) };
  }

  function refuse(quotas: readonly QuotaJudgement[], nowNs: bigint): StoredDecision {
    const leading = quotas.slice(0, leadingQuotas);
    const isLeading = leading.some(({ allowed }) => !allowed);
    return answer(quotas, isLeading ? leading : quotas, nowNs, null);
  }

  return {
    lifeNsMax: strategy.lifeNsMax,
    limit: (stored, nowNs, cost = 1) => {
      checkAmount(cost, "cost", "cost_invalid");
      const state = stateOf(stored, nowNs);
      const quotas = strategy.judge(state, nowNs, cost);
      if (!quotas.every(({ allowed }) => allowed)) return refuse(quotas, nowNs);
      const written = strategy.charge(state, nowNs, cost, quotas);
      return answer(quotas, quotas, nowNs, written);
    },
    peek: (stored, nowNs) => look(stateOf(stored, nowNs), nowNs, null),
    draw: (stored, nowNs, { cost, wanted }) => {
      const state = stateOf(stored, nowNs);
      const asked = strategy.judge(state, nowNs, Math.max(cost, 1));
      if (cost > 0 && !asked.every(({ allowed }) => allowed)) {
        return { ...NOTHING, decision: refuse(asked, nowNs) };
      }
      const remaining = Math.min(...asked.map((quota) => quota.remaining));
      const units = Math.max(cost, Math.min(wanted, Math.floor(remaining / DRAW_PARTS)));
      if (units === 0) return { ...NOTHING, decision: answer(asked, asked, nowNs, null) };
      const quotas = units === cost ? asked : strategy.judge(state, nowNs, units);
      const written = strategy.charge(state, nowNs, units, quotas);
      return {
        decision: answer(quotas, quotas, nowNs, written),
        units,
        lifeNs: strategy.lifeNs(written, nowNs),
      };
    },
    missing: (stored, nowNs) =>
      stored === null ? 0 : strategy.missing(codec.decode(stored), nowNs),
    giveBack: (stored, nowNs, { units, right, charged }) => {
      const state = codec.decode(stored);
      const given = { units, right, charged: codec.decode(charged) };
      return encoded(strategy.giveBack(state, nowNs, given), nowNs);
    },
    settle: (stored, nowNs, by, { units, right, charged }) => {
      const state = codec.decode(stored);
      if (by === 0) return null;
      // The same text may come again, from a refund and another charge. The refund has cut the right then.
      if (stored === charged && (by > 0 || right === units)) {
        return encoded(strategy.amend(state, by), nowNs);
      }
      const given = { units: Math.abs(by), right, charged: codec.decode(charged) };
      const written =
        by > 0 ? strategy.owe(state, nowNs, given) : strategy.giveBack(state, nowNs, given);
      return encoded(written, nowNs);
    },
    refund: (stored, nowNs, cost = 1) => {
      checkAmount(cost, "cost", "cost_invalid");
      const state = stateOf(stored, nowNs);
      const written = state === null ? null : strategy.refund(state, nowNs, cost);
      return look(written ?? state, nowNs, written);
    },
  };
}

/** A draw gets at most the remaining units divided by this, so that other callers get some, too. */
const DRAW_PARTS = 4;
const NOTHING = { units: 0, lifeNs: 0n } as const;
