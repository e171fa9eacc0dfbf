/**
 * Makes a run that breaks a promise smaller, for a person who will read its trace: fewer workloads, clients, operations, machines
 * and minutes, as long as the same promise is broken.
 */
import type { Plan } from "./plan.ts";
import type { Played } from "./play.ts";

/** The most runs that shrinking plays. */
const TRIES_MAX = 40;

/** @param playAgain plays a smaller plan */
export async function shrunk(
  failed: Played,
  playAgain: (plan: Plan) => Promise<Played>,
): Promise<Played> {
  let smallest = failed;
  let tries = 0;
  for (let hasShrunk = true; hasShrunk;) {
    hasShrunk = false;
    for (const plan of smallerThan(smallest.plan)) {
      if (++tries > TRIES_MAX) return smallest;
      const played = await playAgain(plan);
      if (!breaksSame(failed, played)) continue;
      smallest = played;
      hasShrunk = true;
      break;
    }
  }
  return smallest;
}

function* smallerThan(plan: Plan): Generator<Plan> {
  for (const left of plan.workloads) {
    const workloads = plan.workloads.filter((name) => name !== left);
    if (workloads.length > 0) yield { ...plan, workloads };
  }
  if (plan.hasFaults && plan.release === "today") yield { ...plan, hasFaults: false };
  if (plan.neighbours > 0) yield { ...plan, neighbours: 0 };
  if (plan.losses > 0) yield { ...plan, losses: 0 };
  if (plan.changes > 0) yield { ...plan, changes: 0 };
  if (plan.mistakes > 0) yield { ...plan, mistakes: 0 };
  if (plan.clients > 1) yield { ...plan, clients: Math.floor(plan.clients / 2) };
  if (plan.operations > 20) yield { ...plan, operations: Math.floor(plan.operations / 2) };
  if (plan.durationMs > 10_000) yield { ...plan, durationMs: Math.floor(plan.durationMs / 2) };
  if (plan.machines > 1) yield { ...plan, machines: 1 };
  if (plan.doors > 1) yield { ...plan, doors: 1 };
}

const breaksSame = (a: Played, b: Played): boolean =>
  b.violations.some(({ promise }) => promise === a.violations[0]!.promise);
