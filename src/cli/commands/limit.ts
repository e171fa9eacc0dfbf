/**
 * `limit`: checks a rate limit, or peeks at it, refunds it or resets it.
 *
 * It encodes name and key exactly as the `throttr-edge/ratelimit` library does, so a limit checked here is the limit
 * that an application checks.
 */
import { Option, type Command } from "commander";
import { encodeKey } from "../../ratelimit/key.ts";
import type { LimitResult } from "../../wire/edge/limit.ts";
import type { LimitRequest } from "../../wire/edge/operations.ts";
import { durationMsOf, shownDuration } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  idempotencyOption,
  onceOf,
  positiveArgument,
  wholeArgument,
  type OnceOptions,
} from "../options.ts";
import type { Output } from "../output.ts";
import { shownTime } from "../records.ts";
import {
  BUCKETS,
  quotaArgument,
  STRATEGIES,
  strategyOf,
  type StrategyOptions,
} from "../strategy.ts";
import { tableOf, type Column } from "../table.ts";
import { shownText } from "../text.ts";

/** At most one of `--peek`, `--refund` and `--reset` is set: commander refuses the others. */
interface LimitOptions extends StrategyOptions, OnceOptions {
  readonly cost?: number;
  readonly peek?: boolean;
  readonly refund?: boolean;
  readonly reset?: boolean;
}

const EXAMPLES = `
Examples:
  throttr-edge limit api ada --strategy token_bucket --burst 10 --rate 2
  throttr-edge limit api ada --strategy fixed_window --quota minute=10/1m --quota day=1000/1d
  throttr-edge limit api ada --strategy sliding_window --limit 100 --window 1h --cost 5
  throttr-edge limit api ada --strategy composite --limit 1000 --window 1d --secondary gcra --burst 5 --rate 1`;

export function addLimit(program: Command): void {
  const command = program
    .command("limit")
    .description("check a rate limit; exits with 1 if it refuses")
    .argument("<name>", "name of the limit")
    .argument("<who>", "key of the limit, such as a user: any text")
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
    )
    .option("--cost <n>", "cost of the request (default: 1)", wholeArgument(1))
    .addOption(new Option("--peek", "show the state without charging anything").conflicts(["cost"]))
    .addOption(new Option("--refund", "give the cost back").conflicts(["peek"]))
    .addOption(new Option("--reset", "delete its state").conflicts(["peek", "refund", "cost"]))
    .addOption(idempotencyOption())
    .addHelpText("after", EXAMPLES)
    .action(
      action<LimitOptions, [string, string]>(async (invocation, options, name, text) => {
        const key = await encodeKey(text);
        const { cost } = options;
        const request: LimitRequest = {
          name,
          key,
          strategy: strategyOf(options),
          ...(cost === undefined ? {} : { cost }),
          ...onceOf(options),
        };
        const asked = { name, key: text };
        if (options.reset === true) return await reset(invocation, asked, request);
        const { peek, refund } = options;
        const method = peek === true ? "peek" : refund === true ? "refund" : "limit";
        const result = await invocation.client[method](request, invocation.call);
        await invocation.output.print({ ...asked, ...resultJson(result) }, () =>
          resultText(invocation.output, result),
        );
        return result.success ? ExitCode.done : ExitCode.refused;
      }),
    );
  addConnectionOptions(command);
}

async function reset(
  { client, call, output }: Invocation,
  asked: { readonly name: string; readonly key: string },
  request: LimitRequest,
): Promise<ExitCode> {
  const wasReset = await client.reset(request, call);
  const json = { ...asked, reset: wasReset };
  return await output.outcome(json, wasReset, "reset", "the limit has no state");
}

/** A result for scripts, in the fields of the library. */
const resultJson = ({ quotas, ...result }: LimitResult) => ({
  ...result,
  quotas: Object.fromEntries(Object.entries(quotas).map(([name, quota]) => [name, { ...quota }])),
});

/** A result for people: one line, and a table where the limit has several quotas. */
function resultText(output: Output, result: LimitResult): string {
  const { success, remaining, limit, reset: resetMs, retryAfterMs, reason, quotas } = result;
  const room = `${remaining} of ${limit} left`;
  const never =
    reason === undefined ? "waiting does not help" : "the cost is above the limit's capacity";
  const wait = retryAfterMs === null ? never : `retry in ${shownWait(retryAfterMs)}`;
  const until = resetMs === null ? "" : `, reset ${shownTime(resetMs)}`;
  const line = success
    ? `${output.good("allowed")}  ${room}${until}`
    : `${output.bad("refused")}  ${room}, ${wait}`;
  const rows = Object.entries(quotas);
  return rows.length < 2 ? line : `${line}\n${tableOf(output, QUOTAS, rows)}`;
}

/** The quotas of a limit that has several. */
const QUOTAS: readonly Column<[string, LimitResult["quotas"][string]]>[] = [
  ["QUOTA", ([name]) => shownText(name)],
  ["ALLOWED", ([, { allowed }]) => (allowed ? "yes" : "no")],
  ["LEFT", ([, { remaining }]) => remaining, "right"],
  ["LIMIT", ([, { limit }]) => limit, "right"],
  ["RESET", ([, { reset }]) => (reset === null ? "never" : shownTime(reset))],
];

/** A wait for people, rounded up: a caller who waits as long as it says is not refused for a rounded millisecond. */
function shownWait(ms: number): string {
  return shownDuration(ms < 1000 ? ms : Math.ceil(ms / 1000) * 1000);
}
