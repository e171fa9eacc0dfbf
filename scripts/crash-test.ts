/** `npm run crash-test [rounds] [-- --seed=N]`: kills the server under load and looks for lost writes. */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { crashRounds } from "./crash/rounds.ts";
import { CrashViolation } from "./crash/violation.ts";

const ROUNDS_DEFAULT = 10;
const EXIT_VIOLATION = 1;
const EXIT_USAGE = 2;

function readArguments(): { rounds: number; seed: number } {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seed: { type: "string" } },
  });
  const rounds = Number(positionals[0] ?? ROUNDS_DEFAULT);
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  if (
    !Number.isInteger(rounds) ||
    rounds < 1 ||
    !Number.isInteger(seed) ||
    positionals.length > 1
  ) {
    console.error("usage: npm run crash-test [rounds] [-- --seed=N]");
    process.exit(EXIT_USAGE);
  }
  return { rounds, seed };
}

const { rounds, seed } = readArguments();
// Leaving runs what ends the server and removes its files.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

console.log(
  `seed ${seed}: repeats the requests and the times, not how far the server comes by then`,
);
try {
  const totals = await crashRounds(rounds, seed, console.log);
  console.log(
    `${totals.rounds} rounds, ${totals.acknowledgedWrites} writes acknowledged, ` +
      `${totals.verifiedKeys} keys verified, ${totals.cuts} journal cuts, ` +
      `${totals.killsWithinCuts} kills within one, 0 violations`,
  );
} catch (error) {
  if (!(error instanceof CrashViolation)) throw error;
  console.error(`violation (seed ${seed}): ${error.message}`);
  process.exitCode = EXIT_VIOLATION;
}
