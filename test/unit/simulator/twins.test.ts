/** The simulator does what workerd does: each scenario's transcript is that which workerd has shown, with whatever latencies. */
import { beforeAll, describe, expect, inject, it } from "vitest";
import type { Program } from "../../simulator/platform/program.ts";
import { scenarios } from "../../simulator/twins/scenarios/index.ts";
import { bundleProbes, runSimulated } from "../../simulator/twins/simulated-lab.ts";

/** Latencies differ with the seed, and with them the order of what no scenario orders. */
const SEEDS = 10;
const firstSeed = inject("seed");

let probes: Program;

beforeAll(async () => {
  probes = await bundleProbes();
});

describe("the simulator", () => {
  it.for(scenarios)("$title", async (scenario) => {
    for (let seed = firstSeed; seed < firstSeed + SEEDS; seed++) {
      expect(await runSimulated(probes, scenario, seed), `seed ${seed}`).toEqual(scenario.expected);
    }
  });
});
