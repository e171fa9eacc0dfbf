/**
 * Faults to be planted in the production code, one at a time: the simulator must find each of them. Each is something that a tired
 * person might write, or leave out.
 */

import type { WorkloadName } from "../workloads/all.ts";

export interface PlantedFault {
  readonly name: string;
  /** Path of the module, from the root of the project. */
  readonly module: string;
  /** Must be in the module exactly once. */
  readonly text: string;
  /** What takes its place. */
  readonly planted: string;
  /** Whose clients see it. */
  readonly workload: WorkloadName;
  /** A seed that finds it: see `plansFor`. */
  readonly seed: number;
}

export const PLANTED: readonly PlantedFault[] = [
  {
    name: "a reply before the commit",
    module: "src/objects/shard/group-commit.ts",
    text: "if (this.#isStrict && !isRelaxed) await this.#flushNow();",
    planted: "if (this.#isStrict && !isRelaxed) void this.#flushNow();",
    workload: "records",
    seed: 34,
  },
  {
    name: "a removed record has no tombstone",
    module: "src/engine/records.ts",
    text: "this.commit.removed(this.segment, this.slot);",
    planted: "",
    workload: "records",
    seed: 1,
  },
  {
    name: "a cut leaves a row out of its snapshot",
    module: "src/objects/shard/journal.ts",
    text: "for (const row of step.rows) {",
    planted: "for (const row of step.rows.slice(1)) {",
    workload: "records",
    seed: 2,
  },
  {
    name: "a snapshot is in force before it is complete",
    module: "src/objects/shard/journal.ts",
    text: "if (step.cursor !== null) return;",
    planted: "this.#cursor = null;",
    workload: "records",
    seed: 6,
  },
  {
    name: "an idempotency key of another call is accepted",
    module: "src/engine/kept-answers.ts",
    text: "if (segment.arena[at + i] === this.#kept.bytes[keyBytes + i]) continue;",
    planted: "continue;",
    workload: "records",
    seed: 1,
  },
  {
    name: "a listing that has left the order of keys begins again in the next shard",
    module: "src/dispatch/scans.ts",
    text: "else cursor = shard + 1 < map.shards ? startOf(shard + 1, behind) : null;",
    planted: "else cursor = shard + 1 < map.shards ? startOf(shard + 1, null) : null;",
    workload: "listings",
    seed: 1,
  },
  {
    name: "the removal of a prefix ends with its first step",
    module: "src/dispatch/scans.ts",
    text: "for await (const step of steps) removed += step.removed;",
    planted: "for await (const step of steps) { removed += step.removed; break; }",
    workload: "listings",
    seed: 3,
  },
  {
    name: "an object does not learn that the platform's clock is ahead of its own",
    module: "src/base/alarm-clock.ts",
    text: "this.#noteAhead();",
    planted: "",
    workload: "limits",
    seed: 2,
  },
];
