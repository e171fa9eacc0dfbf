/** What came of many runs, as plain JSON. */
import type { CampaignTotals } from "../../test/simulator/campaign/campaign.ts";
import { commandOf, violationLines } from "./report.ts";

const HOUR_MS = 3_600_000;
/** The largest share of runs with undecided keys that a campaign of at least `runs` may have. Usual is one run in 500. */
const UNDECIDED = { runs: 200, shareMost: 0.02 };

export interface Result {
  readonly runs: number;
  readonly operations: number;
  readonly simulatedMs: number;
  /** How often each fault happened, by kind and step. */
  readonly faults: Readonly<Record<string, number>>;
  /** Runs that broke a promise. */
  readonly failed: readonly FailedRun[];
  readonly undecided: readonly UndecidedKey[];
}

export interface FailedRun {
  readonly seed: number;
  /** What plays it again. */
  readonly command: string;
  readonly violations: readonly string[];
}

/** Too many calls overlap on it to be judged. */
export interface UndecidedKey {
  readonly seed: number;
  readonly key: string;
}

export function resultOf(totals: CampaignTotals): Result {
  return {
    runs: totals.runs,
    operations: totals.operations,
    simulatedMs: totals.simulatedMs,
    faults: Object.fromEntries(totals.faults),
    failed: totals.failed.map((played) => ({
      seed: played.plan.seed,
      command: commandOf(played.plan),
      violations: violationLines(played),
    })),
    undecided: totals.undecided.flatMap(({ plan, undecided }) =>
      undecided.map((key) => ({ seed: plan.seed, key })),
    ),
  };
}

export function sumOf(results: readonly Result[]): Result {
  const faults: Record<string, number> = {};
  for (const result of results) {
    for (const [fault, count] of Object.entries(result.faults)) {
      faults[fault] = (faults[fault] ?? 0) + count;
    }
  }
  const total = (count: (result: Result) => number): number =>
    results.reduce((sum, result) => sum + count(result), 0);
  return {
    runs: total(({ runs }) => runs),
    operations: total(({ operations }) => operations),
    simulatedMs: total(({ simulatedMs }) => simulatedMs),
    faults,
    failed: results.flatMap(({ failed }) => failed),
    undecided: results.flatMap(({ undecided }) => undecided),
  };
}

/** Says that too many runs have keys that could not be judged; null where they are few, or the campaign is a short one. */
export function undecidedProblem({ runs, undecided }: Result): string | null {
  const count = new Set(undecided.map(({ seed }) => seed)).size;
  const { runs: runsMin, shareMost } = UNDECIDED;
  if (runs < runsMin || count <= runs * shareMost) return null;
  return `too much is not judged: ${count} of ${runs} runs have keys that are undecided, more than one in ${1 / shareMost}`;
}

export function summaryOf({
  runs,
  simulatedMs,
  operations,
  faults,
  failed,
  undecided,
}: Result): string {
  const hours = (simulatedMs / HOUR_MS).toFixed(1);
  const faultCount = Object.values(faults).reduce((sum, count) => sum + count, 0);
  return (
    `${runs} runs, ${hours} simulated hours, ${operations} operations, ${faultCount} faults, ` +
    `${failed.length} runs with violations, ${undecided.length} undecided keys`
  );
}
