/** How long operators see why a split does not come to its end. */
import { describe, expect, it } from "vitest";
import { SPLIT_RETRY_MS_MAX } from "../../src/engine/sizes.ts";
import { SplitProblem, type SplitCause } from "../../src/objects/shard/split-problem.ts";

const NOW_MS = 1_000_000;

/** A problem with a split, of a shard that is large and hot until the test says otherwise. */
function noted(cause: SplitCause | "untold"): { problem: SplitProblem; wanted: Set<string> } {
  const wanted = new Set(["size", "load"]);
  const problem = new SplitProblem((one) => wanted.has(one));
  problem.note("not reached", cause, NOW_MS);
  return { problem, wanted };
}

describe("the problem of a shard with a split", () => {
  it.each(["size", "load"] as const)("ends when the shard needs no split by its %s", (cause) => {
    const { problem, wanted } = noted(cause);
    wanted.delete(cause === "size" ? "load" : "size");
    expect(problem.endsAt(NOW_MS)).toBe(false);
    expect(problem.reasonAt(NOW_MS + 100 * SPLIT_RETRY_MS_MAX)).toBe("not reached");
    wanted.delete(cause);
    expect(problem.endsAt(NOW_MS)).toBe(true);
    wanted.add(cause);
    expect(problem.reasonAt(NOW_MS)).toBeNull();
    expect(problem.endsAt(NOW_MS)).toBe(false);
  });

  it("of a split that an operator has asked for ends an hour later, or when the clock goes back", () => {
    const { problem, wanted } = noted("operator");
    wanted.clear();
    expect(problem.reasonAt(NOW_MS + SPLIT_RETRY_MS_MAX - 1)).toBe("not reached");
    expect(problem.reasonAt(NOW_MS + SPLIT_RETRY_MS_MAX)).toBeNull();
    expect(noted("operator").problem.reasonAt(NOW_MS - 1)).toBeNull();
  });

  it("of a split that the other shard was not told of lasts until it is told", () => {
    const { problem, wanted } = noted("untold");
    wanted.clear();
    expect(problem.reasonAt(NOW_MS + 100 * SPLIT_RETRY_MS_MAX)).toBe("not reached");
    problem.clear();
    expect(problem.reasonAt(NOW_MS)).toBeNull();
  });
});
