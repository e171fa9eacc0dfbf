/** Listings that the server gives a page at a time. */

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

/** Where a page begins; at the beginning where it is empty. */
export interface Behind {
  readonly cursor?: Uint8Array;
}

const PAGE_ROWS = 1000;

/**
 * Asks for one page after the other, up to a number of rows. Pages without rows are left out: they are not the
 * end, only a missing cursor is.
 */
export async function* pagesOf<Row>(
  rowsMax: number | undefined,
  ask: (limit: number, behind: Behind) => Promise<Page<Row>>,
): AsyncGenerator<{ readonly rows: readonly Row[]; readonly isFirst: boolean }> {
  let missing = rowsMax ?? Infinity;
  let behind: Behind | null = {};
  for (let isFirst = true; behind !== null && missing > 0;) {
    const { rows, cursor }: Page<Row> = await ask(Math.min(PAGE_ROWS, missing), behind);
    missing -= rows.length;
    behind = cursor === null ? null : { cursor };
    if (rows.length === 0) continue;
    yield { rows, isFirst };
    isFirst = false;
  }
}
