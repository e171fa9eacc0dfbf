/** Random rate limits, and random requests at a pace at which they decide one way or the other. */
import fc from "fast-check";
import type {
  BucketConfiguration,
  FixedWindowConfiguration,
  RateLimitConfiguration,
  SlidingWindowConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";

export const STRATEGIES = [
  "token_bucket",
  "leaky_bucket",
  "gcra",
  "fixed_window",
  "sliding_window",
  "composite",
] as const;
export type StrategyName = RateLimitConfiguration["strategy"];

export interface Request {
  operation: "limit" | "peek" | "refund";
  cost: number;
  /** Time since the request before it. */
  afterNs: bigint;
}

export interface Scenario<Configuration = RateLimitConfiguration> {
  configuration: Configuration;
  requests: Request[];
}

const AWKWARD_RATES = [0.1, 1 / 3, 0.7, 1, 2, 3, 7.3, 1e3, 1e6, 1e9 / 7];
/** Rates and times whose products are exact doubles. */
const EXACT_RATES = [0.5, 1, 2, 4, 8];
const EXACT_STEP_NS = 125_000_000n;

function bucket(
  strategy: BucketConfiguration["strategy"],
  rates: fc.Arbitrary<number>,
): fc.Arbitrary<BucketConfiguration> {
  return fc.record({
    strategy: fc.constant(strategy),
    burst: fc.integer({ min: 1, max: 12 }),
    rate: rates,
  });
}

const anyRate = fc.oneof(
  fc.constantFrom(...AWKWARD_RATES),
  fc.double({ min: 0.01, max: 1e6, noNaN: true }),
);
const exactRate = fc.constantFrom(...EXACT_RATES);

export const windowNs = fc.oneof(
  fc.constantFrom(1n, 2n, 1_000_000_000n, 60_000_000_000n),
  fc.bigInt(1n, 10_000_000_000n),
);
const limit = fc.integer({ min: 1, max: 10 });

const fixedWindow: fc.Arbitrary<FixedWindowConfiguration> = fc
  .uniqueArray(fc.record({ limit, windowNs }), {
    minLength: 1,
    maxLength: 3,
    selector: (quota) => quota.limit / Number(quota.windowNs),
  })
  .map((quotas) => ({
    strategy: "fixed_window",
    quotas: quotas.map((quota, i) => ({ name: `quota-${i}`, ...quota })),
  }));

const slidingWindow: fc.Arbitrary<SlidingWindowConfiguration> = fc.record({
  strategy: fc.constant("sliding_window" as const),
  limit,
  windowNs,
});

function configurationOf(
  strategy: StrategyName,
  rates: fc.Arbitrary<number>,
): fc.Arbitrary<RateLimitConfiguration> {
  switch (strategy) {
    case "fixed_window":
      return fixedWindow;
    case "sliding_window":
      return slidingWindow;
    case "composite":
      return fc.record({
        strategy: fc.constant("composite" as const),
        primary: fixedWindow,
        secondary: fc.oneof(
          bucket("token_bucket", rates),
          bucket("leaky_bucket", rates),
          bucket("gcra", rates),
        ),
      });
    default:
      return bucket(strategy, rates);
  }
}

/** About the time in which a configuration gives one grant back, ns. */
function paceNs(configuration: RateLimitConfiguration): bigint {
  switch (configuration.strategy) {
    case "fixed_window":
      return configuration.quotas[0]!.windowNs;
    case "sliding_window":
      return configuration.windowNs / 2n + 1n;
    case "composite":
      return paceNs(configuration.secondary);
    default:
      return BigInt(Math.ceil(1e9 / configuration.rate));
  }
}

export const cost = fc.oneof(
  { weight: 3, arbitrary: fc.constant(1) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 5 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 14 }) },
);

const thousandths = fc.oneof(
  { weight: 2, arbitrary: fc.constant(0n) },
  { weight: 4, arbitrary: fc.bigInt(0n, 1500n) },
  { weight: 1, arbitrary: fc.bigInt(0n, 9000n) },
);

/**
 * A configuration, and requests that come at about the pace at which it grants.
 *
 * @param isExact all doubles on the way are exact, so that nothing is rounded
 */
export function scenarioArbitrary(strategy: StrategyName, isExact = false): fc.Arbitrary<Scenario> {
  return configurationOf(strategy, isExact ? exactRate : anyRate).chain((configuration) => {
    const pace = paceNs(configuration);
    const anyTime = fc
      .tuple(thousandths, fc.bigInt(0n, 2n))
      .map(([share, extraNs]) => (pace * share) / 1000n + extraNs);
    const exactTime = fc.bigInt(0n, 12n).map((steps) => steps * EXACT_STEP_NS);
    const request = fc.record({
      operation: fc.constantFrom<Request["operation"][]>(
        "limit",
        "limit",
        "limit",
        "peek",
        "refund",
      ),
      cost,
      afterNs: isExact ? exactTime : anyTime,
    });
    return fc.record({
      configuration: fc.constant(configuration),
      requests: fc.array(request, { minLength: 1, maxLength: 40 }),
    });
  });
}
