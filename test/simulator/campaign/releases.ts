/** The code that a deployment of a run can have. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Program } from "../platform/program.ts";
import { bundle, bundleOf, type Release } from "../platform/realm.ts";
import type { Code } from "../planted/faults.ts";
import { plantingIn } from "../planted/plugin.ts";
import { BEFORE, type ReleaseName } from "./release-names.ts";

/** Releases of the server, and today's package for callers. */
export interface Releases extends Readonly<Record<ReleaseName, Release>> {
  readonly callers: Program;
}

/** @param planted a fault that is planted in the code of today, by name; null for none */
export async function loadReleases(planted: string | null = null): Promise<Releases> {
  const bundleFor = async (code: Code, entry: string): Promise<Program> =>
    await bundle(entry, { plugins: planted === null ? [] : plantingIn(code, planted) });
  return {
    callers: await bundleFor("callers", "test/simulator/workloads/package-entry.ts"),
    today: { name: "today", program: await bundleFor("server", "src/worker/index.ts") },
    [BEFORE]: { name: BEFORE, program: bundleOf(`release ${BEFORE}`, sourceOfRelease(BEFORE)) },
  };
}

const sourceOfRelease = (name: string): string =>
  gunzipSync(readFileSync(resolve(import.meta.dirname, `../../data/${name}.js.gz`))).toString();
