/**
 * The points of a chart of the last hour: whole minutes that the server has kept, and what was seen live since then.
 *
 * The server knows a minute about a minute after its end, so that the last one or two come from what this page has seen.
 */

/** One moment of a chart. */
export interface Point {
  readonly atMs: number;
  /** Per second, one for each line; null: not known. */
  readonly values: readonly number[] | null;
}

const MINUTE_MS = 60_000;
const MINUTES = 60;

/**
 * A point for each minute, at its end: the last one is the present. A minute that the server does not list between
 * minutes that it does was quiet.
 *
 * @param counts of whole minutes, by their beginning; null: the server does not know
 * @param live what was seen, at most the last minutes, oldest first
 * @param lines values of a point
 */
export function pointsOfHour(
  counts: ReadonlyMap<number, readonly number[] | null>,
  live: readonly Point[],
  { lines, nowMs }: { readonly lines: number; readonly nowMs: number },
): Point[] {
  const current = nowMs - (nowMs % MINUTE_MS);
  const known = [...counts.keys()];
  const [first, last] = [Math.min(...known), Math.max(...known)];
  const valuesAt = (beginMs: number): readonly number[] | null => {
    const counted = counts.get(beginMs);
    if (counted != null) return counted.map((count) => count / (MINUTE_MS / 1000));
    const seen = meanOf(live.filter(({ atMs }) => atMs >= beginMs && atMs < beginMs + MINUTE_MS));
    if (seen !== null || counted === null) return seen;
    return beginMs > first && beginMs < last ? Array.from({ length: lines }, () => 0) : null;
  };
  return Array.from({ length: MINUTES }, (_, i) => {
    const beginMs = current - (MINUTES - 1 - i) * MINUTE_MS;
    return { atMs: Math.min(nowMs, beginMs + MINUTE_MS), values: valuesAt(beginMs) };
  });
}

/** The mean of what is known; null where nothing is. */
function meanOf(points: readonly Point[]): readonly number[] | null {
  const known = points.flatMap(({ values }) => (values === null ? [] : [values]));
  if (known.length === 0) return null;
  return known[0]!.map(
    (_, line) => known.reduce((sum, values) => sum + values[line]!, 0) / known.length,
  );
}
