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
import { tableOf } from "../table.ts";
import { shownText } from "../text.ts";

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
    .addOption(new Option("--burst <n>", "buckets: requests at once").argParser(wholeArgument(1)))
    .addOption(new Option("--rate <n>", "buckets: requests per second").argParser(positiveArgument))
    .addOption(
      new Option("--limit <n>", "windows: requests per window").argParser(wholeArgument(1)),
    )
    .addOption(
      new Option("--window <duration>", "windows: length of a window").argParser(durationMsOf),
    )
    .addOption(
      new Option(
        "--quota <name=limit/window>",
        "fixed windows: one of several quotas; may be repeated",
      ).argParser(quotaArgument),
    )
    .addOption(
      new Option("--secondary <strategy>", "composite: strategy of its bucket").choices([
        ...BUCKETS,
      ]),
    )
    .addOption(
      new Option("--cost <n>", "cost of the request (default: 1)").argParser(wholeArgument(1)),
    )
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
        const result = await askedOf(invocation, options, request);
        await invocation.output.print({ ...asked, ...resultJson(result) }, () =>
          resultText(invocation.output, result),
        );
        return result.success ? ExitCode.done : ExitCode.refused;
      }),
    );
  addConnectionOptions(command);
}

async function askedOf(
  { client, call }: Invocation,
  { peek, refund }: LimitOptions,
  request: LimitRequest,
): Promise<LimitResult> {
  if (peek === true) return await client.peek(request, call);
  if (refund === true) return await client.refund(request, call);
  return await client.limit(request, call);
}

async function reset(
  { client, call, output }: Invocation,
  asked: { readonly name: string; readonly key: string },
  request: LimitRequest,
): Promise<ExitCode> {
  const wasReset = await client.reset(request, call);
  await output.print({ ...asked, reset: wasReset }, () =>
    wasReset ? output.good("reset") : output.bad("the limit has no state"),
  );
  return wasReset ? ExitCode.done : ExitCode.refused;
}

const resultJson = ({ quotas, ...result }: LimitResult) => ({
  ...result,
  quotas: Object.fromEntries(Object.entries(quotas).map(([name, quota]) => [name, { ...quota }])),
});

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
  const rows = Object.entries(quotas).map(([name, quota]) => [
    shownText(name),
    quota.allowed ? "yes" : "no",
    String(quota.remaining),
    String(quota.limit),
    quota.reset === null ? "never" : shownTime(quota.reset),
  ]);
  if (rows.length < 2) return line;
  const columns = [
    { heading: "QUOTA" },
    { heading: "ALLOWED" },
    { heading: "LEFT", isNumber: true },
    { heading: "LIMIT", isNumber: true },
    { heading: "RESET" },
  ];
  return `${line}\n${tableOf(output, columns, rows)}`;
}

/** A wait for people, rounded up: a caller who waits as long as it says is not refused for a rounded millisecond. */
function shownWait(ms: number): string {
  return shownDuration(ms < 1000 ? ms : Math.ceil(ms / 1000) * 1000);
}
