/** A thread of a campaign: plays the seeds that it is given, one after the other. */
import { parentPort } from "node:worker_threads";
import { releaseOfToday } from "./releases.ts";
import { planOf } from "./plan.ts";
import { play, type Played } from "./play.ts";

const release = await releaseOfToday();
parentPort!.on("message", (seed: number) => {
  void play(planOf(seed), release).then(tell);
});
tell(null);

function tell(played: Played | null): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort!.postMessage(played);
}
