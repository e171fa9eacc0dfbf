/** `npm run simulate -- --planted`: how many seeds it takes to find each fault that is planted in the production code. */
import { campaign } from "../../test/simulator/campaign/campaign.ts";
import { PLANTED } from "../../test/simulator/planted/faults.ts";
import { plansFor } from "../../test/simulator/planted/plans.ts";
import { EXIT_USAGE, EXIT_VIOLATION } from "./exit.ts";

/** @param options.name of one fault; null for all of them */
export async function findPlanted(options: {
  readonly name: string | null;
  readonly seeds: number;
  readonly threads: number | undefined;
}): Promise<void> {
  const { name, seeds, threads } = options;
  const faults = PLANTED.filter((fault) => name === null || fault.name === name);
  if (faults.length === 0) {
    console.error(
      `there is no planted fault ${name}: ${PLANTED.map((fault) => fault.name).join(", ")}`,
    );
    process.exitCode = EXIT_USAGE;
  }
  for (const fault of faults) {
    const planted = fault.name;
    const totals = await campaign({
      plans: plansFor(fault, 1, seeds),
      planted,
      ...(threads !== undefined && { threads }),
    });
    const [found] = totals.failed;
    if (found === undefined) {
      console.error(`${planted}: not found in ${totals.runs} runs`);
      process.exitCode = EXIT_VIOLATION;
    } else {
      const { promise, subject, message } = found.violations[0]!;
      console.log(
        `${planted}: found by seed ${found.plan.seed}, run ${totals.runs}: ${promise}: ${subject}: ${message.slice(0, 200)}`,
      );
    }
  }
}
