/** `npm run crash-test`: kills the server under load and looks for lost writes. */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { SERVER_KINDS } from "./crash/launcher.ts";
import { crashRounds } from "./crash/rounds.ts";
import { SERVER_DEFAULT, type ServerChoice } from "./crash/site.ts";
import { CrashViolation } from "./crash/violation.ts";

const ROUNDS_DEFAULT = 10;
const SHARDS_MAX = 128;
const SEED_MAX = 2 ** 31;
const EXIT_VIOLATION = 1;
const EXIT_USAGE = 2;
const USAGE = `npm run crash-test -- [rounds] [--server start|serve] [--shards <number>] [--split] [--seed <number>]

  rounds             how often the server is killed (default: ${ROUNDS_DEFAULT})
  --server <kind>    start: wrangler dev, as npm start runs it; serve: the packaged
                     server, as throttr-edge serve runs it (default: ${SERVER_DEFAULT.kind})
  --shards <number>  objects that the keys are spread over (default: ${SERVER_DEFAULT.shards})
  --split            shards have little memory, so that they split under the load
  --seed <number>    repeats the requests and the times (default: a random one)
  --help             prints this`;

interface Arguments {
  readonly rounds: number;
  readonly seed: number;
  readonly server: ServerChoice;
}

/** @throws Error that says what is wrong */
function readArguments(): Arguments {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seed: { type: "string" },
      server: { type: "string", default: SERVER_DEFAULT.kind },
      split: { type: "boolean", default: false },
      shards: { type: "string", default: String(SERVER_DEFAULT.shards) },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true) {
    console.log(USAGE);
    process.exit(0);
  }
  const [rounds = String(ROUNDS_DEFAULT), ...others] = positionals;
  if (others.length > 0) throw new Error(`unexpected argument ${others[0]}`);
  const kind = SERVER_KINDS.find((name) => name === values.server);
  if (kind === undefined)
    throw new Error(`--server: expected start or serve, got ${values.server}`);
  return {
    rounds: wholeNumber("rounds", rounds, 1, Number.MAX_SAFE_INTEGER),
    seed:
      values.seed === undefined
        ? randomInt(SEED_MAX)
        : wholeNumber("--seed", values.seed, 0, SEED_MAX),
    server: {
      kind,
      shards: wholeNumber("--shards", values.shards, 1, SHARDS_MAX),
      isSplitting: values.split,
    },
  };
}

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= max) return number;
  throw new Error(`${name}: expected a whole number from ${min} to ${max}, got ${text}`);
}

function argumentsOrExit(): Arguments {
  try {
    return readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return process.exit(EXIT_USAGE);
  }
}

const { rounds, seed, server } = argumentsOrExit();
// Leaving runs what ends the server and removes its files.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

console.log(
  `${server.kind}, ${server.shards} shards, seed ${seed}: repeats the requests and the times, not how far the server comes by then`,
);
try {
  const totals = await crashRounds(rounds, seed, console.log, server);
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
