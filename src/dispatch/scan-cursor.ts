/**
 * Where a SCAN goes on. The cursor is all that is kept between two pages: no object remembers a listing that its caller
 * may have given up.
 *
 * As long as every shard puts its records in the order of their keys, a cursor is the last key. Beyond that it is
 * a place in the order of the table of one range. When its shard has split, those that have the range now have tables of
 * the same order, so the place is one in each of them:
 *
 *     version u8 2, options u8, from u32, to u32, group u16, order size u8, order,
 *     [behind size u8, behind,] [after size u8, after,] zeros
 *
 * Version 1, of releases before 0.5.0, has the index of a shard, u16, in place of the range. Little-endian. A key has 255 bytes at most, such a cursor 256 at least, so one is never taken for the other.
 */
import { TABLE_START, type TablePlace } from "../engine/table-page.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { KEY_BYTES_MAX } from "../wire/edge/command.ts";
import { initialRange, widthOf, type Range } from "../wire/range.ts";

/** Cursors of other versions are refused: they may be of another release. */
const VERSION = 2;
const SHARD_VERSION = 1;
// Which of the keys at the end are there.
const Option = { hasBehind: 1, hasAfter: 2 } as const;
/** Before the order, by version. */
const ORDER_AT = [0, 6, 12];

/** A place in the table of one range. */
export interface TableCursor {
  /** The range; those before it have been gone through. */
  readonly range: Range;
  /** Names the order that the place is in; empty at the start of a range. */
  readonly order: string;
  readonly place: TablePlace;
  /** Keys up to this one were given before, in the order of keys; null for none. */
  readonly behind: Uint8Array | null;
}

/** The cursor at the start of a range. */
export function startOf(range: Range, behind: Uint8Array | null): TableCursor {
  return { range, order: "", place: TABLE_START, behind };
}

/** Told apart by their length alone: see the head of this file. */
export function isTableCursor(cursor: Uint8Array): boolean {
  return cursor.length > KEY_BYTES_MAX;
}

/** Zeros at the end make it longer than any key. */
export function writeTableCursor({ range, order, place, behind }: TableCursor): Uint8Array {
  const { group, after } = place;
  const out = new ByteWriter(2 * KEY_BYTES_MAX);
  out.u8(VERSION);
  out.u8((behind === null ? 0 : Option.hasBehind) | (after === null ? 0 : Option.hasAfter));
  out.u32(range.from);
  out.u32(range.to);
  out.u16(group);
  out.u8(order.length);
  out.copy(new TextEncoder().encode(order));
  for (const key of [behind, after]) {
    if (key === null) continue;
    out.u8(key.length);
    out.copy(key);
  }
  if (out.length <= KEY_BYTES_MAX) out.reserve(KEY_BYTES_MAX + 1 - out.length);
  return out.take();
}

/**
 * Null for bytes that are not such a cursor.
 *
 * @param shards ranges that the namespace began with: 0 where it has none yet, and so no cursor
 */
export function readTableCursor(bytes: Uint8Array, shards: number): TableCursor | null {
  const version = bytes[0]!;
  const orderAt = ORDER_AT[version] ?? 0;
  if (orderAt === 0 || bytes.length <= orderAt) return null;
  const options = bytes[1]!;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = orderAt;
  const next = (): Uint8Array | null => {
    if (at >= bytes.length) return null;
    const from = at + 1;
    at = from + bytes[at]!;
    return at <= bytes.length ? bytes.slice(from, at) : null;
  };
  const order = next();
  const behind = (options & Option.hasBehind) === 0 ? undefined : next();
  const after = (options & Option.hasAfter) === 0 ? undefined : next();
  const range = version === SHARD_VERSION ? rangeOfIndex(view, shards) : rangeAt(view);
  if (order === null || behind === null || after === null || range === null) return null;
  return {
    range,
    order: new TextDecoder().decode(order),
    place: { group: view.getUint16(orderAt - 2, true), after: after ?? null },
    behind: behind ?? null,
  };
}

function rangeOfIndex(cursor: DataView, shards: number): Range | null {
  const index = cursor.getUint16(2, true);
  return index < shards ? initialRange(index, shards) : null;
}

function rangeAt(cursor: DataView): Range | null {
  const range = { from: cursor.getUint32(2, true), to: cursor.getUint32(6, true) };
  return widthOf(range) > 0 ? range : null;
}
