/** Strategies of rate limits, as flags write them. */
import { InvalidArgumentError } from "commander";
import type {
  BucketStrategy,
  FixedWindowStrategy,
  LimitStrategy,
  Quota,
} from "../wire/edge/limit.ts";
import { durationMsOf } from "./duration.ts";
import { UsageError } from "./failure.ts";

export const BUCKETS = ["token_bucket", "leaky_bucket", "gcra"] as const;
export const STRATEGIES = [...BUCKETS, "fixed_window", "sliding_window", "composite"] as const;

/** The flags that a strategy is made of, as they were read. */
export interface StrategyOptions {
  readonly strategy: (typeof STRATEGIES)[number];
  readonly burst?: number;
  readonly rate?: number;
  readonly limit?: number;
  /** In ms. */
  readonly window?: number;
  readonly quota?: readonly Quota[];
  readonly secondary?: (typeof BUCKETS)[number];
}

type Flag = Exclude<keyof StrategyOptions, "strategy">;

/** The flags that each strategy takes. */
const FLAGS: Readonly<Record<StrategyOptions["strategy"], readonly Flag[]>> = {
  token_bucket: ["burst", "rate"],
  leaky_bucket: ["burst", "rate"],
  gcra: ["burst", "rate"],
  fixed_window: ["limit", "window", "quota"],
  sliding_window: ["limit", "window"],
  composite: ["limit", "window", "quota", "secondary", "burst", "rate"],
};

/**
 * The strategy that flags say. What its numbers may be, the limit itself checks.
 *
 * @throws UsageError `strategy_invalid` when a flag is missing, or is not one of the strategy's
 */
export function strategyOf(options: StrategyOptions): LimitStrategy {
  const { strategy } = options;
  const foreign = (["burst", "rate", "limit", "window", "quota", "secondary"] as const).find(
    (flag) => options[flag] !== undefined && !FLAGS[strategy].includes(flag),
  );
  if (foreign !== undefined) throw invalid(`--${foreign} is not for ${strategy}`);
  switch (strategy) {
    case "fixed_window":
      return fixedWindowOf(options);
    case "sliding_window":
      return { strategy, limit: needed(options, "limit"), windowMs: needed(options, "window") };
    case "composite":
      return {
        strategy,
        primary: fixedWindowOf(options),
        secondary: bucketOf(needed(options, "secondary"), options),
      };
    default:
      return bucketOf(strategy, options);
  }
}

function bucketOf(strategy: BucketStrategy["strategy"], options: StrategyOptions): BucketStrategy {
  return { strategy, burst: needed(options, "burst"), rate: needed(options, "rate") };
}

function fixedWindowOf(options: StrategyOptions): FixedWindowStrategy {
  const { limit, window, quota = [] } = options;
  if (quota.length > 0) {
    if (limit === undefined && window === undefined) {
      return { strategy: "fixed_window", quotas: quota };
    }
    throw invalid("either --quota, or --limit and --window are expected");
  }
  const only = { limit: needed(options, "limit"), windowMs: needed(options, "window") };
  return { strategy: "fixed_window", quotas: [{ name: "default", ...only }] };
}

function needed<Name extends Flag>(
  options: StrategyOptions,
  name: Name,
): NonNullable<StrategyOptions[Name]> {
  const value = options[name];
  if (value === undefined) throw invalid(`--${name} is missing, which ${options.strategy} needs`);
  return value;
}

const invalid = (detail: string): UsageError => new UsageError("strategy_invalid", detail);

/** Collects `--quota minute=10/1m`. @throws InvalidArgumentError */
export function quotaArgument(text: string, before: readonly Quota[] = []): readonly Quota[] {
  const [, name, limit, window] = /^([^=]+)=(\d+)\/(.+)$/.exec(text) ?? [];
  if (name === undefined) {
    throw new InvalidArgumentError("NAME=LIMIT/WINDOW is expected, such as minute=10/1m.");
  }
  return [...before, { name, limit: Number(limit), windowMs: durationMsOf(window!) }];
}
