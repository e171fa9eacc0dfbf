/**
 * `npm run simulate -- --seeds 1000 --hours 1`: the whole server in simulated runs with faults. `--allowances` plays the isolates
 * that decide limits from allowances instead.
 */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { isSeed, planOf, plansFrom, readPlan, SEEDS } from "../test/simulator/campaign/plan.ts";
import { WORKLOADS, type WorkloadName } from "../test/simulator/workloads/all.ts";
import { simulateAllowances } from "./simulate/allowances.ts";
import { EXIT_USAGE } from "./simulate/exit.ts";
import { PartsFile } from "./simulate/parts.ts";
import { findPlanted } from "./simulate/planted.ts";
import { simulateOne } from "./simulate/one-run.ts";
import { simulateServer } from "./simulate/server.ts";

const USAGE = `usage: npm run simulate -- [--seeds 1000] [--hours 1] [--first SEED] [--threads N] [--failures 1]
                            [--workloads a,b | --results FILE]
       npm run simulate -- --seed N [--trace]
       npm run simulate -- --plan JSON [--trace]
       npm run simulate -- --planted [--fault NAME] [--seeds 1000] [--threads N]
       npm run simulate -- --allowances [--checks 1e6] [--seed N] [--run N]
       npm run simulate -- --help`;

const DEFAULTS = { seeds: 1000, hours: 1, failures: 1, checks: 1e6 };
const HOUR_MS = 3_600_000;
/** Seeds of the allowances are below it. */
const ALLOWANCE_SEEDS = 2 ** 31;

class UsageError extends Error {}

try {
  await run();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n${USAGE}`);
  process.exitCode = EXIT_USAGE;
}

async function run(): Promise<void> {
  const values = argumentsOf();
  if (values.help === true) return console.log(USAGE);
  if (values.allowances === true || values.checks !== undefined || values.run !== undefined) {
    const seed = wholeOf("seed", values.seed ?? String(randomInt(ALLOWANCE_SEEDS)));
    if (seed >= ALLOWANCE_SEEDS) throw new UsageError("--seed of allowances is below 2^31");
    const checks = numberOf("checks", values.checks ?? String(DEFAULTS.checks));
    const run = values.run === undefined ? null : wholeOf("run", values.run);
    return await simulateAllowances({ seed, checks, run });
  }
  const hasTrace = values.trace === true;
  if (values.plan !== undefined) {
    return await simulateOne(
      usable("plan", () => readPlan(values.plan!)),
      hasTrace,
    );
  }
  if (values.seed !== undefined) return await simulateOne(planOf(seedOf(values.seed)), hasTrace);
  if (hasTrace) throw new UsageError("--trace needs --seed or --plan");
  const seeds = wholeOf("seeds", values.seeds ?? String(DEFAULTS.seeds));
  const threads = values.threads === undefined ? undefined : wholeOf("threads", values.threads);
  if (values.planted === true) {
    return await findPlanted({ name: values.fault ?? null, seeds, threads });
  }
  const { workloads, results } = values;
  if (workloads !== undefined && results !== undefined) {
    throw new UsageError("--results sums up runs of all workloads: it can't go with --workloads");
  }
  const first = values.first === undefined ? randomInt(SEEDS) : seedOf(values.first);
  await simulateServer({
    first,
    seeds,
    plans: plansFrom(first, seeds, workloads?.split(",").map(workloadOf)),
    hasAllWorkloads: workloads === undefined,
    durationMs: numberOf("hours", values.hours ?? String(DEFAULTS.hours)) * HOUR_MS,
    failuresMax: wholeOf("failures", values.failures ?? String(DEFAULTS.failures)),
    threads,
    file:
      results === undefined
        ? null
        : usable("results", () => new PartsFile(results, { first, runs: seeds })),
  });
}

function workloadOf(name: string): WorkloadName {
  if (name in WORKLOADS) return name as WorkloadName;
  const known = Object.keys(WORKLOADS).join(", ");
  throw new UsageError(`unknown workload ${name}: --workloads takes ${known}`);
}

function argumentsOf(): ReturnType<typeof parse>["values"] {
  return usable("arguments", () => parse().values);
}

function parse() {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  return parseArgs({
    options: {
      seeds: text,
      hours: text,
      first: text,
      threads: text,
      failures: text,
      seed: text,
      plan: text,
      workloads: text,
      results: text,
      trace: flag,
      planted: flag,
      fault: text,
      allowances: flag,
      checks: text,
      run: text,
      help: { ...flag, short: "h" },
    },
  });
}

function usable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError(
      `invalid ${what}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function seedOf(text: string): number {
  const seed = Number(text);
  if (!isSeed(seed)) throw new UsageError(`a seed is a whole number below 2^32, not ${text}`);
  return seed;
}

function wholeOf(name: string, text: string): number {
  const value = numberOf(name, text);
  if (!Number.isInteger(value)) throw new UsageError(`--${name} is a whole number, not ${text}`);
  return value;
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (!(value >= 0) || text === "") throw new UsageError(`--${name} is a number, not ${text}`);
  return value;
}
