/** What a strategy lets through, as header fields tell it: a quota in a window, under a name. */
import { configurationOf, type BucketStrategy, type LimitStrategy } from "../../wire/edge/limit.ts";
import { resultNames } from "../../wire/ratelimit/names.ts";

/** One of the limits of a strategy. */
export interface Policy {
  /** What clients know it by: that of the quota, or of the limiter where the strategy has one limit. */
  readonly name: string;
  /** Key of its result in `quotas`. */
  readonly resultName: string;
  readonly limit: number;
  /** Of a bucket, the time in which it fills. */
  readonly windowMs: number;
  /** Of a bucket, the time after which one more is free; null for a window, which ends at once. */
  readonly stepMs: number | null;
}

const DEFAULT_NAME = "default";

/** The policies of a limiter, in the order of its results. */
export function policiesOf(limiterName: string, strategy: LimitStrategy): Policy[] {
  const names = resultNames(configurationOf(strategy));
  return sizesOf(strategy).map((size, i) => {
    const resultName = names[i]!;
    // A quota among several may be called that, too.
    const isUnnamed = names.length === 1 && resultName === DEFAULT_NAME;
    return { name: isUnnamed ? limiterName : resultName, resultName, ...size };
  });
}

type Size = Pick<Policy, "limit" | "windowMs" | "stepMs">;

function sizesOf(strategy: LimitStrategy): Size[] {
  switch (strategy.strategy) {
    case "fixed_window":
      return strategy.quotas.map(({ limit, windowMs }) => ({ limit, windowMs, stepMs: null }));
    case "sliding_window":
      return [{ limit: strategy.limit, windowMs: strategy.windowMs, stepMs: null }];
    case "composite":
      return [...sizesOf(strategy.primary), bucketSizeOf(strategy.secondary)];
    default:
      return [bucketSizeOf(strategy)];
  }
}

function bucketSizeOf({ burst, rate }: BucketStrategy): Size {
  return { limit: burst, windowMs: (burst / rate) * 1_000, stepMs: 1_000 / rate };
}
