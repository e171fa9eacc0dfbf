/**
 * Where a SCAN goes on. The cursor is all that is kept between two pages: no object remembers a listing that its caller
 * may have given up.
 *
 * As long as every shard puts its records in the order of their keys, a cursor is the last key. Beyond that it is
 * a place in the order of a shard's table:
 *
 *     version u8, options u8, shard u16, group u16, order size u8, order,
 *     [behind size u8, behind,] [after size u8, after,] zeros
 *
 * Little-endian. A key has 255 bytes at most, such a cursor 256 at least, so one is never taken for the other.
 */
import { TABLE_START, type TablePlace } from "../engine/table-page.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { KEY_BYTES_MAX } from "../wire/edge/command.ts";

/** Cursors of another version are refused: they may be of another release. */
const VERSION = 1;
// Which of the keys at the end are there.
const Option = { hasBehind: 1, hasAfter: 2 } as const;
const HEADER_BYTES = 7;

/** A place in the table of one shard. */
export interface TableCursor {
  /** Index of the shard; those before it have been gone through. */
  readonly shard: number;
  /** Names the order that the place is in; empty at the start of a shard. */
  readonly order: string;
  readonly place: TablePlace;
  /** Keys up to this one were given before, in the order of keys; null for none. */
  readonly behind: Uint8Array | null;
}

/** The cursor at the start of a shard's table. */
export function startOf(shard: number, behind: Uint8Array | null): TableCursor {
  return { shard, order: "", place: TABLE_START, behind };
}

/** Told apart by their length alone: see the head of this file. */
export function isTableCursor(cursor: Uint8Array): boolean {
  return cursor.length > KEY_BYTES_MAX;
}

/** Zeros at the end make it longer than any key. */
export function writeTableCursor({ shard, order, place, behind }: TableCursor): Uint8Array {
  const { group, after } = place;
  const out = new ByteWriter(2 * KEY_BYTES_MAX);
  out.u8(VERSION);
  out.u8((behind === null ? 0 : Option.hasBehind) | (after === null ? 0 : Option.hasAfter));
  out.u16(shard);
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

/** Null for bytes that are not such a cursor. */
export function readTableCursor(bytes: Uint8Array): TableCursor | null {
  if (bytes.length < HEADER_BYTES || bytes[0] !== VERSION) return null;
  const options = bytes[1]!;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = HEADER_BYTES - 1;
  const next = (): Uint8Array | null => {
    if (at >= bytes.length) return null;
    const from = at + 1;
    at = from + bytes[at]!;
    return at <= bytes.length ? bytes.slice(from, at) : null;
  };
  const order = next();
  const behind = (options & Option.hasBehind) === 0 ? undefined : next();
  const after = (options & Option.hasAfter) === 0 ? undefined : next();
  if (order === null || behind === null || after === null) return null;
  return {
    shard: view.getUint16(2, true),
    order: new TextDecoder().decode(order),
    place: { group: view.getUint16(4, true), after: after ?? null },
    behind: behind ?? null,
  };
}
