/** When a journal is cut: a cut is billed by its rows, and a long journal slows the next start down. */
import type { EngineFigures } from "../../engine/engine.ts";
import {
  COMMITS_PER_CUT_ROW,
  JOURNAL_BYTES_MAX,
  JOURNAL_BYTES_MIN,
  JOURNAL_ROWS_MIN,
  SNAPSHOT_STEP_BYTES,
} from "../../engine/sizes.ts";

/** Rows that a cut writes beside the snapshot's: two for each of two new tables, and the one that names the generation. */
const CUT_ROWS = 5;

/** A journal since it was last cut. */
interface JournalSize {
  readonly rows: number;
  readonly bytes: number;
}

/** Weighs the rows of a cut against the start that a long journal would slow down. */
export function isCutDue({ rows, bytes }: JournalSize, recordBytes: number): boolean {
  if (bytes >= JOURNAL_BYTES_MAX) return true;
  const snapshotRows = Math.ceil(recordBytes / SNAPSHOT_STEP_BYTES) + 1;
  // A cut is billed by its rows, so it has to be worth them: about one row to ten commits.
  if (rows < COMMITS_PER_CUT_ROW * (snapshotRows + CUT_ROWS)) return false;
  return rows >= JOURNAL_ROWS_MIN || bytes >= Math.max(JOURNAL_BYTES_MIN, recordBytes / 2);
}

/** Whether most of what is stored is of records that are gone, and it is worth the rows of a cut. */
export function isMostlyDead(
  journal: JournalSize,
  snapshotRows: number,
  { records, bytes }: Pick<EngineFigures, "records" | "bytes">,
): boolean {
  if (journal.bytes > JOURNAL_BYTES_MIN) return journal.bytes > 2 * bytes;
  if (records > 0) return false;
  return snapshotRows > CUT_ROWS || journal.rows >= COMMITS_PER_CUT_ROW * CUT_ROWS;
}
