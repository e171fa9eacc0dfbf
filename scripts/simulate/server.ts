/** A campaign of simulated runs of the whole server: its progress, its faults, and the runs that broke a promise. */
import { mkdirSync, writeFileSync } from "node:fs";
import { SingleBar } from "cli-progress";
import { campaign, type CampaignTotals } from "../../test/simulator/campaign/campaign.ts";
import { writePlan, type Plan } from "../../test/simulator/campaign/plan.ts";
import type { Played } from "../../test/simulator/campaign/play.ts";
import { play } from "../../test/simulator/campaign/play.ts";
import { Player } from "../../test/simulator/campaign/player.ts";
import { loadReleases } from "../../test/simulator/campaign/releases.ts";
import { shrunk } from "../../test/simulator/campaign/shrink.ts";
import { missingFaults } from "../../test/simulator/faults/required.ts";
import { EXIT_VIOLATION } from "./exit.ts";
import { faultTable, undecidedLines, violationLines } from "./report.ts";

/** A campaign of at least this many runs fails when a fault at a step of the list has not happened. */
const RUNS_WITH_ALL_FAULTS = 1000;
/** Where traces are written. */
const FOLDER = ".wrangler/simulator";
/** How many lines of a trace are printed: its last ones. */
const LINES_PRINTED = 60;
/** Time between two lines of progress where no bar can be drawn, in ms. */
const PROGRESS_MS = 30_000;
const HOUR_MS = 3_600_000;
const BAR =
  "[{bar}] {value}/{total} runs, {rate} a second, {hours} simulated hours, {operations} operations, {faults} faults, {violations} runs with violations";

export async function simulateServer(options: {
  readonly first: number;
  readonly seeds: number;
  readonly plans: Iterable<Plan>;
  /** Else some faults can't happen. */
  readonly hasAllWorkloads: boolean;
  /** Of true time, in ms. */
  readonly durationMs: number;
  readonly failuresMax: number;
  readonly threads: number | undefined;
}): Promise<void> {
  const { first, seeds, plans, failuresMax, durationMs, threads } = options;
  console.log(`seeds ${first} to ${first + seeds - 1}: --first ${first} repeats them`);
  const bar = new SingleBar({
    format: BAR,
    hideCursor: true,
    noTTYOutput: true,
    notTTYSchedule: PROGRESS_MS,
  });
  const beganMs = Date.now();
  const figuresOf = (totals: CampaignTotals): object => ({
    rate: (totals.runs / Math.max(1, (Date.now() - beganMs) / 1000)).toFixed(1),
    hours: (totals.simulatedMs / HOUR_MS).toFixed(1),
    operations: totals.operations,
    faults: faultsOf(totals),
    violations: totals.failed.length,
  });
  const stopped = new AbortController();
  const stop = (): void => {
    console.error("\nends with the runs that have begun; interrupt again to end at once");
    stopped.abort();
  };
  process.once("SIGINT", stop);
  bar.start(seeds, 0, { rate: 0, hours: 0, operations: 0, faults: 0, violations: 0 });
  const totals = await campaign({
    plans,
    failuresMax,
    untilMs: beganMs + durationMs,
    signal: stopped.signal,
    ...(threads !== undefined && { threads }),
    onRun: (_, sofar) => bar.update(sofar.runs, figuresOf(sofar)),
  });
  bar.stop();
  process.off("SIGINT", stop);
  console.log(faultTable(new Map([...totals.faults].toSorted(([a], [b]) => (a < b ? -1 : 1)))));
  if (options.hasAllWorkloads) reportMissing(totals);
  for (const line of totals.undecided.flatMap(undecidedLines)) console.error(line);
  for (const failed of totals.failed) await reportFailed(failed);
  if (totals.failed.length > 0) process.exitCode = EXIT_VIOLATION;
  console.log(summaryOf(totals, Date.now() - beganMs));
}

function reportMissing(totals: CampaignTotals): void {
  if (totals.runs < RUNS_WITH_ALL_FAULTS) return;
  const missing = missingFaults(totals.faults);
  for (const fault of missing) console.error(`never happened: ${fault}`);
  if (missing.length > 0) process.exitCode = EXIT_VIOLATION;
}

async function reportFailed(failed: Played): Promise<void> {
  const { seed } = failed.plan;
  console.error(`\nseed ${seed}: ${failed.violations.length} violations`);
  for (const line of violationLines(failed)) console.error(line);
  // A run that has ended its thread would end this one, too.
  if (failed.events === 0) {
    console.error(`repeat it:          npm run simulate -- --seed ${seed} --trace`);
    return;
  }
  const player = new Player();
  const smallest = await shrunk(failed, async (plan) => await player.play(plan));
  await player.close();
  const releases = await loadReleases();
  const lines: string[] = [];
  const { violations } = await play(smallest.plan, releases, (line) => lines.push(line));
  mkdirSync(FOLDER, { recursive: true });
  const path = `${FOLDER}/${seed}.trace`;
  const text = violationLines({ ...smallest, violations }).join("\n");
  writeFileSync(path, `${JSON.stringify(smallest.plan)}\n${lines.join("\n")}\n${text}\n`);
  console.error(`repeat it:          npm run simulate -- --seed ${seed} --trace`);
  console.error(
    `repeat it, shrunk:  npm run simulate -- --plan '${writePlan(smallest.plan)}' --trace`,
  );
  console.error(`the trace of the shrunk run is ${path}, ${lines.length} lines; its end:`);
  for (const line of lines.slice(-LINES_PRINTED)) console.error(line);
  console.error(text);
}

function summaryOf(totals: CampaignTotals, tookMs: number): string {
  const { runs, simulatedMs, operations, failed, undecided } = totals;
  const keys = undecided.reduce((sum, played) => sum + played.undecided.length, 0);
  return (
    `${runs} runs in ${(tookMs / 1000).toFixed(0)} s: ${(simulatedMs / HOUR_MS).toFixed(1)} simulated hours, ` +
    `${operations} operations, ${faultsOf(totals)} faults; ${failed.length} runs with violations, ${keys} undecided keys`
  );
}

const faultsOf = ({ faults }: CampaignTotals): number =>
  [...faults.values()].reduce((sum, count) => sum + count, 0);
