/**
 * `monitor`: shows the busiest records and the rates of the namespace, again and again.
 *
 * Each view reads INFO and STATS, which walk all records: so the interval has a lower bound.
 */
import { Option, type Command } from "commander";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { shownTime } from "../records.ts";
import { Rates, type Busy, type Sample } from "../rates.ts";
import type { Screen } from "../screen.ts";
import { listOf, tableOf, type Column } from "../table.ts";
import { cut, jsonBytes, shownKey } from "../text.ts";
import { askUsages } from "../usage.ts";
import { addWatchOptions, watch, type WatchOptions } from "../watch.ts";

interface MonitorOptions extends WatchOptions {
  /** Records in a view. */
  readonly top: number;
  /** Which rate makes a record busy. */
  readonly sort: Sort;
}

const SORTS = ["total", "reads", "writes"] as const;
type Sort = (typeof SORTS)[number];

/** Fits on a terminal of 24 rows with the summary above. */
const TOP = 20;
/** Longer keys are cut, so that a record takes one line. */
const SHOWN_KEY_MAX = 48;

/** The columns of a view: rates first, as they are what changes. */
const COLUMNS: readonly Column<Busy>[] = [
  ["KEY", ({ key }) => cut(shownKey(key), SHOWN_KEY_MAX)],
  ["READS/S", ({ readsPerSecond }) => shownRate(readsPerSecond), "right"],
  ["WRITES/S", ({ writesPerSecond }) => shownRate(writesPerSecond), "right"],
  ["READS", ({ usage }) => usage.reads, "right"],
  ["WRITES", ({ usage }) => usage.writes, "right"],
];

export function addMonitor(program: Command): void {
  const command = program
    .command("monitor")
    .description("watch the busiest records until Ctrl-C")
    .option("--top <n>", "number of records to show", wholeArgument(1), TOP)
    .addOption(new Option("--sort <by>", "sort by").choices([...SORTS]).default("total"))
    .action(
      action<MonitorOptions, []>(async (invocation, options) => {
        const rates = new Rates();
        return await watch(invocation, options, (screen) =>
          showView(invocation, options, rates, screen),
        );
      }),
    );
  addConnectionOptions(addWatchOptions(command));
}

/** Asks for figures and records, and shows the busiest. */
async function showView(
  { client, call, output, settings, signal }: Invocation,
  { top, sort }: MonitorOptions,
  rates: Rates,
  screen: Screen,
): Promise<void> {
  // Both at once, so that they describe nearly the same moment.
  const asked = [client.info(call), askUsages(settings, signal)] as const;
  const [figures, usages] = await Promise.all(asked);
  const sample = rates.add(performance.now(), figures, usages);
  const busiest = sample.records
    .toSorted((a, b) => busyness(b, sort) - busyness(a, sort))
    .slice(0, top);
  if (output.isJson) await output.print(sampleJson(sample, busiest), () => null);
  else await screen.show(sampleText(output, sample, busiest));
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

/** Two decimals. */
const rounded = (rate: number): number => Math.round(rate * 100) / 100;
/** Two decimals below 10, none above. */
const shownRate = (rate: number): string => rate.toFixed(rate < 10 ? 2 : 0);
