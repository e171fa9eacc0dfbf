/** `limit-all`: charges several rate limits together, or none where one refuses. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { encodeKey } from "../../ratelimit/key.ts";
import type { LimitResult, LimitStrategy } from "../../wire/edge/limit.ts";
import type { LimitAllResult } from "../../wire/edge/operations.ts";
import { durationMsOf } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action } from "../invocation.ts";
import { resultJson, waitText } from "../limit-result.ts";
import { addConnectionOptions, positiveArgument, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { BUCKETS, WINDOWS, type BucketName, type WindowName } from "../strategy.ts";
import { tableOf, type Column } from "../table.ts";
import { shownText } from "../text.ts";

interface LimitAllOptions {
  readonly cost: number;
  readonly windows: WindowName;
  readonly buckets: BucketName;
}

/** A limit, as an argument names it. */
interface Named {
  readonly name: string;
  readonly key: string;
  /** Limit and window, or burst and rate. */
  readonly quota: { readonly limit: number; readonly windowMs: number } | Bucket;
}

interface Bucket {
  readonly burst: number;
  readonly rate: number;
}

const EXAMPLES = `
Each limit is NAME/WHO=LIMIT/WINDOW, or NAME/WHO=BURST@RATE for a bucket with a rate per second.

Examples:
  throttr-edge limit-all user/ada=10/1m organisation/acme=1000/1h service/all=500@100
  throttr-edge limit-all user/ada=10/1m organisation/acme=1000/1h --windows sliding_window --cost 5

After outcome_unknown (exit code 4) some of the limits may have been charged.`;

export function addLimitAll(program: Command): void {
  const command = program
    .command("limit-all")
    .description("charge several rate limits together, or none; exits with 1 if one refuses")
    .argument("<limits...>", "name/who=limit/window or name/who=burst@rate", namedArgument)
    .option("--cost <n>", "cost of the request, for each limit", wholeArgument(1), 1)
    .addOption(
      new Option("--windows <strategy>", "strategy of limits with a window")
        .choices([...WINDOWS])
        .default(WINDOWS[0]),
    )
    .addOption(
      new Option("--buckets <strategy>", "strategy of limits with a rate")
        .choices([...BUCKETS])
        .default(BUCKETS[0]),
    )
    .addHelpText("after", EXAMPLES)
    .action(
      action<LimitAllOptions, [readonly Named[]]>(async (invocation, options, limits) => {
        const requests = await Promise.all(
          limits.map(async (limit) => ({
            name: limit.name,
            key: await encodeKey(limit.key),
            strategy: strategyOf(limit, options),
            cost: options.cost,
          })),
        );
        const result = await invocation.client.limitAll({ requests }, invocation.call);
        const json = {
          ...result,
          results: result.results.map((one, i) => ({
            name: limits[i]!.name,
            key: limits[i]!.key,
            ...resultJson(one),
          })),
        };
        await invocation.output.print(json, () => textOf(invocation.output, result, limits));
        return result.success ? ExitCode.done : ExitCode.refused;
      }),
    );
  addConnectionOptions(command);
}

/** Collects `user/ada=10/1m`. @throws InvalidArgumentError */
function namedArgument(text: string, before: readonly Named[] = []): readonly Named[] {
  const [, name, key, quota] = /^([^/]+)\/(.+)=([^=]+)$/.exec(text) ?? [];
  const [, count, mark, rest] = /^(\d+)([/@])(.+)$/.exec(quota ?? "") ?? [];
  if (name === undefined || key === undefined || count === undefined) {
    throw new InvalidArgumentError(
      "Expected NAME/WHO=LIMIT/WINDOW or NAME/WHO=BURST@RATE, such as user/ada=10/1m.",
    );
  }
  const amount = wholeArgument(1)(count);
  return [
    ...before,
    {
      name,
      key,
      quota:
        mark === "/"
          ? { limit: amount, windowMs: durationMsOf(rest!) }
          : { burst: amount, rate: positiveArgument(rest!) },
    },
  ];
}

function strategyOf({ quota }: Named, { windows, buckets }: LimitAllOptions): LimitStrategy {
  if ("burst" in quota) return { strategy: buckets, ...quota };
  return windows === "sliding_window"
    ? { strategy: windows, ...quota }
    : { strategy: windows, quotas: [{ name: "default", ...quota }] };
}

/** A line for all limits, and a row for each. */
function textOf(output: Output, result: LimitAllResult, limits: readonly Named[]): string {
  const { refusedBy, retryAfterMs, results } = result;
  const rows = results.map((one, i): Row => ({ ...one, of: limits[i]! }));
  const refusing = refusedBy === null ? null : limits[refusedBy]!;
  const line =
    refusing === null
      ? output.good("allowed")
      : `${output.bad("refused")}  by ${shownText(`${refusing.name}/${refusing.key}`)}, ${waitText(retryAfterMs)}`;
  return `${line}\n${tableOf(output, LIMITS, rows)}`;
}

type Row = LimitResult & { readonly of: Named };

const LIMITS: readonly Column<Row>[] = [
  ["NAME", ({ of }) => shownText(of.name)],
  ["WHO", ({ of }) => shownText(of.key)],
  ["ALLOWED", ({ success }) => (success ? "yes" : "no")],
  ["LEFT", ({ remaining }) => remaining, "right"],
  ["LIMIT", ({ limit }) => limit, "right"],
];
