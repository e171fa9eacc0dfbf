/**
 * Rows in the order of the table, of all shards that have a range now.
 *
 * One shard has a range until it splits. The shards of its parts order their tables alike, so one place stands for the
 * progress in all of them: a page ends in each at the place where it ends first in any.
 */
import type { ShardRows } from "../base/calls/shard.ts";
import { refuseUnknown } from "../base/unknown-method.ts";
import { comparePlaces, type TablePlace, type TableQuery } from "../engine/table-page.ts";
import { joinBytes } from "../wire/bytes.ts";
import type { TableCursor } from "./scan-cursor.ts";
import type { Range } from "../wire/range.ts";
import type { Answered, ShardGroup } from "./shard-group.ts";

/** Rows, and where the next ones begin in the same range. */
export type RangeRows = Pick<ShardRows, "rows" | "count" | "next" | "hashes">;

/** What one shard has given. */
type Given = Answered<ShardRows>;

/**
 * Up to `recordsMax` rows from a place on.
 *
 * @throws Refusal `batch_version` where a shard is of a release before 0.5.0; what a shard throws, such as `listing_lost`
 */
export async function rangeRows(
  shards: ShardGroup,
  query: TableQuery,
  { range, order, place }: Pick<TableCursor, "range" | "order" | "place">,
  recordsMax: number,
): Promise<RangeRows> {
  const hashes = order === "" ? null : order;
  const partsOf = (): number => shards.map.ranges.countWithin(range);
  const parts = partsOf();
  const ask = async (of: Range, until?: TablePlace): Promise<Given[]> =>
    await shards.askWithin(of, async ({ placement, stub }) => {
      const asked = until === undefined ? query : { ...query, until };
      // Of one record from each shard, those that come first are taken. Shards that were not known before count, too.
      const share = Math.max(1, Math.floor(recordsMax / partsOf()));
      return await refuseUnknown(stub().rows(placement, asked, hashes, place, share));
    });
  let given = await ask(range);
  // More shards than the share was made for: one has split just now.
  if (given.length > parts)
    return await rangeRows(shards, query, { range, order, place }, recordsMax);
  if (given.length === 1) return given[0]!.answer;
  for (;;) {
    const end = endOfPage(given, recordsMax);
    if (end === null || given.every((each) => !isBeyond(each, end))) return joined(given, end);
    const cut = await Promise.all(
      given.map(async (each) => (isBeyond(each, end) ? await ask(each.shard.range, end) : [each])),
    );
    given = cut.flat();
  }
}

/** A shard has given records behind the end of the page. */
function isBeyond({ answer: { last } }: Given, end: TablePlace): boolean {
  return last !== undefined && last !== null && comparePlaces(last, end) > 0;
}

/** The place up to which all shards have given their records, at most as many as asked for; null when they have given all. */
function endOfPage(given: readonly Given[], recordsMax: number): TablePlace | null {
  const count = given.reduce((sum, { answer }) => sum + answer.count, 0);
  const ends = given.flatMap(({ answer }) => answer.next ?? []);
  if (count > recordsMax) {
    const lasts = given.flatMap(({ answer }) => answer.last ?? []).toSorted(comparePlaces);
    ends.push(lasts[recordsMax - 1]!);
  }
  return ends.toSorted(comparePlaces)[0] ?? null;
}

function joined(given: readonly Given[], next: TablePlace | null): RangeRows {
  return {
    rows: joinBytes(given.map(({ answer }) => answer.rows)),
    count: given.reduce((sum, { answer }) => sum + answer.count, 0),
    hashes: given[0]!.answer.hashes,
    next,
  };
}
