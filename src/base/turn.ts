/**
 * A turn: lets the runtime look at its sockets and timers.
 *
 * Where one answer of an object follows the other, with what is always ready, nothing else is served in
 * between: whoever does much in a row, at somebody's request, takes turns.
 */
import type { Steps } from "../engine/walk.ts";

/** Lets others have a turn. A timer, not `scheduler.wait`: Node has no such global, and unit tests take turns too. */
export async function turn(): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, 0);
  });
}

/** Takes the steps of a walk, with a turn between them. */
export async function inTurns<Result>(steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await turn();
  }
}
