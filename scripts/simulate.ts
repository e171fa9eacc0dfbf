/**
 * `npm run simulate -- --checks 1e8 --seed N`: isolates that decide limits from allowances, a network that loses messages
 * and clocks that jump, in virtual time. It looks for a decision that the limit does not admit, and says how much was
 * refused too much.
 */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import {
  campaign,
  kindsOfStrategies,
  playRun,
  runOf,
} from "../test/support/simulation/campaign.ts";
import { refusalTable } from "../test/support/simulation/refusals.ts";

const CHECKS = 1e6;
const EXIT_VIOLATION = 1;
const EXIT_USAGE = 2;
const VIOLATIONS_MAX = 10;
const PROGRESS_MS = 60_000;

function readArguments(): { checks: number; seed: number; run: number | null } {
  const { values } = parseArgs({
    options: { checks: { type: "string" }, seed: { type: "string" }, run: { type: "string" } },
  });
  const checks = Number(values.checks ?? CHECKS);
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const run = values.run === undefined ? null : Number(values.run);
  const isValid = checks >= 1 && Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31;
  if (!isValid || (run !== null && !(Number.isInteger(run) && run >= 0))) {
    console.error("usage: npm run simulate -- [--checks 1e6] [--seed N] [--run N]");
    process.exit(EXIT_USAGE);
  }
  return { checks, seed, run };
}

const { checks, seed, run } = readArguments();
console.log(`seed ${seed}`);
if (run === null) await playAll();
else await playOne(run);

async function playAll(): Promise<void> {
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
      `violation: ${kind}: ${text}; repeat it: npm run simulate -- --seed ${seed} --run ${index}`,
    );
    process.exitCode = EXIT_VIOLATION;
  }
  console.log(await refusalTable(seed));
}

async function playOne(index: number): Promise<void> {
  const { kind, strategy } = runOf(seed, index);
  const { violation, checks: played } = await playRun(runOf(seed, index));
  console.log(
    `${kind} ${JSON.stringify(strategy)}: ${played} checks, ${violation ?? "no violation"}`,
  );
  if (violation !== null) process.exitCode = EXIT_VIOLATION;
}
