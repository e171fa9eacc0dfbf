/** The whole server in simulated runs with faults. Most seeds are the same each time, some are random; the nightly job plays thousands. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, inject, it } from "vitest";
import { campaign } from "../../simulator/campaign/campaign.ts";
import {
  planOf,
  plansFrom,
  readPlan,
  writePlan,
  type Plan,
} from "../../simulator/campaign/plan.ts";
import { Player } from "../../simulator/campaign/player.ts";
import { BEFORE } from "../../simulator/campaign/release-names.ts";
import { shrunk } from "../../simulator/campaign/shrink.ts";
import { PLANTED } from "../../simulator/planted/faults.ts";
import { plansFor } from "../../simulator/planted/plans.ts";
import type { WorkloadName } from "../../simulator/workloads/all.ts";
import { violationLines } from "../../../scripts/simulate/report.ts";

const DEPLOYMENT_RUNS = 8;
const FIXED_RUNS = 72;
const RANDOM_RUNS = 8;
/** Of the operations of a seed, so that all runs take a minute: the nightly job plays whole plans. */
const OPERATIONS_SHARE = 1 / 4;
/** Runs take seconds of the processor, which other tests have, too. */
const PATIENCE_MS = 900_000;

const run = promisify(execFile);

/** Grows with everything that shrinking takes away. A smaller plan may play a few operations more. */
const sizeOf = (plan: Plan): number =>
  plan.workloads.length *
  plan.clients *
  plan.operations *
  plan.durationMs *
  plan.machines *
  plan.doors *
  (plan.hasFaults ? 2 : 1);

describe("simulated runs of the whole server", () => {
  it(
    "no simulated run with faults breaks a promise",
    async () => {
      const plans = [...plansFrom(1, FIXED_RUNS), ...plansFrom(inject("seed"), RANDOM_RUNS)].map(
        (plan) => ({
          ...plan,
          operations: Math.ceil(plan.operations * OPERATIONS_SHARE),
        }),
      );
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
    "data of the release before goes on where today's takes its place, and calls between the two break no promise",
    async () => {
      const plans = [...plansFrom(1, DEPLOYMENT_RUNS)].map((plan): Plan => ({
        ...plan,
        workloads: [...new Set<WorkloadName>(["records", ...plan.workloads])],
        hasFaults: true,
        release: BEFORE,
      }));
      const { faults, failed } = await campaign({ plans, threads: 2 });
      expect(failed.flatMap(violationLines)).toEqual([]);
      expect(faults.get(`deployment: ${BEFORE}-to-today`)).toBe(plans.length);
      expect([...faults.keys()]).toEqual(
        expect.arrayContaining([
          `releases meet: door ${BEFORE} calls Shard today`,
          `releases meet: door today calls Shard ${BEFORE}`,
        ]),
      );
    },
    PATIENCE_MS,
  );

  it(
    "two processes play one seed alike, event by event",
    async () => {
      const player = new Player();
      for (const seed of [5, 6, inject("seed")]) {
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
    "a run that ends its thread is reported with its seed, and the next run has another thread",
    async () => {
      const player = new Player();
      const small = { ...planOf(7), clients: 1, operations: 20, durationMs: 10_000 };
      const ending = { ...small, workloads: ["none"] } as unknown as Plan;
      const failed = await player.play(ending);
      expect(failed.plan.seed).toBe(7);
      expect(violationLines(failed)).toEqual([
        expect.stringContaining("The simulator: the run: has ended its thread: "),
      ]);
      const played = await player.play(small);
      expect(violationLines(played)).toEqual([]);
      expect(played.operations).toBeGreaterThan(0);
      await player.close();
    },
    PATIENCE_MS,
  );

  it(
    "a campaign that is interrupted begins no other run, and has the totals so far",
    async () => {
      const stopped = new AbortController();
      const totals = await campaign({
        plans: [...plansFrom(1, 3)].map((plan) => ({ ...plan, clients: 1, operations: 20 })),
        threads: 1,
        signal: stopped.signal,
        onRun: () => stopped.abort(),
      });
      expect(totals.runs).toBe(1);
    },
    PATIENCE_MS,
  );

  it(
    "a run that breaks a promise is shrunk to one that breaks the same",
    async () => {
      const planted = "a reply before the commit";
      const fault = PLANTED.find(({ name }) => name === planted)!;
      const player = new Player({ planted });
      let isSmaller = false;
      // A run with less in it is another run: not each of them breaks the promise again.
      for (const seed of [200, 300, 400, 500]) {
        const plans = plansFor(fault, seed, 40);
        const { failed } = await campaign({ plans, planted, threads: 1 });
        const [first] = failed;
        const smallest = await shrunk(first!, (plan) => player.play(plan));
        const promises = smallest.violations.map(({ promise }) => promise);
        expect(promises).toContain(first!.violations[0]!.promise);
        expect(readPlan(writePlan(smallest.plan))).toEqual(smallest.plan);
        isSmaller = sizeOf(smallest.plan) < sizeOf(first!.plan);
        if (isSmaller) break;
      }
      await player.close();
      expect(isSmaller).toBe(true);
    },
    PATIENCE_MS,
  );
});
