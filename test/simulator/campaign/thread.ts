/** A thread of a campaign: plays the plans that it is given, one after the other. */
import { parentPort, workerData } from "node:worker_threads";
import { loadReleases } from "./releases.ts";
import type { Plan } from "./plan.ts";
import { play } from "./play.ts";

/** What a thread needs to begin. */
export interface ThreadOptions {
  /** A fault that is planted in the code of today, by name; null for none. */
  readonly planted: string | null;
}

const releases = loadReleases((workerData as ThreadOptions).planted);
// A plan that comes while the code is bundled must not be the first to learn that it can't be.
releases.catch(() => {});

parentPort!.on("message", (plan: Plan) => {
  void releases.then(async (loaded) => {
    const played = await play(plan, loaded);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    parentPort!.postMessage(played);
  });
});
