/** A campaign of simulated runs of the whole server: its progress, its faults, and the runs that broke a promise. */
import { campaign } from "../../test/simulator/campaign/campaign.ts";
import type { Plan } from "../../test/simulator/campaign/plan.ts";
import { missingFaults } from "../../test/simulator/faults/required.ts";
import { EXIT_VIOLATION } from "./exit.ts";
import { failureLines, shrinkFailed } from "./failures.ts";
import type { PartsFile } from "./parts.ts";
import { Progress } from "./progress.ts";
import { faultTable, undecidedLine, violationLines } from "./report.ts";
import { resultOf, summaryOf, sumOf, undecidedProblem, type Result } from "./result.ts";

/** A campaign of at least this many runs fails when a fault at a step of the list has not happened. */
const RUNS_WITH_ALL_FAULTS = 1000;

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
  /** Where the result goes, and those of other parts of the campaign are; null for a campaign of one part. */
  readonly file: PartsFile | null;
}): Promise<void> {
  const { first, seeds, plans, failuresMax, durationMs, threads, file } = options;
  if (seeds > 0) {
    const same = options.hasAllWorkloads ? "" : " with the same --workloads";
    console.log(`seeds ${first} to ${first + seeds - 1}: --first ${first}${same} repeats them`);
  }
  const progress = new Progress(seeds);
  const interruption = interruptible();
  const totals = await campaign({
    plans,
    failuresMax,
    untilMs: Date.now() + durationMs,
    signal: interruption.signal,
    ...(threads !== undefined && { threads }),
    onRun: (played, sofar) => {
      const [violation] = violationLines(played);
      if (violation !== undefined) progress.print(`seed ${played.plan.seed}: ${violation}`);
      progress.update(sofar);
    },
  });
  progress.stop();
  interruption.end();
  const part = resultOf(totals);
  if (part.runs > 0) file?.append(first, part);
  const parts = [...(file?.before ?? []), part];
  const whole = sumOf(parts);
  report(whole, options.hasAllWorkloads);
  console.log(`${summaryOf(part)}, in ${(progress.tookMs / 1000).toFixed(0)} s`);
  if (parts.length > 1) console.log(`all parts of this commit: ${summaryOf(whole)}`);
  // Ctrl-C has ended the process of esbuild, too, and without it no smaller run can be played.
  if (interruption.signal.aborted) return;
  for (const failed of totals.failed) await shrinkFailed(failed);
}

function report(result: Result, hasAllWorkloads: boolean): void {
  console.log(
    faultTable(new Map(Object.entries(result.faults).toSorted(([a], [b]) => (a < b ? -1 : 1)))),
  );
  if (hasAllWorkloads) reportMissing(result);
  for (const { seed, key } of result.undecided) console.error(undecidedLine(seed, key));
  for (const failed of result.failed) console.error(`\n${failureLines(failed).join("\n")}`);
  const problem = undecidedProblem(result);
  if (problem !== null) console.error(problem);
  if (result.failed.length > 0 || problem !== null) process.exitCode = EXIT_VIOLATION;
}

function reportMissing({ runs, faults }: Result): void {
  if (runs < RUNS_WITH_ALL_FAULTS) return;
  const missing = missingFaults(new Map(Object.entries(faults)));
  for (const fault of missing) console.error(`never happened: ${fault}`);
  if (missing.length > 0) process.exitCode = EXIT_VIOLATION;
}

/** A signal that Ctrl-C aborts, until `end`. A second Ctrl-C ends the process. */
function interruptible(): { readonly signal: AbortSignal; readonly end: () => void } {
  const stopped = new AbortController();
  const stop = (): void => {
    console.error("\nends with the runs that have begun; interrupt again to end at once");
    stopped.abort();
    end();
  };
  const end = (): void => {
    for (const name of ["SIGINT", "SIGTERM"]) process.off(name, stop);
  };
  for (const name of ["SIGINT", "SIGTERM"]) process.on(name, stop);
  return { signal: stopped.signal, end };
}
