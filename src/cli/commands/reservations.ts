/** `reserve` and `settle`: charges an estimate to a rate limit, and corrects it when the real cost is known. */
import { Option, type Command } from "commander";
import { encodeKey } from "../../ratelimit/key.ts";
import type { ReserveResult, SettleResult } from "../../wire/edge/operations.ts";
import { RESERVE_TTL_MS } from "../../wire/edge/reservation-bounds.ts";
import { durationMsOf, shownDuration } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type AddCommand } from "../invocation.ts";
import { resultJson, resultText } from "../limit-result.ts";
import { addConnectionOptions, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { addNames, addStrategyOptions, strategyOf, type StrategyOptions } from "../strategy.ts";

/** The commands of this file, in the order of `--help`. */
export const RESERVATIONS: readonly AddCommand[] = [addReserve, addSettle];

interface ReserveOptions extends StrategyOptions {
  readonly cost: number;
  /** In milliseconds. */
  readonly ttl: number;
  readonly id?: string;
}

interface SettleOptions extends StrategyOptions {
  readonly cost: number;
}

const RESERVE_EXAMPLE = `
Example:
  throttr-edge reserve tokens ada --cost 800 --strategy token_bucket --burst 10000 --rate 100
  throttr-edge settle tokens ada ID --cost 523 --strategy token_bucket --burst 10000 --rate 100

What is not settled within --ttl counts as spent.`;

function addReserve(program: Command): void {
  const command = addStrategyOptions(addNames(program.command("reserve")))
    .description("charge an estimate to a rate limit, to be settled; exits with 1 if it refuses")
    .option("--cost <n>", "the estimate", wholeArgument(1), 1)
    .addOption(
      new Option("--ttl <duration>", "how long it may be settled")
        .argParser(durationMsOf)
        .default(RESERVE_TTL_MS, shownDuration(RESERVE_TTL_MS)),
    )
    .option("--id <uuid>", "makes a retry safe: an ID is charged once (default: a new one)")
    .addHelpText("after", RESERVE_EXAMPLE)
    .action(
      action<ReserveOptions, [string, string]>(async (invocation, options, name, text) => {
        const { cost, ttl, id } = options;
        const strategy = strategyOf(options);
        const request = { name, key: await encodeKey(text), strategy, cost, ttlMs: ttl, id };
        const result = await invocation.client.reserve(request, invocation.call);
        await invocation.output.print({ name, key: text, ...resultJson(result) }, () =>
          reservedText(invocation.output, result, ttl),
        );
        return result.success ? ExitCode.done : ExitCode.refused;
      }),
    );
  addConnectionOptions(command);
}

function addSettle(program: Command): void {
  const command = addStrategyOptions(addNames(program.command("settle")))
    .description("settle a reservation with its real cost; 0 releases it")
    .argument("<id>", "ID of the reservation")
    .addOption(
      new Option("--cost <n>", "the real cost, which may be more than was reserved")
        .argParser(wholeArgument(0))
        .makeOptionMandatory(),
    )
    .action(
      action<SettleOptions, [string, string, string]>(
        async (invocation, options, name, text, id) => {
          const key = await encodeKey(text);
          const strategy = strategyOf(options);
          const request = { name, key, strategy, id, cost: options.cost };
          const result = await invocation.client.settle(request, invocation.call);
          await invocation.output.print({ name, key: text, ...resultJson(result) }, () =>
            settledText(result),
          );
          return ExitCode.done;
        },
      ),
    );
  addConnectionOptions(command);
}

function reservedText(output: Output, result: ReserveResult, ttlMs: number): string {
  const text = resultText(output, result);
  return result.id === null
    ? text
    : `${text}\nreservation ${result.id}, to be settled within ${shownDuration(ttlMs)}`;
}

const settledText = ({ settled, remaining, limit }: SettleResult): string =>
  `settled with ${settled}: ${remaining} of ${limit} left`;
