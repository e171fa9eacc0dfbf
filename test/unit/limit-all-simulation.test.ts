/** LIMIT_ALL over several shards, whatever becomes of its messages: see `LimitAllSimulation` for what is promised. */
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { LimitAllSimulation, type Fault } from "../support/rate-limits/limit-all-simulation.ts";
import { randomOf } from "../support/rate-limits/random.ts";
import { runs } from "../support/runs.ts";

const CALLS = 120;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: 1_700_000_040_000 });
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

async function violationOf(
  seed: number,
  options: { isLossy: boolean; fault: Fault | null },
): Promise<{ violation: string | null; counts: LimitAllSimulation["counts"] }> {
  const simulation = new LimitAllSimulation(randomOf(seed), options);
  await simulation.run(CALLS);
  return { violation: simulation.violation(), counts: simulation.counts };
}

describe("limits of several shards", () => {
  it.each([
    ["late messages", false],
    ["lost and late messages and restarts", true],
  ])(
    "with %s no limit grants more than it allows, and without losses all that refused calls charged is given back",
    async (_, isLossy) => {
      const all = { granted: 0, refused: 0, failed: 0 };
      for (let i = 0; i < runs(160); i++) {
        const seed = inject("seed") + i;
        const { violation, counts } = await violationOf(seed, { isLossy, fault: null });
        expect([seed, violation]).toEqual([seed, null]);
        for (const name of ["granted", "refused", "failed"] as const) all[name] += counts[name];
      }
      expect(Math.min(all.granted, all.refused, all.failed)).toBeGreaterThan(20);
    },
  );

  it.each<[Fault, boolean]>([
    ["refunds", true],
    ["forgetsCancels", false],
    ["keepsCharges", false],
    ["oneByOne", false],
  ])("the planted fault %s is found", async (fault, isLossy) => {
    for (let seed = 0; seed < 40; seed++) {
      const { violation } = await violationOf(seed, { isLossy, fault });
      if (violation !== null) return;
    }
    expect.unreachable("no run has noticed the fault");
  });
});
