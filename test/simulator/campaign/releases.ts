/** The code that a deployment of a run can have. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { bundle, bundleOf, type Release } from "../platform/realm.ts";
import { planting } from "../planted/plugin.ts";
import { BEFORE, type ReleaseName } from "./release-names.ts";

export type Releases = Readonly<Record<ReleaseName, Release>>;

/** @param planted a fault that is planted in the code of today, by name; null for none */
export async function loadReleases(planted: string | null = null): Promise<Releases> {
  const plugins = planted === null ? [] : [planting(planted)];
  return {
    today: { name: "today", program: await bundle("src/worker/index.ts", { plugins }) },
    [BEFORE]: { name: BEFORE, program: bundleOf(`release ${BEFORE}`, sourceOfRelease(BEFORE)) },
  };
}

const sourceOfRelease = (name: string): string =>
  gunzipSync(readFileSync(resolve(import.meta.dirname, `../../data/${name}.js.gz`))).toString();
