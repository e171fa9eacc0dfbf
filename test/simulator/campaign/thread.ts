/** A thread of a campaign: plays the seeds that it is given, one after the other. */
import { parentPort } from "node:worker_threads";
import { releaseOfToday } from "./releases.ts";
import { planOf } from "./plan.ts";
import { play } from "./play.ts";

const release = await releaseOfToday();
parentPort!.on("message", (seed: number) => {
  void play(planOf(seed), release).then((played) => parentPort!.postMessage(played));
});
parentPort!.postMessage(null);
