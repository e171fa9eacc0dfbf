/** Many runs of the simulation, one after the other: which limit each plays, and with which seed, follows from one seed. */
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { STRATEGIES } from "./strategies.ts";
import { simulate, type Plant, type WorldOutcome } from "./world.ts";

/** Requests of one run: long enough for many lives of allowances, short enough to repeat. */
const CHECKS_OF_RUN = 4_000;

/** A run that can be repeated by itself. */
export interface Run {
  readonly kind: string;
  readonly strategy: LimitStrategy;
  readonly seed: number;
}

export interface Violation {
  /** Which run of the campaign it was. */
  readonly run: number;
  readonly kind: string;
  readonly text: string;
}

/** Where a campaign stands. */
export interface CampaignTotals {
  runs: number;
  checks: number;
  granted: number;
  calls: number;
  readonly violations: Violation[];
}

export const kindsOfStrategies: readonly string[] = Object.keys(STRATEGIES);

/** @param kinds of strategies to play; all unless given */
export function runOf(
  seed: number,
  index: number,
  kinds: readonly string[] = kindsOfStrategies,
): Run {
  const all = kinds.flatMap((kind) => STRATEGIES[kind]!.map((strategy) => ({ kind, strategy })));
  return { ...all[index % all.length]!, seed: (seed + index) % 2 ** 31 };
}

export async function playRun({ strategy, seed }: Run, plant: Plant = {}): Promise<WorldOutcome> {
  return await simulate({ seed, strategy, checks: CHECKS_OF_RUN, plant });
}

/**
 * Plays runs until so many requests were decided.
 *
 * @param options.violationsMax it ends before, when so many runs have broken a promise; 1 unless given
 */
export async function campaign(options: {
  readonly seed: number;
  readonly checks: number;
  readonly kinds?: readonly string[];
  readonly plant?: Plant;
  readonly violationsMax?: number;
  readonly onRun?: (totals: CampaignTotals) => void;
}): Promise<CampaignTotals> {
  const { seed, checks, kinds, plant, violationsMax = 1, onRun } = options;
  const totals: CampaignTotals = { runs: 0, checks: 0, granted: 0, calls: 0, violations: [] };
  while (totals.checks < checks && totals.violations.length < violationsMax) {
    const run = runOf(seed, totals.runs, kinds);
    const outcome = await playRun(run, plant);
    if (outcome.violation !== null) {
      totals.violations.push({ run: totals.runs, kind: run.kind, text: outcome.violation });
    }
    totals.runs++;
    totals.checks += outcome.checks;
    totals.granted += outcome.granted;
    totals.calls += outcome.calls;
    onRun?.(totals);
  }
  return totals;
}
