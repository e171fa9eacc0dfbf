/** `info` and `stat`: figures of the namespace and of its records, in all and of the last minute. */
import type { Command } from "commander";
import type { InfoFigures } from "../../wire/throttr/info.ts";
import { shownDuration } from "../duration.ts";
import type { ExitCode } from "../exit-code.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import { printRows, type Listing } from "../listing.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  wholeArgument,
  type EncodingOptions,
} from "../options.ts";
import type { Output } from "../output.ts";
import { askServer } from "../server-request.ts";
import { absent, shownTime } from "../records.ts";
import { listOf, tableOf, type Column } from "../table.ts";
import { cut, jsonBytes, shownKey } from "../text.ts";
import { askUsage, askUsages, type RecordUsage, type Usage } from "../usage.ts";

interface StatOptions extends EncodingOptions {
  readonly limit?: number;
}

/** Records that `stat` shows unless `--limit` says otherwise. */
const SHOWN_MAX = 20;
/** What the columns behind the key take, with figures of five digits or so. */
const FIGURES_WIDTH = 40;
/** Of a key that is cut at least this much is shown. */
const SHOWN_KEY_MIN = 20;

/** The commands of this file, in the order of `--help`. */
export const FIGURES: readonly AddCommand[] = [addInfo, addStat];

function addInfo(program: Command): void {
  const command = program
    .command("info")
    .description("show figures of the namespace")
    .action(
      action<object, []>(async ({ settings, output, signal }) => {
        // Not the request INFO, whose reply has no room for the commands that the calls of clients are made of.
        const request = { path: "/v1/info", token: settings.token, field: "requestsByType" };
        const answer = (await askServer(settings, request, signal)) as unknown as InfoFigures;
        // Scripts may read what INFO counts as `other`: there is none. 0.6 leaves it out.
        const other = { total: 0, perMinute: 0 };
        const figures = { ...answer, requestsByType: { ...answer.requestsByType, other } };
        await output.print(figures, () => infoText(output, figures));
      }),
    );
  addConnectionOptions(command);
}

/** The figures of INFO for people, without the requests that never came. */
function infoText(output: Output, figures: InfoFigures): string {
  const { nowSeconds, runningSinceMs } = figures;
  const countedMs = Math.max(0, nowSeconds * 1000 - runningSinceMs);
  const summary = listOf(output, [
    ["version", figures.version],
    ["time", shownTime(nowSeconds * 1000)],
    ["counting", `for ${shownDuration(countedMs)}, since ${shownTime(runningSinceMs)}`],
    ["keys", `${figures.keys}: counters ${figures.counters}, buffers ${figures.buffers}`],
    ["bytes", `counters ${figures.counterBytes}, buffers ${figures.bufferBytes}`],
    ["connections", String(figures.connections)],
    ["channels", `${figures.channels}; subscriptions ${figures.subscriptions}`],
    ["requests", `${figures.requests}, ${figures.requestsPerMinute} a minute`],
    ["received", `${figures.readBytes} B, ${figures.readBytesPerMinute} B a minute`],
    ["sent", `${figures.writeBytes} B, ${figures.writeBytesPerMinute} B a minute`],
  ]);
  const rows = Object.entries(figures.requestsByType).filter(([, { total }]) => total > 0);
  return rows.length === 0 ? summary : `${summary}\n\n${tableOf(output, REQUESTS, rows)}`;
}

/** The requests of each name: in all, and in the last minute. */
const REQUESTS: readonly Column<[string, InfoFigures["requestsByType"][string]]>[] = [
  ["REQUEST", ([name]) => name],
  ["TOTAL", ([, { total }]) => total, "right"],
  ["A MINUTE", ([, { perMinute }]) => perMinute, "right"],
];

/** The listing of `stat` without a key. On a terminal one long key would push the figures of all records out of their lines. */
export const usageListing = ({ isTerminal, columns }: Output): Listing<RecordUsage> => ({
  json: ({ key, usage }) => ({ ...jsonBytes("key", key), ...usage }),
  columns: [
    [
      "KEY",
      ({ key }) => {
        const shown = shownKey(key);
        return isTerminal ? cut(shown, Math.max(columns - FIGURES_WIDTH, SHOWN_KEY_MIN)) : shown;
      },
    ],
    ["READS", ({ usage }) => usage.reads, "right"],
    ["A MINUTE", ({ usage }) => usage.readsPerMinute, "right"],
    ["WRITES", ({ usage }) => usage.writes, "right"],
    ["A MINUTE", ({ usage }) => usage.writesPerMinute, "right"],
  ],
});

function addStat(program: Command): void {
  const command = program
    .command("stat")
    .description("show how often a record is read and written, or all records, busiest first")
    .argument("[key]")
    .option(
      "--limit <n>",
      `without a key: show at most this many (default: ${SHOWN_MAX}; all with --json)`,
      wholeArgument(1),
    )
    .action(
      action<StatOptions, [string | undefined]>(async (invocation, options, name) =>
        name === undefined
          ? await printAll(invocation, options)
          : await printOne(invocation, bytesGiven(name, options)),
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

/** The usage of one record. */
async function printOne(invocation: Invocation, key: Uint8Array): Promise<ExitCode | void> {
  const { output, settings, signal } = invocation;
  const usage = await askUsage(settings, key, signal);
  if (usage === null) return await absent(output, key);
  await output.print({ ...jsonBytes("key", key), found: true, ...usage }, () =>
    listOf(output, [
      ["reads", `${usage.reads}, ${usage.readsPerMinute} a minute`],
      ["writes", `${usage.writes}, ${usage.writesPerMinute} a minute`],
    ]),
  );
}

/** The usage of all records, busiest first. The server has no order for them, so all are read. */
async function printAll(invocation: Invocation, { limit }: StatOptions): Promise<void> {
  const { output, settings, signal } = invocation;
  const usages = await askUsages(settings, signal);
  usages.sort((a, b) => busyness(b.usage) - busyness(a.usage));
  const shown = usages.slice(0, limit ?? (output.isJson ? Infinity : SHOWN_MAX));
  if (shown.length > 0) await printRows(output, usageListing(output), shown);
  output.note(output.faint(`${shown.length} of ${usages.length} records`));
}

/** Reads and writes since the shard started. */
const busyness = ({ reads, writes }: Usage): number => reads + writes;
