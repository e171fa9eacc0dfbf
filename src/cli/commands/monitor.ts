/**
 * `monitor`: shows the busiest records and the rates of the namespace, again and again.
 *
 * Each view reads INFO and STATS, which walk all records: so the interval has a lower bound.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Option, type Command } from "commander";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions, timerArgument, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { shownTime } from "../records.ts";
import { Rates, type Busy, type Sample } from "../rates.ts";
import { Screen } from "../screen.ts";
import { listOf, tableOf, type Column } from "../table.ts";
import { jsonBytes, shownKey } from "../text.ts";
import { askUsages } from "../usage.ts";

interface MonitorOptions {
  /** In milliseconds. */
  readonly interval: number;
  /** Records in a view. */
  readonly top: number;
  /** Views until the end; without it until Ctrl-C. */
  readonly count?: number;
  /** Which rate makes a record busy. */
  readonly sort: Sort;
}

const SORTS = ["total", "reads", "writes"] as const;
type Sort = (typeof SORTS)[number];

/** Between two views, in milliseconds. */
const INTERVAL_MS = 2000;
/** Each view makes all shards walk all their records. */
const INTERVAL_MS_MIN = 100;
/** Fits on a terminal of 24 rows with the summary above. */
const TOP = 20;
/** Longer keys are cut, so that a record takes one line. */
const SHOWN_KEY_MAX = 48;

/** The columns of a view: rates first, as they are what changes. */
const COLUMNS: readonly Column<Busy>[] = [
  ["KEY", ({ key }) => cut(shownKey(key))],
  ["READS/S", ({ readsPerSecond }) => shownRate(readsPerSecond), "right"],
  ["WRITES/S", ({ writesPerSecond }) => shownRate(writesPerSecond), "right"],
  ["READS", ({ usage }) => usage.reads, "right"],
  ["WRITES", ({ usage }) => usage.writes, "right"],
];

export function addMonitor(program: Command): void {
  const command = program
    .command("monitor")
    .description("watch the busiest records until Ctrl-C")
    .addOption(
      new Option("--interval <duration>", "time between two views")
        .argParser(timerArgument(INTERVAL_MS_MIN))
        .default(INTERVAL_MS, "2s"),
    )
    .option("--top <n>", "number of records to show", wholeArgument(1), TOP)
    .option("--count <n>", "stop after this many views", wholeArgument(1))
    .addOption(new Option("--sort <by>", "sort by").choices([...SORTS]).default("total"))
    .action(
      action<MonitorOptions, []>(async (invocation, options) => {
        using screen = new Screen(invocation.host, invocation.output);
        await watch(invocation, options, screen);
        return invocation.signal.aborted ? ExitCode.interrupted : ExitCode.done;
      }),
    );
  addConnectionOptions(command);
}

/**
 * Shows views until the signal, or until `count` of them. The time of the calls is part of the
 * interval.
 */
async function watch(
  invocation: Invocation,
  { interval, top, count = Infinity, sort }: MonitorOptions,
  screen: Screen,
): Promise<void> {
  const { client, call, output, settings, signal } = invocation;
  const rates = new Rates();
  for (let look = 1; !signal.aborted; look++) {
    const startMs = performance.now();
    // Both at once, so that they describe nearly the same moment.
    const asked = [client.info(call), askUsages(settings, signal)] as const;
    const [figures, usages] = await Promise.all(asked);
    const sample = rates.add(performance.now(), figures, usages);
    const busiest = sample.records
      .toSorted((a, b) => busyness(b, sort) - busyness(a, sort))
      .slice(0, top);
    if (output.isJson) await output.print(sampleJson(sample, busiest), () => null);
    else await screen.show(sampleText(output, sample, busiest));
    if (look >= count) return;
    const restMs = Math.max(0, interval - (performance.now() - startMs));
    // An interruption ends the sleep; the loop ends by itself then.
    await sleep(restMs, undefined, { signal }).catch(() => {});
  }
}

/** The rate by which records are sorted. */
function busyness({ readsPerSecond, writesPerSecond }: Busy, sort: Sort): number {
  if (sort === "reads") return readsPerSecond;
  return sort === "writes" ? writesPerSecond : readsPerSecond + writesPerSecond;
}

/** A view for scripts. Rates have two decimals: more would only be noise. */
const sampleJson = ({ figures, requestsPerSecond }: Sample, busiest: readonly Busy[]) => ({
  atSeconds: figures.nowSeconds,
  keys: figures.keys,
  connections: figures.connections,
  subscriptions: figures.subscriptions,
  requests: figures.requests,
  requestsPerSecond: rounded(requestsPerSecond),
  records: busiest.map(({ key, usage, readsPerSecond, writesPerSecond }) => ({
    ...jsonBytes("key", key),
    reads: usage.reads,
    writes: usage.writes,
    readsPerSecond: rounded(readsPerSecond),
    writesPerSecond: rounded(writesPerSecond),
  })),
});

/** A view for people. */
function sampleText(
  output: Output,
  { figures, requestsPerSecond }: Sample,
  busiest: readonly Busy[],
): string {
  const summary = listOf(output, [
    ["time", shownTime(figures.nowSeconds * 1000)],
    ["requests", `${shownRate(requestsPerSecond)} a second, ${figures.requests} in all`],
    ["keys", String(figures.keys)],
    ["connections", `${figures.connections}; subscriptions ${figures.subscriptions}`],
  ]);
  return `${summary}\n\n${tableOf(output, COLUMNS, busiest)}`;
}

/** A key that fits in its column. */
function cut(text: string): string {
  return text.length > SHOWN_KEY_MAX ? `${text.slice(0, SHOWN_KEY_MAX - 1)}…` : text;
}

/** Two decimals. */
const rounded = (rate: number): number => Math.round(rate * 100) / 100;
/** Two decimals below 10, none above. */
const shownRate = (rate: number): string => rate.toFixed(rate < 10 ? 2 : 0);
