/** Splits against models that never split: any requests, at any step of any split, whoever crashes at it. */
import fc from "fast-check";
import { describe, expect, inject, it, vi } from "vitest";
import { met, SplitRun, stepArbitrary } from "../support/engine/split-run.ts";
import { runs } from "../support/runs.ts";

/** At these values a short run meets full queues, and walks of many steps. */
vi.mock("../../src/engine/sizes.ts", async (importOriginal) => ({
  ...(await importOriginal<object>()),
  SEGMENT_SPLIT_SLOTS: 16,
  WALK_STEP_SLOTS: 32,
  WALK_SEGMENT_SLOTS_MIN: 4,
  SPLIT_QUEUE_BYTES: 1500,
  SPLIT_ROW_BYTES: 400,
  SPLIT_STEP_BYTES: 300,
  SNAPSHOT_STEP_BYTES: 500,
  JOURNAL_ROW_BYTES_MAX: 2000,
  SEMAPHORE_INDEX_BYTES_MIN: 256,
}));

const seed = inject("seed");

describe("shards that split", () => {
  it("shards that split answer as one that never does, whatever is asked, sent twice or crashes at any step", () => {
    const property = fc.property(
      fc.array(stepArbitrary, { minLength: 20, maxLength: 120, size: "max" }),
      fc.integer(),
      (steps, placementSeed) => {
        const run = new SplitRun(placementSeed);
        for (const each of steps) run.take(each);
        run.take({ do: "finish" });
        run.look();
      },
    );
    fc.assert(property, { seed, numRuns: runs(400) });
    expect([...met.keys()]).toEqual(
      expect.arrayContaining(["switch", "given up", "lost", "crash of phase 1", "lease"]),
    );
  });
});
