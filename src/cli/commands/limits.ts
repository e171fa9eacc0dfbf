/** `limits` and `top`: what rate limits have decided, and the keys that come and are refused most often. */
import type { Command } from "commander";
import type {
  HotKey,
  LimitFigures,
  LimitRates,
  OneLimitFigures,
} from "../../wire/limit-figures.ts";
import type { Rate } from "../../wire/overview.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import { addConnectionOptions, wholeArgument } from "../options.ts";
import type { Json, Output } from "../output.ts";
import { shownTime } from "../records.ts";
import { askServer } from "../server-request.ts";
import { listOf, tableOf, type Column } from "../table.ts";
import { shownKey, shownText } from "../text.ts";
import { addWatchOptions, watch, type WatchOptions } from "../watch.ts";

interface LimitsOptions extends WatchOptions {
  readonly watch?: boolean;
}

interface TopOptions extends WatchOptions {
  /** Keys of each of the two tables. */
  readonly top: number;
}

/** Two tables of so many keys fit on a terminal of 24 rows. */
const TOP = 8;

/** The commands of this file, in the order of `--help`. */
export const LIMIT_FIGURES: readonly AddCommand[] = [addLimits, addTop];

type NamedRates = LimitRates & { readonly name: string };
type Key = HotKey & { readonly name?: string };

const LIMITERS: readonly Column<NamedRates>[] = [
  ["LIMITER", ({ name }) => name],
  ["ALLOWED", ({ allowed }) => allowed.total, "right"],
  ["A MINUTE", ({ allowed }) => allowed.perMinute, "right"],
  ["REFUSED", ({ refused }) => refused.total, "right"],
  ["A MINUTE", ({ refused }) => refused.perMinute, "right"],
  ["ERRORS", ({ errors }) => errors.total, "right"],
  ["A MINUTE", ({ errors }) => errors.perMinute, "right"],
  ["LOCAL", ({ local }) => local.total, "right"],
  ["A MINUTE", ({ local }) => local.perMinute, "right"],
];

function addLimits(program: Command): void {
  const command = program
    .command("limits")
    .description("show what rate limits have decided, or one limiter with its hottest keys")
    .argument("[name]", "name of a limiter")
    .option("--watch", "show it again and again until Ctrl-C")
    .action(
      action<LimitsOptions, [string | undefined]>(async (invocation, options, name) => {
        const count = options.watch === true ? options.count : 1;
        const shown = { interval: options.interval, ...(count === undefined ? {} : { count }) };
        return await watch(invocation, shown, async (screen) => {
          const path = name === undefined ? "" : `/${encodeURIComponent(name)}`;
          const answer = await ask(invocation, path);
          if (invocation.output.isJson) return await invocation.output.print(answer, () => null);
          await screen.show(
            name === undefined
              ? textOfAll(invocation.output, answer as unknown as LimitFigures)
              : textOfOne(invocation.output, answer as unknown as OneLimitFigures),
          );
        });
      }),
    );
  addConnectionOptions(addWatchOptions(command));
}

function addTop(program: Command): void {
  const command = program
    .command("top")
    .description("watch the hottest and the most refused keys of rate limits until Ctrl-C")
    .option("--top <n>", "number of keys to show of each", wholeArgument(1), TOP)
    .action(
      action<TopOptions, []>(
        async (invocation, options) =>
          await watch(invocation, options, async (screen) => {
            const { output } = invocation;
            const figures = (await ask(invocation, "")) as unknown as LimitFigures;
            const hottest = figures.hottest.slice(0, options.top);
            const mostRefused = figures.mostRefused.slice(0, options.top);
            const { atMs } = figures;
            if (output.isJson) {
              await output.print({ atMs, hottest, mostRefused } as unknown as Json, () => null);
            } else {
              const time = listOf(output, [["time", shownTime(atMs)]]);
              await screen.show([time, ...keyTables(output, hottest, mostRefused)].join("\n\n"));
            }
          }),
      ),
    );
  addConnectionOptions(addWatchOptions(command));
}

/** Asks the server; shards that did not answer are named beside the figures. */
async function ask(
  { settings, signal, output }: Invocation,
  path: string,
): Promise<Record<string, Json>> {
  const request = { path: `/v1/limits${path}`, token: settings.token, field: "atMs" };
  const answer = await askServer(settings, request, signal);
  const { unreachableShards } = answer as unknown as LimitFigures;
  if (unreachableShards.length > 0) {
    output.note(`shards that did not answer: ${unreachableShards.join(", ")}`);
  }
  return answer;
}

function textOfAll(output: Output, { limits, others }: LimitFigures): string {
  const rows = others === null ? limits : [...limits, { name: "(others)", ...others }];
  return tableOf(output, LIMITERS, rows);
}

function textOfOne(output: Output, figures: OneLimitFigures): string {
  const shown = ({ total, perMinute }: Rate): string => `${total}, ${perMinute} a minute`;
  const summary = listOf(output, [
    ["limiter", figures.name],
    ["allowed", shown(figures.allowed)],
    ["refused", shown(figures.refused)],
    ["errors", shown(figures.errors)],
    ["local", shown(figures.local)],
  ]);
  return [summary, ...keyTables(output, figures.hottest, figures.mostRefused)].join("\n\n");
}

/** A table of the hottest keys and one of the most refused; one without keys is left out. */
function keyTables(output: Output, hottest: readonly Key[], mostRefused: readonly Key[]): string[] {
  const table = (heading: string, keys: readonly Key[]): string[] =>
    keys.length === 0 ? [] : [tableOf(output, columnsOf(heading, keys), keys)];
  return [...table("HOTTEST", hottest), ...table("MOST REFUSED", mostRefused)];
}

/** Counts are upper bounds; what they may be too large by stands beside them. */
function columnsOf(heading: string, keys: readonly Key[]): readonly Column<Key>[] {
  const isNamed = keys.some(({ name }) => name !== undefined);
  return [
    [heading, shownHotKey],
    ...(isNamed ? [["LIMITER", ({ name = "" }: Key) => name] as const] : []),
    ["COUNT", ({ count }) => count, "right"],
    ["ERROR", ({ countErrorMax }) => countErrorMax, "right"],
  ];
}

function shownHotKey({ key, keyBase64 = "" }: Key): string {
  return key === undefined
    ? shownKey(Uint8Array.from(Buffer.from(keyBase64, "base64")))
    : shownText(key);
}
