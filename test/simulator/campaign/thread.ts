/** A thread of a campaign: plays the plans that it is given, one after the other. */
import { parentPort, workerData } from "node:worker_threads";
import { loadReleases } from "./releases.ts";
import type { Plan } from "./plan.ts";
import { play, type Played } from "./play.ts";

/** What a thread needs to begin. */
export interface ThreadOptions {
  /** A fault that is planted in the code of today, by name; null for none. */
  readonly planted: string | null;
}

/** What it answers: a run, or why it can play none. */
export type ThreadAnswer = Played | { readonly failed: Error };

const releases = loadReleases((workerData as ThreadOptions).planted);
// A plan that comes while the code is bundled must not be the first to learn that it can't be.
releases.catch(() => {});

const answer = (given: ThreadAnswer): void => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort!.postMessage(given);
};

parentPort!.on("message", (plan: Plan) => {
  // What a run itself throws ends the thread.
  void releases.then(
    async (loaded) => answer(await play(plan, loaded)),
    (error: unknown) => answer({ failed: error as Error }),
  );
});
