/**
 * Rate limit strategies as flags spell them.
 *
 * Only which flags belong to a strategy is checked here. The ranges of their numbers are checked by the limit
 * operation itself, so the command line and the library refuse the same values with the same words.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import type {
  BucketStrategy,
  FixedWindowStrategy,
  LimitStrategy,
  Quota,
} from "../wire/edge/limit.ts";
import { durationMsOf } from "./duration.ts";
import { UsageError } from "./failure.ts";
import { positiveArgument, wholeArgument } from "./options.ts";

/** Strategies with a burst and a rate. */
export const BUCKETS = ["token_bucket", "leaky_bucket", "gcra"] as const;
/** Strategies with a limit and a window. */
export const WINDOWS = ["fixed_window", "sliding_window"] as const;
/** All strategies, as `--strategy` names them. */
export const STRATEGIES = [...BUCKETS, ...WINDOWS, "composite"] as const;

export type BucketName = (typeof BUCKETS)[number];
export type WindowName = (typeof WINDOWS)[number];

/** The flags that describe a strategy, as parsed. */
export interface StrategyOptions {
  readonly strategy: (typeof STRATEGIES)[number];
  readonly burst?: number;
  readonly rate?: number;
  readonly limit?: number;
  /** In milliseconds. */
  readonly window?: number;
  readonly quota?: readonly Quota[];
  readonly secondary?: BucketName;
}

/** Adds the arguments that name a limit. */
export function addNames(command: Command): Command {
  return command
    .argument("<name>", "name of the limit")
    .argument("<who>", "key of the limit, such as a user: any text");
}

/** Adds the flags that describe a strategy. */
export function addStrategyOptions(command: Command): Command {
  return command
    .addOption(new Option("--strategy <strategy>").choices([...STRATEGIES]).makeOptionMandatory())
    .option("--burst <n>", "buckets: requests at once", wholeArgument(1))
    .option("--rate <n>", "buckets: requests per second", positiveArgument)
    .option("--limit <n>", "windows: requests per window", wholeArgument(1))
    .option("--window <duration>", "windows: length of a window", durationMsOf)
    .option(
      "--quota <name=limit/window>",
      "fixed windows: one of several quotas; may be repeated",
      quotaArgument,
    )
    .addOption(
      new Option("--secondary <strategy>", "composite: strategy of its bucket").choices([
        ...BUCKETS,
      ]),
    );
}

/** Flags that describe a strategy. */
type Flag = Exclude<keyof StrategyOptions, "strategy">;

/** The flags that each strategy accepts. */
const FLAGS: Readonly<Record<StrategyOptions["strategy"], readonly Flag[]>> = {
  token_bucket: ["burst", "rate"],
  leaky_bucket: ["burst", "rate"],
  gcra: ["burst", "rate"],
  fixed_window: ["limit", "window", "quota"],
  sliding_window: ["limit", "window"],
  composite: ["limit", "window", "quota", "secondary", "burst", "rate"],
};

/**
 * Makes a strategy from flags.
 *
 * @throws UsageError `strategy_invalid` if a flag is missing, or does not belong to the strategy
 */
export function strategyOf(options: StrategyOptions): LimitStrategy {
  const { strategy } = options;
  const foreign = (["burst", "rate", "limit", "window", "quota", "secondary"] as const).find(
    (flag) => options[flag] !== undefined && !FLAGS[strategy].includes(flag),
  );
  if (foreign !== undefined) throw invalid(`--${foreign} does not apply to ${strategy}`);
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

/** A bucket from `--burst` and `--rate`. */
function bucketOf(strategy: BucketStrategy["strategy"], options: StrategyOptions): BucketStrategy {
  return { strategy, burst: needed(options, "burst"), rate: needed(options, "rate") };
}

/** Fixed windows: several named quotas, or the one of `--limit` and `--window`. */
function fixedWindowOf(options: StrategyOptions): FixedWindowStrategy {
  const { limit, window, quota = [] } = options;
  if (quota.length > 0) {
    if (limit === undefined && window === undefined) {
      return { strategy: "fixed_window", quotas: quota };
    }
    throw invalid("expected either --quota, or both --limit and --window");
  }
  const only = { limit: needed(options, "limit"), windowMs: needed(options, "window") };
  return { strategy: "fixed_window", quotas: [{ name: "default", ...only }] };
}

/** The value of a flag. @throws UsageError that names the strategy and the flag */
function needed<Name extends Flag>(
  options: StrategyOptions,
  name: Name,
): NonNullable<StrategyOptions[Name]> {
  const value = options[name];
  if (value === undefined) throw invalid(`${options.strategy} needs --${name}`);
  return value;
}

/** The code of all errors of this file. */
const invalid = (detail: string): UsageError => new UsageError("strategy_invalid", detail);

/** Collects `--quota minute=10/1m`. @throws InvalidArgumentError */
export function quotaArgument(text: string, before: readonly Quota[] = []): readonly Quota[] {
  const [, name, limit, window] = /^([^=]+)=(\d+)\/(.+)$/.exec(text) ?? [];
  if (name === undefined) {
    throw new InvalidArgumentError("Expected NAME=LIMIT/WINDOW, such as minute=10/1m.");
  }
  return [...before, { name, limit: Number(limit), windowMs: durationMsOf(window!) }];
}
