/**
 * Where the ranges of all shards begin: those that one shard knows, and others found through them.
 *
 * Ranges lie side by side on the circle, so the end of each is where another one begins.
 */
import { isIn, type Range } from "../../wire/range.ts";

/**
 * @param known hashes at which ranges begin
 * @param within only these hashes are looked at
 * @param rangeAt asks the shard whose range begins at a hash; null where it has no data
 * @returns what is known, and all that follows from the answers, in any order
 */
export async function livingBegins(
  known: readonly number[],
  within: Range,
  rangeAt: (from: number) => Promise<Range | null>,
): Promise<number[]> {
  const begins = new Set(known);
  // Those that are added are visited, too.
  for (const from of begins) {
    const range = isIn(within, from) ? await rangeAt(from) : null;
    if (range !== null && isIn(within, range.to)) begins.add(range.to);
  }
  return [...begins];
}
