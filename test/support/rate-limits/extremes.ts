/** Rate limits at the ends of their ranges, and states that they may find, whoever wrote them. */
import fc from "fast-check";
import type {
  BucketConfiguration,
  FixedWindowConfiguration,
  RateLimitConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";
import { INT64_MAX } from "../../../src/wire/ratelimit/numbers.ts";
import { cost, windowNs, type StrategyName } from "./arbitraries.ts";

const safeInteger = (max: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.integer({ min: 1, max: Math.min(max, 12) }),
    fc.maxSafeNat().map((value) => 1 + (value % max)),
    fc.constant(max),
  );
const int64 = fc.oneof(
  fc.bigInt(-INT64_MAX - 1n, INT64_MAX),
  fc.constantFrom(-INT64_MAX - 1n, INT64_MAX),
);

/** The longest time that a bucket may take to fill, s. */
const FILL_SECONDS_MAX = 1.8e9;

function extremeBucket(
  strategy: BucketConfiguration["strategy"],
): fc.Arbitrary<BucketConfiguration> {
  const rateMax = strategy === "gcra" ? 1e9 : Number.MAX_VALUE;
  const exponent = fc.oneof(
    fc.double({ min: -9, max: 9, noNaN: true }),
    fc.double({ min: -9, max: 308, noNaN: true }),
  );
  return fc.tuple(safeInteger(Number.MAX_SAFE_INTEGER), exponent).map(([burst, exponent]) => ({
    strategy,
    burst,
    rate: Math.min(rateMax, Math.max(10 ** exponent, burst / FILL_SECONDS_MAX)),
  }));
}

const extremeWindow = fc.record({
  limit: safeInteger(Number.MAX_SAFE_INTEGER),
  windowNs: fc.oneof(windowNs, fc.bigInt(1n, INT64_MAX / 5n), fc.constant(INT64_MAX / 5n)),
});
const quotaName = fc.stringMatching(/^[A-Za-z0-9_\-:.@+]{1,64}$/);

const extremeFixedWindow: fc.Arbitrary<FixedWindowConfiguration> = fc
  .tuple(
    fc.uniqueArray(extremeWindow, {
      minLength: 1,
      maxLength: 8,
      comparator: (a, b) => BigInt(a.limit) * b.windowNs === BigInt(b.limit) * a.windowNs,
    }),
    fc.uniqueArray(quotaName, { minLength: 8, maxLength: 8 }),
  )
  .map(([windows, names]) => ({
    strategy: "fixed_window",
    quotas: windows.map((window, i) => ({ name: names[i]!, ...window })),
  }));

/** Any configuration of a strategy, up to the ends of its ranges. */
export function extremeConfiguration(strategy: StrategyName): fc.Arbitrary<RateLimitConfiguration> {
  switch (strategy) {
    case "fixed_window":
      return extremeFixedWindow;
    case "sliding_window":
      return extremeWindow.map((window) => ({ strategy: "sliding_window", ...window }));
    case "composite":
      return fc.record({
        strategy: fc.constant("composite" as const),
        primary: extremeFixedWindow,
        secondary: fc.oneof(
          extremeBucket("token_bucket"),
          extremeBucket("leaky_bucket"),
          extremeBucket("gcra"),
        ),
      });
    default:
      return extremeBucket(strategy);
  }
}

/** About the greatest cost that a configuration grants, and the time in which it does so again, ns. */
function extentOf(configuration: RateLimitConfiguration): { limit: number; spanNs: bigint } {
  switch (configuration.strategy) {
    case "fixed_window":
      return { limit: configuration.quotas[0]!.limit, spanNs: configuration.quotas[0]!.windowNs };
    case "sliding_window":
      return { limit: configuration.limit, spanNs: 2n * configuration.windowNs };
    case "composite":
      return extentOf(configuration.secondary);
    default: {
      const { burst, rate } = configuration;
      return { limit: burst, spanNs: BigInt(Math.ceil((burst / rate) * 1e9)) };
    }
  }
}

/** A state that a limiter of a configuration may find, whoever wrote it, as text; with times about a present. */
function extremeState(configuration: RateLimitConfiguration, nowNs: bigint): fc.Arbitrary<string> {
  const { limit, spanNs } = extentOf(configuration);
  const near = fc.bigInt(-spanNs, spanNs).map((byNs) => nowNs + byNs);
  const time = fc
    .oneof({ weight: 3, arbitrary: near }, { weight: 1, arbitrary: int64 })
    .map((ns) => (ns > INT64_MAX ? INT64_MAX : ns));
  const count = fc.oneof(fc.integer({ min: 0, max: 12 }), safeInteger(limit), fc.maxSafeNat());
  const amount = fc.oneof(
    count,
    fc.double({ min: 0, max: limit, noNaN: true }),
    fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
  );
  switch (configuration.strategy) {
    case "token_bucket":
      return fc.tuple(amount, time).map(([amount, ns]) => `12|${amount}|${ns}`);
    case "leaky_bucket":
      return fc.tuple(amount, time).map(([amount, ns]) => `32|${amount}|${ns}`);
    case "gcra":
      return time.map((ns) => `42|${ns}`);
    case "fixed_window": {
      const { quotas } = configuration;
      return fc
        .tuple(...quotas.map(({ name }) => fc.tuple(fc.constant(name), count, time)))
        .chain((windows) => fc.subarray(windows, { minLength: 1 }))
        .map((windows) => `23|${[windows.length, ...windows.flat()].join("|")}`);
    }
    case "sliding_window":
      return fc.tuple(count, count, time).map((fields) => `61|${fields.join("|")}`);
    case "composite":
      return fc
        .tuple(
          extremeState(configuration.primary, nowNs),
          extremeState(configuration.secondary, nowNs),
        )
        .map(([primary, secondary]) => `51|${primary}$${secondary}`);
  }
}

/** One request to a limiter that may be configured to any extreme, and may find any state. */
export interface Encounter {
  configuration: RateLimitConfiguration;
  stored: string | null;
  /** 0 to 2^62. */
  nowNs: bigint;
  /** Any cost that is no error, though it may be above the limit. */
  cost: number;
}

export function encounterArbitrary(strategy: StrategyName): fc.Arbitrary<Encounter> {
  const present = fc.oneof(
    fc.constant(1761884055342794596n),
    fc.bigInt(0n, 2n ** 62n),
    fc.constantFrom(0n, 2n ** 62n),
  );
  return fc.tuple(extremeConfiguration(strategy), present).chain(([configuration, nowNs]) => {
    const { limit } = extentOf(configuration);
    return fc.record({
      configuration: fc.constant(configuration),
      stored: fc.option(extremeState(configuration, nowNs), { freq: 10 }),
      nowNs: fc.constant(nowNs),
      cost: fc.oneof(cost, safeInteger(limit), safeInteger(Number.MAX_SAFE_INTEGER)),
    });
  });
}
