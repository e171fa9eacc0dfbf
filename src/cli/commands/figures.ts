/** `info` and `stat`: figures of the namespace and of its records, since its objects started and of the last minute. */
import { Option, type Command } from "commander";
import type { InfoFigures } from "../../wire/throttr/info.ts";
import { shownDuration } from "../duration.ts";
import type { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  encodingOf,
  wholeArgument,
  type EncodingOptions,
} from "../options.ts";
import type { Output } from "../output.ts";
import { absent, shownTime } from "../records.ts";
import { listOf, tableOf } from "../table.ts";
import { bytesOfArgument, jsonBytes, shownKey } from "../text.ts";
import { askUsage, askUsages, type Usage } from "../usage.ts";

interface StatOptions extends EncodingOptions {
  readonly limit?: number;
}

/** Records that `stat` shows unless `--limit` says otherwise. */
const SHOWN_MAX = 20;

export function addFigures(program: Command): void {
  addInfo(program);
  addStat(program);
}

function addInfo(program: Command): void {
  const command = program
    .command("info")
    .description("show figures of the namespace")
    .action(
      action<object, []>(async ({ client, output, call }) => {
        const figures = await client.info(call);
        await output.print({ ...figures }, () => infoText(output, figures));
      }),
    );
  addConnectionOptions(command);
}

function infoText(output: Output, figures: InfoFigures): string {
  const { nowSeconds, runningSinceMs } = figures;
  const awakeMs = Math.max(0, nowSeconds * 1000 - runningSinceMs);
  const summary = listOf(output, [
    ["version", figures.version],
    ["time", shownTime(nowSeconds * 1000)],
    ["awake", `${shownDuration(awakeMs)}, since ${shownTime(runningSinceMs)}`],
    ["keys", `${figures.keys}: counters ${figures.counters}, buffers ${figures.buffers}`],
    ["bytes", `counters ${figures.counterBytes}, buffers ${figures.bufferBytes}`],
    ["connections", String(figures.connections)],
    ["channels", `${figures.channels}; subscriptions ${figures.subscriptions}`],
    ["requests", `${figures.requests}, ${figures.requestsPerMinute} a minute`],
    ["received", `${figures.readBytes} B, ${figures.readBytesPerMinute} B a minute`],
    ["sent", `${figures.writeBytes} B, ${figures.writeBytesPerMinute} B a minute`],
  ]);
  const rows = Object.entries(figures.requestsByType)
    .filter(([, { total }]) => total > 0)
    .map(([name, { total, perMinute }]) => [name, String(total), String(perMinute)]);
  if (rows.length === 0) return summary;
  const columns = [
    { heading: "REQUEST" },
    { heading: "TOTAL", isNumber: true },
    { heading: "A MINUTE", isNumber: true },
  ];
  return `${summary}\n\n${tableOf(output, columns, rows)}`;
}

function addStat(program: Command): void {
  const command = program
    .command("stat")
    .description("show how often a record is read and written, or all records, busiest first")
    .argument("[key]")
    .addOption(
      new Option(
        "--limit <n>",
        `without a key: show at most this many (default: ${SHOWN_MAX}; all with --json)`,
      ).argParser(wholeArgument(1)),
    )
    .action(
      action<StatOptions, [string | undefined]>(async (invocation, options, name) =>
        name === undefined
          ? await printAll(invocation, options)
          : await printOne(invocation, bytesOfArgument(name, encodingOf(options))),
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

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

async function printAll(invocation: Invocation, { limit }: StatOptions): Promise<void> {
  const { output, settings, signal } = invocation;
  const usages = await askUsages(settings, signal);
  usages.sort((a, b) => busyness(b.usage) - busyness(a.usage));
  const shown = usages.slice(0, limit ?? (output.isJson ? Infinity : SHOWN_MAX));
  for (const { key, usage } of output.isJson ? shown : []) {
    await output.print({ ...jsonBytes("key", key), ...usage }, () => null);
  }
  const columns = [
    { heading: "KEY" },
    ...["READS", "A MINUTE", "WRITES", "A MINUTE"].map((heading) => ({ heading, isNumber: true })),
  ];
  const rows = shown.map(({ key, usage }) => [
    shownKey(key),
    ...[usage.reads, usage.readsPerMinute, usage.writes, usage.writesPerMinute].map(String),
  ]);
  if (rows.length > 0) await output.text(tableOf(output, columns, rows));
  output.note(output.faint(`${shown.length} of ${usages.length} records`));
}

const busyness = ({ reads, writes }: Usage): number => reads + writes;
