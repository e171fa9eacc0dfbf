/**
 * GCRA: requests arrive every `1 / rate` seconds in theory, and may come early by `burst` such intervals.
 *
 * Source: rate limit reference, "Algorithms". All times are exact; the interval is in whole nanoseconds.
 */
import { bucketTtlSeconds, type BucketConfiguration } from "../../wire/ratelimit/configuration.ts";
import { gcraCodec } from "../../wire/ratelimit/gcra-state.ts";
import { upToEnd } from "./moments.ts";
import { bucketLifeNsMax, type Strategy } from "./strategy.ts";

/** The state is the theoretical arrival time of the next request. */
export function gcra({ burst, rate }: BucketConfiguration): Strategy<bigint> {
  const ttlNs = BigInt(bucketTtlSeconds(burst, rate)) * 1_000_000_000n;
  const lifeNsMax = bucketLifeNsMax(burst, rate);
  const emission = Math.trunc(1e9 / rate);
  const emissionNs = BigInt(emission);
  const limitNs = BigInt(burst) * emissionNs;

  const arrivalAt = (arrivalNs: bigint | null, nowNs: bigint): bigint =>
    arrivalNs !== null && arrivalNs > nowNs ? arrivalNs : nowNs;

  return {
    codec: gcraCodec,
    leadingQuotas: 1,
    judge: (state, nowNs, cost) => {
      const arrivalNs = arrivalAt(state, nowNs);
      const nextNs = arrivalNs + BigInt(cost) * emissionNs;
      const roomNs = limitNs - (arrivalNs - nowNs);
      const allowed = nextNs - nowNs <= limitNs;
      const resetNs = allowed ? nextNs + limitNs : nextNs - limitNs;
      return [
        {
          allowed,
          limit: burst,
          remaining: roomNs > 0n ? Number(roomNs / emissionNs) : 0,
          resetNs: cost > burst ? null : upToEnd(resetNs),
        },
      ];
    },
    charge: (state, nowNs, cost, [quota]) => {
      quota!.remaining -= cost;
      return arrivalAt(state, nowNs) + BigInt(cost) * emissionNs;
    },
    refund: (arrivalNs, nowNs, cost) => {
      if (arrivalNs <= nowNs) return null;
      return arrivalAt(arrivalNs - BigInt(cost) * emissionNs, nowNs);
    },
    lifeNsMax,
    lifeNs: () => lifeNsMax,
    missing: (arrivalNs, nowNs) => Number(arrivalAt(arrivalNs, nowNs) - nowNs) / emission,
    giveBack: (arrivalNs, nowNs, { units, right }) => {
      if (arrivalNs <= nowNs) return null;
      // A right is a whole number of ns: a product that a double rounds down would leave one of them charged.
      const givenNs =
        units <= right ? BigInt(units) * emissionNs : BigInt(Math.round(right * emission));
      return arrivalAt(arrivalNs - givenNs, nowNs);
    },
    owe: (arrivalNs, nowNs, { units }) =>
      upToEnd(arrivalAt(arrivalNs, nowNs) + BigInt(units) * emissionNs),
    amend: (arrivalNs, by) => upToEnd(arrivalNs + BigInt(by) * emissionNs),
    ttlNs: (arrivalNs, nowNs) => {
      const freshNs = arrivalNs - nowNs;
      return freshNs > ttlNs ? freshNs : ttlNs;
    },
  };
}
