/** The code that a deployment of a run can have. */
import type { Release } from "../platform/cluster.ts";
import { bundle } from "../platform/realm.ts";
import { planting } from "../planted/plugin.ts";

/** @param planted a fault that is planted in it, by name; null for none */
export async function releaseOfToday(planted: string | null = null): Promise<Release> {
  const plugins = planted === null ? [] : [planting(planted)];
  return { name: "today", bundle: await bundle("src/worker/index.ts", { plugins }) };
}
