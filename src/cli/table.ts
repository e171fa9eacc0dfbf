/** Tables for people: columns without rules, so that `cut`, `awk` and `grep` can read them too. */
import Table from "cli-table3";
import type { Output } from "./output.ts";

/** The names of all rules that cli-table3 draws, except the one between columns. */
const LINE_PARTS =
  "top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid";
/** All rules empty, as an empty part draws nothing. */
const NO_LINES = Object.fromEntries(LINE_PARTS.split(" ").map((part) => [part, ""]));

/**
 * A column: its heading, the text of its cell in a row, and its alignment. Numbers align to the
 * right, so that their digits stand below each other.
 */
export type Column<Row> = readonly [
  heading: string,
  cell: (row: Row) => string | number | bigint,
  align?: "right",
];

/** A table. A listing in pages prints headings with its first page only. */
export function tableOf<Row>(
  output: Output,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  hasHeadings = true,
): string {
  const table = new Table({
    head: hasHeadings ? columns.map(([heading]) => output.strong(heading)) : [],
    colAligns: columns.map(([, , align]) => align ?? "left"),
    chars: { ...NO_LINES, middle: "  " },
    // Without `compact` the table would have a rule between any two rows.
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0, compact: true },
  });
  table.push(...rows.map((row) => columns.map(([, cell]) => String(cell(row)))));
  return trimmed(table.toString());
}

/** Names and their values, one per line. */
export function listOf(output: Output, entries: readonly (readonly [string, string])[]): string {
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries
    .map(([name, value]) => `${output.faint(name.padEnd(width))}  ${value}`.trimEnd())
    .join("\n");
}

/** Without the spaces that pad the last column: copied text would end in them. */
const trimmed = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
