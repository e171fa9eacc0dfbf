/** Allowances: whatever is lost, late or repeated, no more is spent than the strategy promises. */
import { describe, expect, inject, it } from "vitest";
import type { RateLimitConfiguration } from "../../src/wire/ratelimit/configuration.ts";
import { createLimiter } from "../../src/engine/ratelimit/limiter.ts";
import { AllowanceSimulation, type Fault } from "../support/rate-limits/allowance-simulation.ts";
import { randomOf } from "../support/rate-limits/random.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const SECOND_NS = 1_000_000_000n;

const minute = { name: "minute", limit: 100, windowNs: 60n * SECOND_NS };
const second = { name: "second", limit: 20, windowNs: SECOND_NS };
const CONFIGURATIONS: Readonly<Record<string, RateLimitConfiguration>> = {
  "token bucket": { strategy: "token_bucket", burst: 100, rate: 10 },
  "token bucket of an odd rate": { strategy: "token_bucket", burst: 7, rate: 1 / 3 },
  "leaky bucket": { strategy: "leaky_bucket", burst: 60, rate: 7.3 },
  GCRA: { strategy: "gcra", burst: 50, rate: 9 },
  "fixed window": { strategy: "fixed_window", quotas: [minute] },
  "short window": { strategy: "fixed_window", quotas: [second] },
  "fixed windows": { strategy: "fixed_window", quotas: [minute, second] },
  "sliding window": { strategy: "sliding_window", limit: 80, windowNs: 20n * SECOND_NS },
  composite: {
    strategy: "composite",
    primary: { strategy: "fixed_window", quotas: [minute] },
    secondary: { strategy: "token_bucket", burst: 40, rate: 5 },
  },
};

/** Plays a limiter, and gives the first promise that was broken. */
function violationOf(
  configuration: RateLimitConfiguration,
  runSeed: number,
  fault: Fault | null,
): string | null {
  const simulation = new AllowanceSimulation(configuration, randomOf(runSeed), fault);
  simulation.run(16, Number(createLimiter(configuration).lifeNsMax));
  return simulation.violation();
}

describe("the bound of allowances", () => {
  it.each(Object.entries(CONFIGURATIONS))(
    "a limiter whose units are drawn, returned, lost and repeated never admits more than it promises: %s",
    (_, configuration) => {
      for (let run = 0; run < runs(200); run++) {
        expect(violationOf(configuration, seed + run, null), `seed ${seed + run}`).toBeNull();
      }
    },
  );

  const FAULTS: readonly (readonly [Fault, keyof typeof CONFIGURATIONS])[] = [
    ["returnedTwice", "fixed window"],
    ["returnedAfterSpent", "fixed window"],
    ["keptOverReset", "sliding window"],
    ["spentAfterEnd", "token bucket"],
    ["notCut", "token bucket"],
    ["anyWindow", "short window"],
  ];

  it.each(FAULTS)("the simulation finds a planted fault: %s", (fault, name) => {
    const isFound = (run: number): boolean =>
      violationOf(CONFIGURATIONS[name]!, run, fault) !== null;
    expect(Array.from({ length: 20_000 }, (_, run) => run).some(isFound)).toBe(true);
  });
});
