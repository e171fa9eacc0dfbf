/**
 * Pages in the order of the table, for shards with too many records to sort by key.
 *
 * The order is by the leading 16 bits of a key's hash, then by key. Segments split by these bits alone, so a place in
 * the order stays valid when the table grows, shrinks or is loaded again. Callers see places, so a place reveals
 * nothing of the bits that lead to slots.
 */
import { compareBytes, type ByteWriter } from "../wire/bytes.ts";
import { LiveFilter } from "./live.ts";
import { compareSlots, isBehind } from "./place.ts";
import type { Records } from "./records.ts";
import type { ScanQuery } from "./scan-query.ts";
import { HASH, type Segment } from "./segment.ts";
import { HASH_END } from "./table.ts";
import { Walk } from "./walk.ts";
import { TABLE_GROUP_SHIFT } from "./sizes.ts";

const GROUP_HASHES = 2 ** TABLE_GROUP_SHIFT;
/** More than the slots that a segment has: group and slot are packed into one number. */
const SLOTS_MAX = 2 ** 24;

/** Where the next page begins: in this group of hashes, behind this key of it. */
export interface TablePlace {
  readonly group: number;
  /** Null for the whole group. */
  readonly after: Uint8Array | null;
}

export const TABLE_START: TablePlace = { group: 0, after: null };

/** A query in the order of the table. */
export interface TableQuery extends ScanQuery {
  /** Keys up to this one are left out; null for none. */
  readonly behind: Uint8Array | null;
  /** Records up to this place alone: several shards that have parts of one range end a page at the same place. */
  readonly until?: TablePlace;
}

/** The records of one page. */
export interface TablePage {
  readonly count: number;
  /** Where the next page begins: `until`, where the query has one; null behind the last record. */
  readonly next: TablePlace | null;
  /** Place of the last record on the page; null where it has none. */
  readonly last: TablePlace | null;
}

/** The order of places; negative when `a` comes first. */
export function comparePlaces(a: TablePlace, b: TablePlace): number {
  if (a.group !== b.group || a.after === b.after) return a.group - b.group;
  if (a.after === null || b.after === null) return a.after === null ? -1 : 1;
  return compareBytes(a.after, 0, a.after.length, b.after, 0, b.after.length);
}

/**
 * Writes records from a place on. A page may be empty though there are more records: it ends where one step has visited its
 * share of slots.
 *
 * @param write writes a row
 */
export function tablePage(
  records: Records,
  query: TableQuery,
  place: TablePlace,
  recordsMax: number,
  out: ByteWriter,
  write: (out: ByteWriter, segment: Segment, slot: number) => void,
): TablePage {
  const { table } = records;
  const walk = new Walk(table);
  let count = 0;
  let last: TablePlace | null = null;
  let isFull = false;
  for (let hash = place.group * GROUP_HASHES; hash < HASH_END; hash = table.hashAfter(hash)) {
    const segment = table.segmentAt(hash);
    if (query.until !== undefined && hash / GROUP_HASHES > query.until.group) break;
    if (!walk.take(segment)) {
      return { count, next: { group: hash / GROUP_HASHES, after: null }, last };
    }
    for (const slot of slotsInOrder(records, query, place, segment)) {
      if (isFull) return { count, next: last, last };
      write(out, segment, slot);
      count++;
      isFull = count === recordsMax;
      last = placeOf(segment, slot);
    }
  }
  return { count, next: query.until ?? null, last };
}

/** The slots of a segment with records of the query from a place on, in their order. */
function* slotsInOrder(
  records: Records,
  query: TableQuery,
  place: TablePlace,
  segment: Segment,
): Generator<number> {
  const { keyspace, prefix, prefixes, behind, until } = query;
  const { slots } = segment;
  const filter = new LiveFilter(records, keyspace, prefixes, prefix);
  const found: number[] = [];
  filter.forEach(segment, (slot) => {
    const group = slots[slot + HASH]! >>> TABLE_GROUP_SHIFT;
    if (group < place.group) return;
    const after = group === place.group ? place.after : null;
    if (after !== null && !isBehind(segment, slot, after)) return;
    if (behind !== null && !isBehind(segment, slot, behind)) return;
    if (until !== undefined && !isUntil(segment, slot, group, until)) return;
    found.push(group * SLOTS_MAX + slot);
  });
  const sorted = Float64Array.from(found).toSorted();
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    const group = Math.floor(sorted[from]! / SLOTS_MAX);
    while (to < sorted.length && Math.floor(sorted[to]! / SLOTS_MAX) === group) to++;
    const ofGroup = Array.from(sorted.subarray(from, to), (each) => each % SLOTS_MAX);
    yield* ofGroup.toSorted((a, b) => compareSlots(segment, a, b));
  }
}

/** Whether the record in a slot, whose group is given, comes at a place or before it. */
function isUntil(segment: Segment, slot: number, group: number, until: TablePlace): boolean {
  if (group !== until.group) return group < until.group;
  return until.after !== null && !isBehind(segment, slot, until.after);
}

function placeOf(segment: Segment, slot: number): TablePlace {
  return { group: segment.slots[slot + HASH]! >>> TABLE_GROUP_SHIFT, after: segment.keyOf(slot) };
}
