/**
 * Listings: rows as lines of JSON for scripts, or as a table for people.
 *
 * A listing of a large namespace is printed page by page while it is read, so its memory is bounded
 * by one page, and the columns of a table may change their width from page to page.
 */
import type { Json, Output } from "./output.ts";
import { pagesOf, type AskPage } from "./pages.ts";
import { tableOf, type Column } from "./table.ts";

/** How the rows of a listing are printed. */
export interface Listing<Row> {
  /** A row for scripts: one line each, so that a reader holds one row in memory at a time. */
  readonly json: (row: Row) => Json;
  readonly columns: readonly Column<Row>[];
}

/** Prints rows. @param hasHeadings false for all pages but the first */
export async function printRows<Row>(
  output: Output,
  { json, columns }: Listing<Row>,
  rows: readonly Row[],
  hasHeadings = true,
): Promise<void> {
  for (const row of output.isJson ? rows : []) await output.print(json(row), () => null);
  await output.text(tableOf(output, columns, rows, hasHeadings));
}

/** Prints all pages, up to a number of rows, and returns how many rows there were. */
export async function printPages<Row>(
  output: Output,
  listing: Listing<Row>,
  rowsMax: number | undefined,
  ask: AskPage<Row>,
): Promise<number> {
  let printed = 0;
  for await (const rows of pagesOf(rowsMax, ask)) {
    await printRows(output, listing, rows, printed === 0);
    printed += rows.length;
  }
  return printed;
}
