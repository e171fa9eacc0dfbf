/** Plays one run, from its plan to what the checkers say. */
import { Disturbances } from "../faults/disturbances.ts";
import { FaultCounts } from "../faults/counts.ts";
import { SeededFaults } from "../faults/seeded.ts";
import { inMacrotask } from "../kernel/drain.ts";
import { calm } from "../platform/faults.ts";
import type { Releases } from "./releases.ts";
import type { Violation } from "../checks/history.ts";
import { workloadsOf } from "../workloads/all.ts";
import { EndlessRun, World } from "../world.ts";
import type { Release } from "../platform/realm.ts";
import { changesOf, lossesOf, losesForGood, mistakesOf, namespacesOf, type Plan } from "./plan.ts";

/** The default of `SHARDS` in the release before. */
const SHARDS_BEFORE = "4";

export interface Played {
  readonly plan: Plan;
  readonly violations: readonly Violation[];
  /** What could not be judged: keys on which too many calls overlap. */
  readonly undecided: readonly string[];
  /** Of everything that happened: equal for two runs of one plan. */
  readonly hash: string;
  readonly events: number;
  readonly operations: number;
  readonly simulatedMs: number;
  readonly faults: readonly (readonly [string, number])[];
}

/** Plays a run, as one piece of synchronous work. */
export async function play(
  plan: Plan,
  releases: Releases,
  onTrace: ((line: string) => void) | null = null,
): Promise<Played> {
  const counts = new FaultCounts();
  const workloads = workloadsOf(plan);
  const isCalm = !plan.hasFaults;
  const successor = isCalm || plan.release === "today" ? null : successorOf(plan, releases);
  const world = new World({
    seed: plan.seed,
    release: releases[plan.release],
    callers: releases.callers,
    isToday: plan.release === "today",
    isCalm,
    hasLosses: lossesOf(plan) > 0,
    hasMistakes: mistakesOf(plan) > 0,
    faults: (random) => (isCalm ? calm(random) : new SeededFaults(random, counts, plan.aims)),
    variables: { ...plan.variables, ...splitVariables(plan) },
    machines: plan.machines,
    doors: plan.doors,
    namespaces: namespacesOf(plan),
    workloads,
    durationMs: plan.durationMs,
    onTrace,
  });
  const onUnhandled = (error: unknown): void => world.noteUnhandled(error);
  process.on("unhandledRejection", onUnhandled);
  try {
    const violations = await inMacrotask(() => {
      const losses = lossesOf(plan);
      const accepting = losesForGood(plan) ? acceptingLoss(releases.today) : null;
      const [changes, mistakes] = [changesOf(plan), mistakesOf(plan)];
      const planned = { successor, losses, accepting, changes, mistakes };
      new Disturbances(world, counts, { isCalm, ...planned }).start();
      return playOrFail(world);
    });
    return {
      plan,
      violations,
      undecided: world.undecided,
      hash: world.trace.hash,
      events: world.time.tick,
      operations: world.operations,
      simulatedMs: world.time.elapsedMs,
      faults: [...counts.entries(), ...world.witness.refusals.entries()],
    };
  } finally {
    process.off("unhandledRejection", onUnhandled);
    world.close();
  }
}

/**
 * The release that takes the place of the one before. Where that had as many shards as it has by default, `SHARDS` may never
 * have been set: today's doors then begin namespaces with another number.
 */
function successorOf({ variables }: Plan, { today }: Releases): Release {
  return variables["SHARDS"] === SHARDS_BEFORE ? { ...today, variables: { SHARDS: "1" } } : today;
}

/** The deployment of an operator who accepts that the data is lost. */
const acceptingLoss = (today: Release): Release => ({
  ...today,
  variables: { ACCEPT_DATA_LOSS: "on" },
});

/** Where an operator splits none, shards don't split by themselves. */
function splitVariables({ splits, shardsMax, splitCalls }: Plan): Record<string, string> {
  const isOff = splits === 0;
  return {
    SHARDS_MAX: String(isOff ? 1 : shardsMax),
    SPLIT_CALLS_PER_SECOND: String(isOff ? 0 : splitCalls),
  };
}

/** Turns what the simulator itself throws into a violation, so that the campaign goes on and reports the seed. */
function playOrFail(world: World): readonly Violation[] {
  try {
    return world.play();
  } catch (error) {
    if (error instanceof EndlessRun) {
      const { message } = error;
      return [...world.violations, { promise: "Progress", subject: "the run", message }];
    }
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return [...world.violations, { promise: "The simulator", subject: "the run", message }];
  }
}
