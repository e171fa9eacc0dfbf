/** The runs that look for a planted fault: of the workload alone that can find it, and short. */
import { DURATION_MS, plansFrom, type Plan } from "../campaign/plan.ts";
import type { PlantedFault } from "./faults.ts";

const OPERATIONS = 1500;

export function* plansFor(fault: PlantedFault, first: number, count: number): Generator<Plan> {
  const own = {
    workloads: [fault.workload],
    durationMs: DURATION_MS,
    splits: fault.splits ?? 0,
    losses: fault.losses ?? 0,
    acceptsLoss: fault.acceptsLoss === true,
    changes: 0,
    mistakes: fault.mistakes ?? 0,
    neighbours: fault.neighbours ?? 0,
    aims: fault.aims ?? [],
    operations: fault.operations ?? OPERATIONS,
    release: "today",
    hasFaults: fault.isCalm !== true,
  } as const;
  const durability = { DURABILITY: fault.isRelaxed === true ? "relaxed" : "strict" };
  for (const plan of plansFrom(first, count))
    yield { ...plan, ...own, variables: { ...plan.variables, ...durability } };
}
