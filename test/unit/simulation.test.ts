/**
 * Allowances as a whole: real limiters, a network that loses messages, a real engine, clocks that are wrong. Whatever
 * happens, no more is admitted than a limit promises.
 */
import { describe, expect, inject, it } from "vitest";
import { campaign, kindsOfStrategies } from "../support/simulation/campaign.ts";
import * as plants from "../support/simulation/plants.ts";
import type { Plant } from "../support/simulation/world.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
/** Of all kinds of limits together. */
const CHECKS = 1_000_000;

/** Enough to find each planted fault many times over. */
const CHECKS_FOR_FAULT = 2_000_000;

describe("limiters that decide from allowances", () => {
  it.each(kindsOfStrategies)(
    "admit no more than a limit promises, whatever is late, lost or wrong: %s",
    async (kind) => {
      const checks = runs(CHECKS) / kindsOfStrategies.length;
      const { violations } = await campaign({ seed, checks, kinds: [kind] });
      expect(violations, `seed ${seed}`).toEqual([]);
    },
  );

  it("a caller that gives back what it has given back before gains nothing", async () => {
    const plant = plants.givenBackAgain;
    const { violations } = await campaign({ seed, checks: runs(CHECKS) / 10, plant });
    expect(violations, `seed ${seed}`).toEqual([]);
  });
});

async function isFound(kind: string, plant: Plant): Promise<boolean> {
  const { violations } = await campaign({
    seed: 1,
    checks: CHECKS_FOR_FAULT,
    kinds: [kind],
    plant,
  });
  return violations.length > 0;
}

describe("a planted fault is found", () => {
  it.each([
    ["a return counts twice", plants.returnedTwice, "fixed window", plants.givenBackAgain],
    ["the ledger survives a reset", plants.keptOverReset, "sliding window", {}],
    ["one mark stands for all windows", plants.oneMarkForAllWindows, "several windows", {}],
    ["refill leaves the rights to give back", plants.notCut, "token bucket", {}],
  ])("in the ledger: %s", async (_, fault, kind, plant) => {
    expect(await plants.withLedgerFault(fault, () => isFound(kind, plant))).toBe(true);
  });

  it.each([
    ["a draw arrives twice", plants.arrivedTwice],
    ["a draw is sent again", plants.drawnAgain],
    ["a draw is answered before it is on the disk", plants.relaxedDraws],
    ["units live from the moment of the reply", plants.lifeFromReply],
    ["a clock stands still over the end of units", plants.frozenClock],
    ["units that were spent are given back", plants.returnedAfterSpent],
  ])("outside the ledger: %s", async (_, plant) => {
    expect(await isFound("fixed window", plant)).toBe(true);
  });
});
