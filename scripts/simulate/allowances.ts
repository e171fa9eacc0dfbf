/**
 * Isolates that decide limits from allowances, a network that loses messages and clocks that jump, in virtual time. It looks for a
 * decision that the limit does not admit, and says how much was refused too much.
 */
import {
  campaign,
  kindsOfStrategies,
  playRun,
  runOf,
} from "../../test/support/simulation/campaign.ts";
import { refusalTable } from "../../test/support/simulation/refusals.ts";
import { EXIT_VIOLATION } from "./exit.ts";

const VIOLATIONS_MAX = 10;
const PROGRESS_MS = 60_000;

/** @param run the number of the only run to play; null plays runs until they have made all checks */
export async function simulateAllowances(options: {
  readonly seed: number;
  readonly checks: number;
  readonly run: number | null;
}): Promise<void> {
  const { seed, checks, run } = options;
  console.log(`seed ${seed}`);
  if (run === null) await playAll(seed, checks);
  else await playOne(seed, run);
}

async function playAll(seed: number, checks: number): Promise<void> {
  const startMs = performance.now();
  let saidMs = startMs;
  const totals = await campaign({
    seed,
    checks,
    violationsMax: VIOLATIONS_MAX,
    onRun: (sofar) => {
      if (performance.now() - saidMs < PROGRESS_MS) return;
      saidMs = performance.now();
      console.log(`${sofar.checks} checks`);
    },
  });
  const seconds = Math.round((performance.now() - startMs) / 1000);
  console.log(
    `${totals.checks} checks of ${kindsOfStrategies.length} kinds of limits in ${totals.runs} runs and ${seconds} s: ` +
      `${totals.granted} granted, ${totals.calls} calls at the shard, ${totals.violations.length} violations`,
  );
  for (const { run: index, kind, text } of totals.violations) {
    console.error(
      `violation: ${kind}: ${text}; repeat it: npm run simulate -- --allowances --seed ${seed} --run ${index}`,
    );
    process.exitCode = EXIT_VIOLATION;
  }
  console.log(await refusalTable(seed));
}

async function playOne(seed: number, index: number): Promise<void> {
  const { kind, strategy } = runOf(seed, index);
  const { violation, checks: played } = await playRun(runOf(seed, index));
  console.log(
    `${kind} ${JSON.stringify(strategy)}: ${played} checks, ${violation ?? "no violation"}`,
  );
  if (violation !== null) process.exitCode = EXIT_VIOLATION;
}
