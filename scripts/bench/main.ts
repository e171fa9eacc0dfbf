/**
 * `npm run bench`: how fast the server is, beside the platform's limit and Redis, on this machine.
 *
 * `--help` lists the flags. Everything that it starts and writes is ended and removed with it.
 */
import { spawnSync } from "node:child_process";
import { measureFanOut } from "./fan-out.ts";
import { measureFigures } from "./figures.ts";
import { Lab } from "./lab.ts";
import { measureLimits } from "./limits.ts";
import { measureList } from "./list.ts";
import { measureMatrix, type Cell } from "./matrix.ts";
import { measureMemory } from "./memory.ts";
import { measureMetrics } from "./metrics.ts";
import { readOptions, UsageError, type Options, type Part } from "./options.ts";
import {
  aimsOf,
  aimsText,
  describeMachine,
  figuresText,
  headerText,
  tableHead,
  tableRow,
} from "./report.ts";
import { limitsText } from "./report-limits.ts";
import { fanOutText, listText, memoryText, metricsText, semaphoresText } from "./report-parts.ts";
import { measureSemaphores } from "./semaphores.ts";

/** Hands over what a part gives, when the run measures it. */
type Measure = <T>(
  part: Part,
  measure: () => Promise<T>,
  text?: (result: T) => string,
) => Promise<T | null>;

async function run(lab: Lab, options: Options): Promise<void> {
  const say = (text: string): void => {
    if (!options.isJson) process.stdout.write(`${text}\n`);
  };
  const ifAsked: Measure = async (part, measure, text) => {
    if (!options.parts.includes(part)) return null;
    const result = await measure();
    if (text !== undefined) say(`\n${text(result)}`);
    return result;
  };
  const redis = await lab.startRedis();
  const machine = describeMachine(lab.folder, redis && redisVersion());
  say(headerText(machine, options));
  const cells: Cell[] = [];
  await ifAsked("table", async () => {
    say(`\n${tableHead()}`);
    await measureMatrix(lab, redis, options, (measured) => {
      cells.push(...measured);
      for (const cell of measured) say(tableRow(cell));
    });
  });
  const figures = await ifAsked("figures", () => measureFigures(lab), figuresText);
  const fanOut = await ifAsked("fan-out", () => measureFanOut(lab, options), fanOutText);
  const list = await ifAsked("list", () => measureList(lab, redis, options), listText);
  const metrics = await ifAsked("metrics", () => measureMetrics(lab, options), metricsText);
  const limits = await ifAsked("limits", () => measureLimits(lab, redis, options), limitsText);
  const semaphores = await ifAsked(
    "semaphores",
    () => measureSemaphores(lab, options),
    semaphoresText,
  );
  const memory = await ifAsked("memory", () => measureMemory(lab, options), memoryText);
  const aims = aimsOf(cells, figures, metrics);
  say(`\n${aimsText(aims)}`);
  if (!options.isJson) return;
  const parts = { figures, fanOut, list, metrics, limits, semaphores, memory };
  const all = { machine, options, cells, ...parts, aims };
  process.stdout.write(`${JSON.stringify(all, null, 2)}\n`);
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
