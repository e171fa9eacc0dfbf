/**
 * `draw`: takes units of a rate limit ahead, for a script that then decides by itself.
 *
 * The units are charged before this command prints them. So a script that dies, or that spends them late, never makes
 * the limit admit more than it allows.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { encodeKey } from "../../ratelimit/key.ts";
import type { DrawReturn, DrawResult } from "../../wire/edge/draw.ts";
import { LEASE_MS } from "../../wire/edge/drawn.ts";
import { durationMsOf, shownDuration } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action } from "../invocation.ts";
import { resultJson, resultText, shownWait } from "../limit-result.ts";
import { addConnectionOptions, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { addNames, addStrategyOptions, strategyOf, type StrategyOptions } from "../strategy.ts";

interface DrawOptions extends StrategyOptions {
  readonly cost: number;
  readonly wanted: number;
  /** In milliseconds. */
  readonly lease: number;
  readonly return?: readonly DrawReturn[];
  readonly granted: number;
  readonly refused: number;
}

const EXAMPLES = `
Examples:
  throttr-edge draw api ada --wanted 50 --strategy token_bucket --burst 100 --rate 50
  throttr-edge draw api ada --cost 0 --return 8137=20 --granted 30 --strategy token_bucket --burst 100 --rate 50

Spend the units within the time that is printed, counted from before the command ran. Do not repeat a draw that
failed: its units may have been charged.`;

export function addDraw(program: Command): void {
  const command = addStrategyOptions(addNames(program.command("draw")))
    .description("draw units of a rate limit, to spend them without a call for each")
    .option("--cost <n>", "units needed now; 0: only draw ahead or give back", wholeArgument(0), 1)
    .option(
      "--wanted <n>",
      "units expected to be needed; at most a quarter of what is left is drawn for them",
      wholeArgument(0),
      0,
    )
    .addOption(
      new Option("--lease <duration>", "longest life of the units")
        .argParser(durationMsOf)
        .default(LEASE_MS, shownDuration(LEASE_MS)),
    )
    .addOption(
      new Option(
        "--return <draw=units>",
        "give back what was not spent of an earlier draw; may be repeated",
      ).argParser(returnArgument),
    )
    .option(
      "--granted <n>",
      "requests granted from units since the last draw, for the figures",
      wholeArgument(0),
      0,
    )
    .option("--refused <n>", "requests refused by the caller since then", wholeArgument(0), 0)
    .addHelpText("after", EXAMPLES)
    .action(
      action<DrawOptions, [string, string]>(async (invocation, options, name, text) => {
        const result = await invocation.client.draw(
          {
            name,
            key: await encodeKey(text),
            strategy: strategyOf(options),
            cost: options.cost,
            wanted: options.wanted,
            leaseMs: options.lease,
            returns: options.return ?? [],
            granted: options.granted,
            refused: options.refused,
          },
          invocation.call,
        );
        await invocation.output.print({ name, key: text, ...resultJson(result) }, () =>
          textOf(invocation.output, result),
        );
        return result.success ? ExitCode.done : ExitCode.refused;
      }),
    );
  addConnectionOptions(command);
}

/** The result of the cost, and below it the units, or when to draw again. */
const textOf = (output: Output, result: DrawResult): string =>
  `${resultText(output, result)}\n${unitsText(result)}`;

function unitsText({ units, draw, lifeMs, pauseMs }: DrawResult): string {
  if (draw !== null) {
    const life = shownDuration(Math.floor(lifeMs));
    return `drew ${units} ${units === 1 ? "unit" : "units"} for ${life}: draw ${draw}`;
  }
  return pauseMs === 0
    ? "nothing drawn"
    : `nothing drawn, draw again in ${shownWait(Math.ceil(pauseMs))}`;
}

/** Collects `--return 8137=20`. @throws InvalidArgumentError */
function returnArgument(text: string, before: readonly DrawReturn[] = []): readonly DrawReturn[] {
  const [, draw, units] = /^(\d+)=(\d+)$/.exec(text) ?? [];
  if (draw === undefined) {
    throw new InvalidArgumentError("Expected DRAW=UNITS, such as 8137=20.");
  }
  return [...before, { draw: Number(draw), units: Number(units) }];
}
