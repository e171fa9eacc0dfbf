/**
 * `limit`: checks a rate limit, or peeks at it, refunds it or resets it.
 *
 * It encodes name and key exactly as the `throttr-edge/ratelimit` library does, so a limit checked here is the limit
 * that an application checks.
 */
import { Option, type Command } from "commander";
import { encodeKey } from "../../ratelimit/key.ts";
import type { LimitDurability, LimitRequest } from "../../wire/edge/operations.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  idempotencyOption,
  onceOf,
  wholeArgument,
  type OnceOptions,
} from "../options.ts";
import { resultJson, resultText } from "../limit-result.ts";
import { addNames, addStrategyOptions, strategyOf, type StrategyOptions } from "../strategy.ts";

/** At most one of `--peek`, `--refund` and `--reset` is set: commander refuses the others. */
interface LimitOptions extends StrategyOptions, OnceOptions {
  readonly cost?: number;
  readonly durability?: LimitDurability;
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
  const command = addStrategyOptions(addNames(program.command("limit")))
    .description("check a rate limit; exits with 1 if it refuses")
    .option("--cost <n>", "cost of the request (default: 1)", wholeArgument(1))
    .addOption(
      new Option("--durability <durability>", "relaxed: do not wait for the disk").choices([
        "strict",
        "relaxed",
      ] satisfies LimitDurability[]),
    )
    .addOption(new Option("--peek", "show the state without charging anything").conflicts(["cost"]))
    .addOption(new Option("--refund", "give the cost back").conflicts(["peek"]))
    .addOption(
      new Option("--reset", "delete its state").conflicts(["peek", "refund", "cost", "durability"]),
    )
    .addOption(idempotencyOption())
    .addHelpText("after", EXAMPLES)
    .action(
      action<LimitOptions, [string, string]>(async (invocation, options, name, text) => {
        const key = await encodeKey(text);
        const { cost, durability } = options;
        const request: LimitRequest = {
          name,
          key,
          strategy: strategyOf(options),
          ...(cost === undefined ? {} : { cost }),
          ...(durability === undefined ? {} : { durability }),
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
