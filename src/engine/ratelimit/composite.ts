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
    refund: (state, nowNs, cost) => {
      const primaryState = primary.refund(state.primary, nowNs, cost);
      const secondaryState = secondary.refund(state.secondary, nowNs, cost);
      if (primaryState === null && secondaryState === null) return null;
      return {
        primary: primaryState ?? state.primary,
        secondary: secondaryState ?? state.secondary,
      };
    },
    lifeNsMax: primary.lifeNsMax < secondary.lifeNsMax ? primary.lifeNsMax : secondary.lifeNsMax,
    lifeNs: (charged, nowNs) => {
      const primaryNs = primary.lifeNs(charged.primary, nowNs);
      const secondaryNs = secondary.lifeNs(charged.secondary, nowNs);
      return primaryNs < secondaryNs ? primaryNs : secondaryNs;
    },
    missing: (state, nowNs) =>
      Math.min(primary.missing(state.primary, nowNs), secondary.missing(state.secondary, nowNs)),
    giveBack: (state, nowNs, given) => {
      const { charged } = given;
      const primaryState = primary.giveBack(state.primary, nowNs, {
        ...given,
        charged: charged.primary,
      });
      const secondaryState = secondary.giveBack(state.secondary, nowNs, {
        ...given,
        charged: charged.secondary,
      });
      if (primaryState === null && secondaryState === null) return null;
      return {
        primary: primaryState ?? state.primary,
        secondary: secondaryState ?? state.secondary,
      };
    },
    ttlNs: (state, nowNs) => {
      const primaryNs = primary.ttlNs(state.primary, nowNs);
      const secondaryNs = secondary.ttlNs(state.secondary, nowNs);
      return primaryNs > secondaryNs ? primaryNs : secondaryNs;
    },
  };
}
