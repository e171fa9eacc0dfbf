/** Plays one run again, with its trace if a person wants to read it. */
import type { Plan } from "../../test/simulator/campaign/plan.ts";
import { play } from "../../test/simulator/campaign/play.ts";
import { loadReleases } from "../../test/simulator/campaign/releases.ts";
import { EXIT_VIOLATION } from "./exit.ts";
import { faultTable, undecidedLine, violationLines } from "./report.ts";

export async function simulateOne(plan: Plan, hasTrace: boolean): Promise<void> {
  console.log(`plan ${JSON.stringify(plan)}`);
  const print = hasTrace ? (line: string) => console.log(line) : null;
  const played = await play(plan, await loadReleases(), print);
  console.log(faultTable(new Map(played.faults)));
  console.log(
    `${played.operations} operations, ${played.events} events, hash ${played.hash}, ` +
      `${played.violations.length} violations`,
  );
  for (const key of played.undecided) console.error(undecidedLine(plan.seed, key));
  for (const line of violationLines(played)) console.error(line);
  if (played.violations.length > 0) process.exitCode = EXIT_VIOLATION;
}
