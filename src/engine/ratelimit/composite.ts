/**
 * Composite: two strategies that decide on the same present. Both are charged, or neither.
 *
 * Source: rate limit reference, "Algorithms".
 */
import { compositeCodec, type CompositeState } from "../../wire/ratelimit/composite-state.ts";
import type { Strategy } from "./strategy.ts";

export function composite<Primary, Secondary>(
  primary: Strategy<Primary>,
  secondary: Strategy<Secondary>,
): Strategy<CompositeState<Primary, Secondary>> {
  const { leadingQuotas } = primary;
  return {
    codec: compositeCodec(primary.codec, secondary.codec),
    leadingQuotas,
    judge: (state, nowNs, cost) => [
      ...primary.judge(state?.primary ?? null, nowNs, cost),
      ...secondary.judge(state?.secondary ?? null, nowNs, cost),
    ],
    charge: (state, nowNs, cost, quotas) => ({
      primary: primary.charge(state?.primary ?? null, nowNs, cost, quotas),
      secondary: secondary.charge(
        state?.secondary ?? null,
        nowNs,
        cost,
        quotas.slice(leadingQuotas),
      ),
    }),
    refund: (state, nowNs, cost) =>
      either(
        state,
        primary.refund(state.primary, nowNs, cost),
        secondary.refund(state.secondary, nowNs, cost),
      ),
    lifeNsMax: primary.lifeNsMax < secondary.lifeNsMax ? primary.lifeNsMax : secondary.lifeNsMax,
    lifeNs: (charged, nowNs) => {
      const primaryNs = primary.lifeNs(charged.primary, nowNs);
      const secondaryNs = secondary.lifeNs(charged.secondary, nowNs);
      return primaryNs < secondaryNs ? primaryNs : secondaryNs;
    },
    missing: (state, nowNs) =>
      Math.min(primary.missing(state.primary, nowNs), secondary.missing(state.secondary, nowNs)),
    giveBack: (state, nowNs, given) =>
      either(
        state,
        primary.giveBack(state.primary, nowNs, { ...given, charged: given.charged.primary }),
        secondary.giveBack(state.secondary, nowNs, { ...given, charged: given.charged.secondary }),
      ),
    owe: (state, nowNs, owed) =>
      either(
        state,
        primary.owe(state.primary, nowNs, { ...owed, charged: owed.charged.primary }),
        secondary.owe(state.secondary, nowNs, { ...owed, charged: owed.charged.secondary }),
      ),
    amend: (state, by) => ({
      primary: primary.amend(state.primary, by),
      secondary: secondary.amend(state.secondary, by),
    }),
    ttlNs: (state, nowNs) => {
      const primaryNs = primary.ttlNs(state.primary, nowNs);
      const secondaryNs = secondary.ttlNs(state.secondary, nowNs);
      return primaryNs > secondaryNs ? primaryNs : secondaryNs;
    },
  };
}

/** A state whose parts were changed, each where it could be; null when neither could. */
function either<Primary, Secondary>(
  state: CompositeState<Primary, Secondary>,
  primary: Primary | null,
  secondary: Secondary | null,
): CompositeState<Primary, Secondary> | null {
  if (primary === null && secondary === null) return null;
  return { primary: primary ?? state.primary, secondary: secondary ?? state.secondary };
}
