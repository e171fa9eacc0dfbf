/** The code that a deployment of a run can have. */
import type { Release } from "../platform/cluster.ts";
import { bundle } from "../platform/realm.ts";

export async function releaseOfToday(): Promise<Release> {
  return { name: "today", bundle: await bundle("src/worker/index.ts") };
}
