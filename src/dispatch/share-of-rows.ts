/** What one of several shards is asked for, of the rows of a page that all of them have together. */
import { widthOf, type Range } from "../wire/range.ts";

/** Standard deviations, of how many keys of a page a shard has. */
const SHARE_DEVIATIONS = 4;

/**
 * Rows that a shard is asked for. Hashes spread keys like throws of dice, so few pages need more of any shard: of such a page an
 * export gives less, and a merge asks the shard again.
 *
 * @param rows of the page, at least 1
 * @param range that the shard owns
 * @param all ranges of the shards that are asked, as one
 * @returns 1 to `rows`
 */
export function shareOfRows(rows: number, range: Range, all: Range): number {
  const mean = (rows * widthOf(range)) / widthOf(all);
  return Math.min(rows, Math.ceil(mean + SHARE_DEVIATIONS * Math.sqrt(mean)));
}
