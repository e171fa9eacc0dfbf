/** Tables for people: columns without rules, so that `cut`, `awk` and `grep` can read them too. */
import Table from "cli-table3";
import type { Output } from "./output.ts";

/** The names of all rules that cli-table3 draws, except the one between columns. */
const LINE_PARTS =
  "top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid";
const NO_LINES = Object.fromEntries(LINE_PARTS.split(" ").map((part) => [part, ""]));

/** A column: its heading, and whether its cells align to the right. */
export interface Column {
  readonly heading: string;
  readonly isNumber?: boolean;
}

/** A table. A listing in pages prints headings with its first page only. */
export function tableOf(
  output: Output,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  hasHeadings = true,
): string {
  const table = new Table({
    head: hasHeadings ? columns.map(({ heading }) => output.strong(heading)) : [],
    colAligns: columns.map(({ isNumber }) => (isNumber === true ? "right" : "left")),
    chars: { ...NO_LINES, middle: "  " },
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0, compact: true },
  });
  table.push(...rows.map((row) => [...row]));
  return trimmed(table.toString());
}

/** Names and their values, one per line. */
export function listOf(output: Output, entries: readonly (readonly [string, string])[]): string {
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries
    .map(([name, value]) => `${output.faint(name.padEnd(width))}  ${value}`.trimEnd())
    .join("\n");
}

const trimmed = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
