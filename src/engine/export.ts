/**
 * Export: the records of a prefix with their whole state, a page at a time.
 *
 *     page = is last u8, rows u16, row*
 *     row  = key size u16, kind u8, unit u8, expiry u64 (ns since the epoch), value size u32, key, value
 *
 * Little-endian; the value of a counter is its quota, u64. A page is found in one walk over all
 * records, which keeps keys only, and then written in steps.
 */
import { ByteWriter } from "../wire/bytes.ts";
import type { Keyspace } from "../wire/keyspace.ts";
import { EXPORT_ROW_BYTES } from "../wire/edge/command.ts";
import { firstKeys, visitKeys } from "./first-keys.ts";
import { LiveFilter } from "./live.ts";
import type { Records } from "./records.ts";
import type { ScanQuery } from "./scan-query.ts";
import { HIGH, KEY_AT, Kind, LOW, type Segment } from "./segment.ts";
import { EXPORT_STEP_ROWS } from "./sizes.ts";
import type { U64 } from "./time.ts";
import type { Steps } from "./walk.ts";

/** Of a page, before its rows. */
export const EXPORT_PAGE_HEADER_BYTES = 3;
const QUOTA_BYTES = 8;

export class Export {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * The first records behind a key, in the order of keys: `ORDERED_PAGE_ROWS_MAX` at most. A page that is not the last one has a record at least, which says
   * where to go on: where all that were found are gone by the end of the walk, another walk goes on behind them.
   *
   * @param after null for the first page
   * @param bytesMax of all rows; a single one may have more
   */
  *page(
    { keyspace, prefix, prefixes }: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
    bytesMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const records = this.#records;
    const options = { bytesOf: rowBytesOf, keysMax: recordsMax, bytesMax };
    for (let behind = after; ;) {
      const filter = new LiveFilter(records, keyspace, prefixes, prefix);
      const { keys, isAll } = yield* firstKeys(records, filter, behind, options);
      const page = yield* this.#write(keyspace, keys, isAll, bytesMax);
      if (page !== null) return page;
      behind = keys.at(-1)!;
    }
  }

  /** Null where a page has no record, and is not the last one. */
  *#write(
    keyspace: Keyspace,
    keys: readonly Uint8Array[],
    isAll: boolean,
    bytesMax: number,
  ): Steps<Uint8Array<ArrayBuffer> | null> {
    const records = this.#records;
    const out = new ByteWriter(4096);
    out.reserve(EXPORT_PAGE_HEADER_BYTES);
    let rows = 0;
    let isWhole = isAll;
    const visit = (segment: Segment, slot: number): boolean => {
      // The record may have grown since its key was found.
      const bytes = out.length - EXPORT_PAGE_HEADER_BYTES + rowBytesOf(segment, slot);
      if (rows > 0 && bytes > bytesMax) return false;
      writeRow(out, segment, slot, records.realEnd(segment, slot));
      rows++;
      return true;
    };
    for (let from = 0; from < keys.length; from += EXPORT_STEP_ROWS) {
      if (from > 0) yield;
      const next = keys.slice(from, from + EXPORT_STEP_ROWS);
      if (visitKeys(records, keyspace, next, visit)) continue;
      isWhole = false;
      break;
    }
    if (rows === 0 && !isWhole) return null;
    out.bytes[0] = isWhole ? 1 : 0;
    out.view.setUint16(1, rows, true);
    return out.take();
  }
}

function valueBytesOf(segment: Segment, slot: number): number {
  return segment.kindOf(slot) === Kind.counter ? QUOTA_BYTES : segment.slots[slot + LOW]!;
}

function rowBytesOf(segment: Segment, slot: number): number {
  return EXPORT_ROW_BYTES + segment.keyBytesOf(slot) + valueBytesOf(segment, slot);
}

function writeRow(out: ByteWriter, segment: Segment, slot: number, ends: U64): void {
  const { slots, arena } = segment;
  const keyAt = slots[slot + KEY_AT]!;
  const keyBytes = segment.keyBytesOf(slot);
  const kind = segment.kindOf(slot);
  out.u16(keyBytes);
  out.u8(kind);
  out.u8(segment.unitOf(slot));
  out.u32(ends.low);
  out.u32(ends.high);
  out.u32(valueBytesOf(segment, slot));
  out.copy(arena, keyAt, keyAt + keyBytes);
  if (kind === Kind.counter) {
    out.u32(slots[slot + LOW]!);
    out.u32(slots[slot + HIGH]!);
  } else {
    const valueAt = segment.valueAt(slot);
    out.copy(arena, valueAt, valueAt + slots[slot + LOW]!);
  }
}
