/** A campaign that is played in parts: what its file keeps, and what all parts of a commit come to. */
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CampaignTotals } from "../../simulator/campaign/campaign.ts";
import { planOf, type Plan } from "../../simulator/campaign/plan.ts";
import type { Played } from "../../simulator/campaign/play.ts";
import { failureLines } from "../../../scripts/simulate/failures.ts";
import { PartsFile } from "../../../scripts/simulate/parts.ts";
import {
  resultOf,
  summaryOf,
  sumOf,
  undecidedProblem,
  type Result,
} from "../../../scripts/simulate/result.ts";

const OURS = "a".repeat(40);
const OTHER = `${OURS}-dirty`;
const HOUR_MS = 3_600_000;

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "parts-"));
  path = join(folder, "campaign.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true }));

const resultWith = (runs: number, parts: Partial<Result> = {}): Result => ({
  runs,
  operations: 100 * runs,
  simulatedMs: runs * HOUR_MS,
  faults: { "storm: Hubs": runs },
  failed: [],
  undecided: [],
  ...parts,
});

describe("a campaign", () => {
  const undecidedIn = (runs: number, seeds: readonly number[]): string | null =>
    undecidedProblem(resultWith(runs, { undecided: seeds.map((seed) => ({ seed, key: "hot" })) }));

  it("fails where more than one in 50 of its runs have keys that are undecided", () => {
    expect(undecidedIn(200, [1, 2, 3, 4])).toBeNull();
    expect(undecidedIn(200, [1, 2, 3, 4, 4, 4])).toBeNull();
    expect(undecidedIn(200, [1, 2, 3, 4, 5])).toBe(
      "too much is not judged: 5 of 200 runs have keys that are undecided, more than one in 50",
    );
  });

  it("of a few runs may have many of them", () => {
    expect(undecidedIn(199, [1, 2, 3, 4, 5])).toBeNull();
  });
});

describe("a campaign in parts", () => {
  it("keeps each part as a line, and sums up those of one commit", () => {
    const violations = ["violation: Exact: counter: 2 instead of 1"];
    const failed = [{ seed: 11, command: "npm run simulate -- --seed 11 --trace", violations }];
    const undecided = [{ seed: 12, key: "hot" }];
    const faults = { "storm: Hubs": 1, "slow disk: commit": 2 };
    new PartsFile(path, { first: 10, runs: 5 }, OURS).append(10, resultWith(3, { failed }));
    new PartsFile(path, { first: 0, runs: 9 }, OTHER).append(0, resultWith(9));
    new PartsFile(path, { first: 13, runs: 5 }, OURS).append(
      13,
      resultWith(4, { faults, undecided }),
    );
    const { before } = new PartsFile(path, { first: 20, runs: 5 }, OURS);
    expect(before.map(({ first, runs }) => [first, runs])).toEqual([
      [10, 3],
      [13, 4],
    ]);
    const whole = sumOf(before);
    expect(whole).toEqual({
      runs: 7,
      operations: 700,
      simulatedMs: 7 * HOUR_MS,
      faults: { "storm: Hubs": 4, "slow disk: commit": 2 },
      failed,
      undecided,
    });
    expect(summaryOf(whole)).toBe(
      "7 runs, 7.0 simulated hours, 700 operations, 6 faults, 1 runs with violations, 1 undecided keys",
    );
  });

  it("refuses seeds that another part of the commit has played", () => {
    new PartsFile(path, { first: 10, runs: 5 }, OURS).append(10, resultWith(5));
    const open = (first: number, runs: number, commit = OURS): (() => PartsFile) => {
      return () => new PartsFile(path, { first, runs }, commit);
    };
    expect(open(14, 1)).toThrow("two parts of one commit have seed 14");
    expect(open(8, 3)).toThrow("two parts of one commit have seed 10");
    expect(open(8, 2)).not.toThrow();
    expect(open(15, 1)).not.toThrow();
    expect(open(12, 0)).not.toThrow();
    expect(open(14, 1, OTHER)).not.toThrow();
  });

  it("says which line of its file is not a part", () => {
    new PartsFile(path, { first: 10, runs: 5 }, OURS).append(10, resultWith(5));
    appendFileSync(path, '{"runs": 5}\n');
    expect(() => new PartsFile(path, { first: 20, runs: 5 }, OURS)).toThrow(
      `${path}:2 is not a part of a campaign`,
    );
  });

  const violation = { promise: "Exact", subject: "counter", message: "2 instead of 1" };
  it.each<[title: string, plan: Plan, repeat: string]>([
    ["by its seed", planOf(11), "--seed 11"],
    [
      "with workloads that its seed has not chosen",
      { ...planOf(11), workloads: ["records"] },
      `--plan '{"seed":11,"workloads":["records"]}'`,
    ],
  ])("names a run %s, what it broke, and the command that repeats it", (_, plan, repeat) => {
    const played: Played = {
      plan,
      violations: [violation],
      undecided: ["hot"],
      hash: "",
      events: 1,
      operations: 2,
      simulatedMs: 3,
      faults: [],
    };
    const totals: CampaignTotals = {
      runs: 1,
      operations: 2,
      events: 1,
      simulatedMs: 3,
      faults: new Map([["storm: Hubs", 1]]),
      failed: [played],
      undecided: [played],
    };
    const { failed, undecided, faults } = resultOf(totals);
    expect(failed.map(failureLines)).toEqual([
      [
        "seed 11:",
        "violation: Exact: counter: 2 instead of 1",
        `repeat it:          npm run simulate -- ${repeat} --trace`,
      ],
    ]);
    expect(undecided).toEqual([{ seed: 11, key: "hot" }]);
    expect(faults).toEqual({ "storm: Hubs": 1 });
  });
});
