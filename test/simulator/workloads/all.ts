/** All workloads, by name. */
import type { Plan } from "../campaign/plan.ts";
import type { Workload } from "../world.ts";
import { Limits } from "./limits.ts";
import { Records } from "./records.ts";
import { Semaphores } from "./semaphores.ts";

export type WorkloadName = "limits" | "records" | "semaphores";

/** A run has some of them, whose clients share the deployment. */
export const WORKLOADS: Readonly<Record<WorkloadName, (plan: Plan) => Workload>> = {
  limits: (plan) => new Limits(plan),
  records: (plan) => new Records(plan),
  semaphores: (plan) => new Semaphores(plan),
};

export const workloadsOf = (plan: Plan): Workload[] =>
  plan.workloads.map((name) => WORKLOADS[name](plan));
