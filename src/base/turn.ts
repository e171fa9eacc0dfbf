/**
 * A turn: lets the runtime serve its other events.
 *
 * The event loop of an isolate serves sockets and timers only when nothing else is ready. Code that goes from one promise to
 * the next that is ready already keeps all others waiting, so a long loop takes a turn between its steps.
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
