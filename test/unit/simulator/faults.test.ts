/** Faults by chance: how often they happen, and at which steps. */
import { describe, expect, it } from "vitest";
import { FaultCounts } from "../../simulator/faults/counts.ts";
import { SeededFaults } from "../../simulator/faults/seeded.ts";
import { LateCalls } from "../../simulator/platform/late-calls.ts";
import { Random } from "../../simulator/kernel/random.ts";
import { stepOf } from "../../simulator/platform/disk/steps.ts";

const SHARD = { kind: "Shard", release: "today" };
const RUNS = 2000;

const faultsOf = (seed: number): SeededFaults =>
  new SeededFaults(new Random(seed), new FaultCounts());

const runsWhere = (isSo: (faults: SeededFaults) => boolean): number =>
  Array.from({ length: RUNS }, (_, seed) => faultsOf(seed)).filter(isSo).length;

describe("faults of a seed", () => {
  it("a step that comes once in a run is hit in at least one of a hundred runs", () => {
    const crashes = runsWhere((faults) => faults.crashesAt(SHARD, "storage.deleteAll"));
    expect(crashes).toBeGreaterThan(RUNS / 100);
    const lost = runsWhere((faults) => faults.callFate("Shard", "hasNoted") === "lost");
    expect(lost).toBeGreaterThan(RUNS / 100);
    const failed = runsWhere((faults) => faults.commitFate("Shard a/0", "alarm") === "failed");
    expect(failed).toBeGreaterThan(RUNS / 100);
  });

  it("no step is hit all the time, so that each run gets beyond it", () => {
    const most = Array.from({ length: RUNS }, (_, seed) => {
      const faults = faultsOf(seed);
      const crashes = Array.from({ length: 200 }, () => faults.crashesAt(SHARD, "constructor"));
      return crashes.filter(Boolean).length;
    });
    expect(Math.max(...most)).toBeGreaterThan(1);
    expect(Math.max(...most)).toBeLessThan(10);
  });

  it("a run knows how long its slowest commit has taken, which is short where no disk was slow", () => {
    const most = Array.from({ length: 200 }, (_, seed) => {
      const faults = faultsOf(seed);
      const took = Array.from({ length: 100 }, () => faults.commitMs());
      expect(faults.commitMsMost).toBe(Math.max(...took));
      return faults.commitMsMost;
    });
    expect(most.filter((ms) => ms <= 15).length).toBeGreaterThan(50);
    expect(Math.max(...most)).toBeGreaterThan(1000);
  });

  it("a turn comes within a millisecond in some runs, and up to 100 ms later in others", () => {
    const most = Array.from({ length: 200 }, (_, seed) => {
      const faults = faultsOf(seed);
      return Math.max(...Array.from({ length: 100 }, () => faults.turnMs("Shard")));
    });
    expect(most.filter((ms) => ms <= 1).length).toBeGreaterThan(50);
    expect(Math.max(...most)).toBeGreaterThan(50);
    expect(Math.max(...most)).toBeLessThanOrEqual(100);
  });

  it("a call that a plan aims at is hit often, in each of the ways in which it may go wrong", () => {
    const faults = new SeededFaults(new Random(1), new FaultCounts(), ["Shard.adopt"]);
    const fates = Array.from({ length: RUNS }, () => faults.callFate("Shard", "adopt"));
    for (const fate of ["lost", "answer lost", "caller ended"] as const) {
      expect(fates.filter((each) => each === fate).length).toBeGreaterThan(RUNS / 50);
    }
    expect(faults.callFate("Shard", "apply")).toBe("delivered");
  });

  it("a call of a life that has ended arrives behind as many calls of the next life as came before it", () => {
    const planned: (() => void)[] = [];
    const after = (delayMs: number, run: () => void): (() => void) => {
      if (delayMs === 0) planned.push(run);
      return () => {};
    };
    const late = new LateCalls({ after });
    const [first, second] = [{}, {}];
    late.noteTaken("adopt", first);
    late.noteTaken("adopt", first);
    let arrivals = 0;
    late.hold("adopt", first, () => arrivals++);
    const seen = Array.from({ length: 3 }, () => {
      late.noteTaken("apply", second);
      late.noteTaken("adopt", second);
      for (const run of planned.splice(0)) run();
      return arrivals;
    });
    expect(seen).toEqual([0, 1, 1]);
    expect(late.callersOf("adopt")).toBe(2);
  });

  it("a client leaves a close unanswered in some runs, for 1 to 60 s", () => {
    const left: number[] = [];
    const some = runsWhere((faults) => {
      const ms = faults.leavesCloseMs();
      if (ms > 0) left.push(ms);
      return ms > 0;
    });
    expect(some).toBeGreaterThan(RUNS / 50);
    expect(some).toBeLessThan(RUNS / 2);
    expect(Math.min(...left)).toBeGreaterThanOrEqual(1000);
    expect(Math.max(...left)).toBeLessThanOrEqual(60_000);
    expect(Math.max(...left)).toBeGreaterThan(30_000);
  });

  it("nothing goes wrong once faults have ceased", () => {
    const hits = runsWhere((faults) => {
      faults.cease();
      return Array.from({ length: 50 }, () => faults.crashesAt(SHARD, "apply")).some(Boolean);
    });
    expect(hits).toBe(0);
  });
});

describe("the name of a statement", () => {
  it.each([
    ["SELECT row FROM journal_12 ORDER BY n", "SELECT row FROM journal"],
    ["INSERT INTO snapshot_3 (row) VALUES (?)", "INSERT INTO snapshot"],
    ["UPDATE shard SET generation = ?, counts = ?", "UPDATE shard SET generation"],
    ["  CREATE TABLE IF NOT EXISTS joins (name BLOB)", "CREATE TABLE IF NOT EXISTS joins"],
    ["SELECT name, hub FROM joins", "SELECT name, hub FROM joins"],
    ["", ""],
  ])("leaves numbers and values out of %s", (query, name) => {
    expect(stepOf(query)).toBe(name);
  });
});
