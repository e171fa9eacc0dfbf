/** Random limits of each strategy, as callers send them. */
import fc from "fast-check";
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";

/** What their numbers are drawn from. */
export interface LimitNumbers {
  /** Of limits and bursts. */
  readonly limit: fc.Arbitrary<number>;
  readonly rate: fc.Arbitrary<number>;
  readonly windowMs: fc.Arbitrary<number>;
}

/** Each with its name for titles. */
export function strategiesOf({
  limit,
  rate,
  windowMs,
}: LimitNumbers): readonly [name: string, strategies: fc.Arbitrary<LimitStrategy>][] {
  const bucketOf = (strategy: "token_bucket" | "leaky_bucket" | "gcra") =>
    fc.record({ strategy: fc.constant(strategy), burst: limit, rate });
  const fixed = fc
    .tuple(limit, windowMs, limit, windowMs)
    .filter(([a, aMs, b, bMs]) => a * bMs !== b * aMs)
    .map(([a, aMs, b, bMs]) => ({
      strategy: "fixed_window" as const,
      quotas: [
        { name: "a", limit: a, windowMs: aMs },
        { name: "b", limit: b, windowMs: bMs },
      ],
    }));
  return [
    ["token bucket", bucketOf("token_bucket")],
    ["leaky bucket", bucketOf("leaky_bucket")],
    ["GCRA", bucketOf("gcra")],
    ["fixed windows", fixed],
    ["sliding window", fc.record({ strategy: fc.constant("sliding_window"), limit, windowMs })],
    [
      "composite",
      fc.record({
        strategy: fc.constant("composite"),
        primary: fixed,
        secondary: bucketOf("token_bucket"),
      }),
    ],
  ];
}
