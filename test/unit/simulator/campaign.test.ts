/** The whole server in simulated runs with faults: some seeds that are the same for ever, and some of the run's own. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, inject, it } from "vitest";
import { campaign } from "../../simulator/campaign/campaign.ts";
import { planOf, plansFrom, readPlan, writePlan } from "../../simulator/campaign/plan.ts";
import { Player } from "../../simulator/campaign/player.ts";
import { shrunk } from "../../simulator/campaign/shrink.ts";
import { REGRESSIONS } from "../../simulator/regressions.ts";
import { violationLines } from "../../../scripts/simulate/report.ts";

const FIXED_RUNS = 40;
const OWN_RUNS = Math.round(160 * inject("runs"));
/** Runs take seconds of the processor, which other tests have, too. */
const PATIENCE_MS = 300_000;

const run = promisify(execFile);

describe("simulated runs of the whole server", () => {
  it(
    "no simulated run with faults breaks a promise",
    async () => {
      const plans = [
        ...REGRESSIONS.map(({ plan }) => readPlan(plan)),
        ...plansFrom(1, FIXED_RUNS),
        ...plansFrom(inject("seed"), OWN_RUNS),
      ];
      const totals = await campaign({ plans, threads: 2 });
      const failed = totals.failed.map((played) => [
        `npm run simulate -- --plan '${writePlan(played.plan)}'`,
        ...violationLines(played),
      ]);
      expect(failed).toEqual([]);
      expect(totals.runs).toBe(plans.length);
    },
    PATIENCE_MS,
  );

  it(
    "two processes play one seed alike, event by event",
    async () => {
      const player = new Player();
      for (const seed of [5, inject("seed")]) {
        const here = await player.play(planOf(seed));
        const { stdout } = await run("node", ["scripts/simulate.ts", "--seed", String(seed)]);
        expect(stdout).toContain(`${here.operations} operations, ${here.events} events`);
        expect(stdout).toContain(`hash ${here.hash}`);
      }
      await player.close();
    },
    PATIENCE_MS,
  );

  it(
    "a run that breaks a promise is shrunk to one that breaks the same",
    async () => {
      const player = new Player({ planted: "a reply before the commit" });
      const failed = await player.play(planOf(14));
      const smallest = await shrunk(failed, (plan) => player.play(plan));
      await player.close();
      expect(failed.violations).not.toEqual([]);
      expect(smallest.violations[0]!.promise).toBe(failed.violations[0]!.promise);
      expect(smallest.operations).toBeLessThan(failed.operations);
      expect(readPlan(writePlan(smallest.plan))).toEqual(smallest.plan);
    },
    PATIENCE_MS,
  );
});
