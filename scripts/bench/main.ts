/**
 * `npm run bench`: how fast the server is, beside the platform's limit and Redis, on this machine.
 *
 * Prints Markdown, and progress on standard error. `--help` lists the flags. Every server that it starts ends with it,
 * and what they wrote is removed; only `--write` leaves a document and its charts.
 */
import { spawnSync } from "node:child_process";
import { writeDocument } from "./document.ts";
import { measureFanOut } from "./fan-out.ts";
import { measureFigures } from "./figures.ts";
import { Lab } from "./lab.ts";
import { measureLimits } from "./limits.ts";
import { measureList } from "./list.ts";
import { measureLocal } from "./local.ts";
import { measureMatrix } from "./matrix.ts";
import { measureMemory } from "./memory.ts";
import { measureMetrics } from "./metrics.ts";
import { readOptions, UsageError, type Options, type Part } from "./options.ts";
import { aimsOf, aimsText, describeMachine, figuresText, headerText, tableText } from "./report.ts";
import { limitsText } from "./report-limits.ts";
import { localText } from "./report-local.ts";
import { fanOutText, listText, memoryText, metricsText, semaphoresText } from "./report-parts.ts";
import { splitText } from "./report-split.ts";
import { measureSemaphores } from "./semaphores.ts";
import { measureSplit } from "./split.ts";

/** Measures a part, if the run is asked to, and says what it gave. */
type Measure = <T>(
  part: Part,
  measure: () => Promise<T>,
  text: (result: T) => string,
) => Promise<T | null>;

async function run(lab: Lab, options: Options): Promise<void> {
  const sections: string[] = [];
  const say = (text: string): void => {
    if (!options.isJson) process.stdout.write(`${text}\n\n`);
  };
  const progress = (text: string): void => {
    process.stderr.write(`${text}\n`);
  };
  const ifAsked: Measure = async (part, measure, text) => {
    if (!options.parts.includes(part)) return null;
    progress(`measuring ${part}`);
    const result = await measure();
    sections.push(text(result));
    say(sections.at(-1)!);
    return result;
  };
  const redis = await lab.startRedis("everysec");
  const redises = { everySecond: redis, always: redis && (await lab.startRedis("always")) };
  const machine = describeMachine(lab.folder, redis && redisVersion());
  const header = headerText(machine);
  say(header);
  const cells = await ifAsked(
    "table",
    () =>
      measureMatrix(lab, redises, options, ({ depth, connections }) =>
        progress(`  depth ${depth}, connections ${connections}`),
      ),
    (measured) => tableText(measured, options),
  );
  const figures = await ifAsked("figures", () => measureFigures(lab), figuresText);
  const fanOut = await ifAsked("fan-out", () => measureFanOut(lab, options), fanOutText);
  const list = await ifAsked("list", () => measureList(lab, redis, options), listText);
  const metrics = await ifAsked("metrics", () => measureMetrics(lab, options), metricsText);
  const limits = await ifAsked("limits", () => measureLimits(lab, redis, options), limitsText);
  const local = await ifAsked("local", () => measureLocal(lab, redis, options), localText);
  const semaphores = await ifAsked(
    "semaphores",
    () => measureSemaphores(lab, options),
    semaphoresText,
  );
  const split = await ifAsked("split", () => measureSplit(lab, options), splitText);
  const memory = await ifAsked("memory", () => measureMemory(lab, options), memoryText);
  const aims = aimsOf({ cells: cells ?? [], figures, metrics, local });
  sections.push(aimsText(aims));
  say(sections.at(-1)!);
  if (options.writeTo !== null) {
    const { command, writeTo } = options;
    await writeDocument(writeTo, { command, header, sections, cells: cells ?? [], limits });
  }
  if (!options.isJson) return;
  const parts = { figures, fanOut, list, metrics, limits, local, semaphores, split, memory };
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
