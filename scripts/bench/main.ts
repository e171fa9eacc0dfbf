/**
 * `npm run bench`: how fast the server is, beside the platform's limit and Redis, on this machine.
 *
 * `--help` lists the flags. Everything that it starts and writes is ended and removed with it.
 */
import { spawnSync } from "node:child_process";
import { measureFigures, type Figures } from "./figures.ts";
import { Lab } from "./lab.ts";
import { measureMatrix, type Cell } from "./matrix.ts";
import { readOptions, UsageError, type Options } from "./options.ts";
import {
  aimsOf,
  aimsText,
  describeMachine,
  figuresText,
  headerText,
  tableHead,
  tableRow,
} from "./report.ts";

async function run(lab: Lab, options: Options): Promise<void> {
  const say = (text: string): void => {
    if (!options.isJson) process.stdout.write(`${text}\n`);
  };
  const redis = await lab.startRedis();
  const machine = describeMachine(lab.folder, redis && redisVersion());
  say(`${headerText(machine, options)}\n\n${tableHead()}`);
  const cells: Cell[] = [];
  await measureMatrix(lab, redis, options, (measured) => {
    cells.push(...measured);
    for (const cell of measured) say(tableRow(cell));
  });
  const figures: Figures | null = options.hasFigures ? await measureFigures(lab) : null;
  if (figures !== null) say(`\n${figuresText(figures)}`);
  const aims = aimsOf(cells, figures);
  say(`\n${aimsText(aims)}`);
  if (!options.isJson) return;
  process.stdout.write(`${JSON.stringify({ machine, options, cells, figures, aims }, null, 2)}\n`);
}

function redisVersion(): string {
  const { stdout } = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
  return /v=(\S+)/.exec(stdout)?.[1] ?? "unknown";
}

function readOptionsOrExit(): Options {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    (error.isHelp ? process.stdout : process.stderr).write(`${error.message}\n`);
    process.exit(error.isHelp ? 0 : 2);
  }
}

const options = readOptionsOrExit();
const lab = new Lab();
process.on("exit", () => lab.closeNow());
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.on(signal, () => process.exit(code));
}
try {
  await run(lab, options);
} finally {
  await lab.close();
}
