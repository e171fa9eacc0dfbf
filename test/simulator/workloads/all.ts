/** All workloads, by name. */
import type { Plan } from "../campaign/plan.ts";
import type { Workload } from "../world.ts";
import { Increments } from "./increments.ts";
import { Semaphores } from "./semaphores.ts";

export type WorkloadName = "increments" | "semaphores";

/** A run has some of them, whose clients share the deployment. */
export const WORKLOADS: Readonly<Record<WorkloadName, (plan: Plan) => Workload>> = {
  increments: (plan) => new Increments(plan),
  semaphores: (plan) => new Semaphores(plan),
};

export const workloadsOf = (plan: Plan): Workload[] =>
  plan.workloads.map((name) => WORKLOADS[name](plan));
