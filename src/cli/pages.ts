/** Walks listings that the server returns a page at a time, with a cursor to the next page. */

export interface Page<Row> {
  /** At most as many as were asked for; may be empty before the end. */
  readonly rows: readonly Row[];
  /** Cursor of the next page; null after the last page. */
  readonly cursor: Uint8Array | null;
}

/** Where a page begins; the first page if there is no cursor. */
export interface Behind {
  readonly cursor?: Uint8Array;
}

/** The most rows that the server returns at once. */
const PAGE_ROWS = 1000;

/** Asks for a page of at most `limit` rows, 1 to 1000. */
export type AskPage<Row> = (limit: number, behind: Behind) => Promise<Page<Row>>;

/**
 * Yields one page after the other, up to a number of rows. A page without rows is skipped, because it is not the end:
 * a shard may have walked many records of which none matched. Only a missing cursor ends a listing.
 */
export async function* pagesOf<Row>(
  rowsMax: number = Infinity,
  ask: AskPage<Row>,
): AsyncGenerator<readonly Row[]> {
  let missing = rowsMax;
  let behind: Behind | null = {};
  while (behind !== null && missing > 0) {
    const { rows, cursor }: Page<Row> = await ask(Math.min(PAGE_ROWS, missing), behind);
    missing -= rows.length;
    behind = cursor === null ? null : { cursor };
    if (rows.length > 0) yield rows;
  }
}
