/** Faults that are planted in the production code: what the simulator finds, it can find. */
import { readFileSync } from "node:fs";
import { transform } from "esbuild";
import { describe, expect, it } from "vitest";
import { campaign } from "../../simulator/campaign/campaign.ts";
import { PLANTED } from "../../simulator/planted/faults.ts";
import { plansFor } from "../../simulator/planted/plans.ts";

/** Those that a later seed finds are left to `npm run simulate -- --planted`. */
const SOON = PLANTED.filter(({ seed }) => seed === 1).slice(0, 10);
/** The seed is known to find the fault. Where a change of the simulator has made another run of it, one of these does. */
const RUNS_MAX = 40;
const PATIENCE_MS = 300_000;

describe("a fault that is planted in the code", () => {
  it.each(PLANTED)(
    "has its place in a module, and leaves code that compiles: $name",
    async ({ module, text, planted }) => {
      const source = readFileSync(new URL(`../../../${module}`, import.meta.url), "utf8");
      expect(source.split(text)).toHaveLength(2);
      await transform(
        source.replace(text, () => planted),
        { loader: "ts" },
      );
    },
  );

  it.each(SOON)(
    "is found by simulated runs: $name",
    async (fault) => {
      const { failed } = await campaign({
        plans: plansFor(fault, fault.seed, RUNS_MAX),
        planted: fault.name,
        threads: 1,
      });
      expect(failed).not.toEqual([]);
      expect(failed[0]!.violations.map(({ promise }) => promise)).not.toContain("The simulator");
    },
    PATIENCE_MS,
  );
});
