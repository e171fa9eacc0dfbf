/** Stored texts of limits, as somebody could set them from outside: written from the table of formats. */
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";

/** A state that is used in part. */
export function anyState(
  configuration: RateLimitConfiguration,
  nowNs: bigint,
  random: () => number,
): string {
  const part = random();
  const agoNs = (spanNs: bigint): bigint => nowNs - BigInt(Math.floor(Number(spanNs) * random()));
  switch (configuration.strategy) {
    case "token_bucket":
      return `12|${Math.floor(configuration.burst * part)}|${nowNs}`;
    case "leaky_bucket":
      return `32|${Math.floor(configuration.burst * part)}|${nowNs}`;
    case "gcra": {
      const intervalNs = BigInt(Math.trunc(1e9 / configuration.rate));
      return `42|${nowNs + BigInt(Math.floor(configuration.burst * part)) * intervalNs}`;
    }
    case "sliding_window": {
      const { limit, windowNs } = configuration;
      const current = Math.floor(limit * part);
      const previous = Math.floor(limit * random());
      return `61|${current}|${previous}|${nowNs - (nowNs % windowNs)}`;
    }
    case "fixed_window": {
      const { quotas } = configuration;
      const fields = quotas.map(({ name, limit, windowNs }) => {
        return `${name}|${1 + Math.floor((limit - 1) * part)}|${agoNs(windowNs)}`;
      });
      return `23|${quotas.length}|${fields.join("|")}`;
    }
    case "composite": {
      const { primary, secondary } = configuration;
      return `51|${anyState(primary, nowNs, random)}$${anyState(secondary, nowNs, random)}`;
    }
  }
}
