/** Reports runs that broke a promise: what was broken, how to play the run again, and the smallest run that breaks the same. */
import { mkdirSync, writeFileSync } from "node:fs";
import { play, type Played } from "../../test/simulator/campaign/play.ts";
import { Player } from "../../test/simulator/campaign/player.ts";
import { loadReleases } from "../../test/simulator/campaign/releases.ts";
import { shrunk } from "../../test/simulator/campaign/shrink.ts";
import { commandOf, violationLines } from "./report.ts";
import type { FailedRun } from "./result.ts";

/** Where traces are written. */
const FOLDER = ".wrangler/simulator";
/** How many lines of a trace are printed: its last ones. */
const LINES_PRINTED = 60;

export const failureLines = ({ seed, command, violations }: FailedRun): string[] => [
  `seed ${seed}:`,
  ...violations,
  `repeat it:          ${command}`,
];

/** Plays smaller and smaller runs, and writes the trace of the last one that breaks the same promise. */
export async function shrinkFailed(failed: Played): Promise<void> {
  const { seed } = failed.plan;
  // A run that has ended its thread would end this one, too.
  if (failed.events === 0) return;
  const player = new Player();
  const smallest = await shrunk(failed, async (plan) => await player.play(plan));
  await player.close();
  const releases = await loadReleases();
  const lines: string[] = [];
  const { violations } = await play(smallest.plan, releases, (line) => lines.push(line));
  mkdirSync(FOLDER, { recursive: true });
  const path = `${FOLDER}/${seed}.trace`;
  const text = violationLines({ ...smallest, violations }).join("\n");
  writeFileSync(path, `${JSON.stringify(smallest.plan)}\n${lines.join("\n")}\n${text}\n`);
  console.error(`\nrepeat seed ${seed}, shrunk:  ${commandOf(smallest.plan)}`);
  console.error(`the trace of the shrunk run is ${path}, ${lines.length} lines; its end:`);
  for (const line of lines.slice(-LINES_PRINTED)) console.error(line);
  console.error(text);
}
