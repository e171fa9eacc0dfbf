/** All workloads, by name. */
import {
  isRelaxed,
  losesForGood,
  mistakesOf,
  neighbours,
  neighboursOf,
  type Plan,
} from "../campaign/plan.ts";
import type { Workload } from "../world.ts";
import { Channels } from "./channels.ts";
import { Counts } from "./counts.ts";
import { Hoard } from "./hoard.ts";
import { Limits } from "./limits.ts";
import { Listings } from "./listings.ts";
import { NEIGHBOUR } from "./namespaces.ts";
import { Records } from "./records.ts";
import { Semaphores } from "./semaphores.ts";
import { Splits } from "./splits.ts";
import { Tokens } from "./tokens.ts";

export type WorkloadName = "channels" | "limits" | "listings" | "records" | "semaphores" | "tokens";

/** A run has some of them, whose clients share the deployment. */
export const WORKLOADS: Readonly<Record<WorkloadName, (plan: Plan) => Workload>> = {
  channels: (plan) => new Channels(plan),
  limits: (plan) => new Limits(plan),
  listings: (plan) => new Listings(plan),
  records: (plan) => new Records(plan),
  semaphores: (plan) => new Semaphores(plan),
  tokens: (plan) => new Tokens(plan),
};

/** They share the clients and the operations of the run. An operator splits shards beside them, and a client fills small ones. */
export function workloadsOf(plan: Plan): Workload[] {
  const isLossy = losesForGood(plan);
  const workloads = namesOf(plan);
  const share = {
    ...plan,
    clients: Math.ceil(plan.clients / workloads.length),
    operations: Math.ceil(plan.operations / workloads.length),
  };
  const some = workloads.map((name) => WORKLOADS[name](share));
  if (neighboursOf(plan) > 0) some.push(new Records(neighbours(plan), NEIGHBOUR));
  if (plan.splits > 0) some.push(new Splits(plan));
  // Release 0.4.0 forgets its counts with each start.
  if (plan.release === "today" && !isLossy) some.push(new Counts(plan));
  if (plan.variables["SHARD_BYTES_MAX"] !== undefined) some.push(new Hoard(plan));
  return some;
}

function namesOf(plan: Plan): readonly WorkloadName[] {
  // The checkers of the others expect that what was acknowledged stays.
  if (losesForGood(plan)) return ["records"];
  const names = plan.workloads.filter((name) => !isLeftOut(name, plan));
  return names.length > 0 ? names : ["records"];
}

function isLeftOut(name: WorkloadName, plan: Plan): boolean {
  // Groups of channels have no data that would tell their secret: callers of two secrets miss each other.
  if (name === "channels") return mistakesOf(plan) > 0;
  // The checker of listings expects that what was acknowledged stays.
  return name === "listings" && isRelaxed(plan);
}
