/** Walks that are done in steps, without anything between them. */
import type { Steps } from "../../../src/engine/walk.ts";

/** Takes all steps of a walk. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
