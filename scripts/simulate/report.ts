/** What `npm run simulate` prints of runs. */
import { writePlan, type Plan } from "../../test/simulator/campaign/plan.ts";
import type { Played } from "../../test/simulator/campaign/play.ts";

const WIDTH = 110;
const KIND_WIDTH = 32;
const COUNT_WIDTH = 9;
/** A person reads the first ones. */
const VIOLATIONS_MAX = 5;

/** Faults by kind, each with the steps at which it happened. */
export function faultTable(faults: ReadonlyMap<string, number>): string {
  const kinds = Map.groupBy(faults, ([name]) => name.slice(0, name.indexOf(": ")));
  const rows = [...kinds].map(([kind, of]) => {
    const total = of.reduce((sum, [, count]) => sum + count, 0);
    const steps = of.map(([name, count]) => `${name.slice(kind.length + 2)} ${count}`);
    const indent = " ".repeat(KIND_WIDTH + COUNT_WIDTH + 2);
    const text = wrapped(steps.join(", "), WIDTH - indent.length).join(`\n${indent}`);
    return `${kind.padEnd(KIND_WIDTH)}${String(total).padStart(COUNT_WIDTH)}  ${text}`;
  });
  const head = `${"fault".padEnd(KIND_WIDTH)}${"times".padStart(COUNT_WIDTH)}  where`;
  return [head, ...rows].join("\n");
}

export function violationLines({ violations }: Played): string[] {
  const lines = violations
    .slice(0, VIOLATIONS_MAX)
    .map(({ promise, subject, message }) => `violation: ${promise}: ${subject}: ${message}`);
  const left = violations.length - lines.length;
  return left > 0 ? [...lines, `and ${left} more`] : lines;
}

/** What plays a run again: its seed alone, unless its plan is another one than that of its seed, as with `--workloads`. */
export function commandOf(plan: Plan): string {
  const { seed } = plan;
  const text = writePlan(plan);
  const isOfSeed = text === JSON.stringify({ seed });
  return `npm run simulate -- ${isOfSeed ? `--seed ${seed}` : `--plan '${text}'`} --trace`;
}

/** A key that no checker could judge. */
export const undecidedLine = (seed: number, key: string): string =>
  `undecided: seed ${seed}: too many calls overlap on ${key}`;

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [""];
  for (const word of text.split(/(?<=, )/)) {
    if (lines.at(-1)!.length + word.length > width) lines.push("");
    lines[lines.length - 1] += word;
  }
  return lines.map((line) => line.trimEnd());
}
