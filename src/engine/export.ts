/**
 * Export: the records of a prefix with all there is to know of them, a page at a time.
 *
 *     page = is last u8, rows u16, row*
 *     row  = key size u16, kind u8, unit u8, expiry u64 (ns since the epoch), value size u32, key, value
 *
 * Little-endian; the value of a counter is its quota, u64. A page is found in one walk over all
 * records, which keeps no more than places in mind.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { EXPORT_ROW_BYTES } from "../wire/edge/command.ts";
import { forEachLive, hasPrefix } from "./live.ts";
import { compareKeys, compareSlots, isBehind, type Place } from "./place.ts";
import type { Records } from "./records.ts";
import type { ScanQuery } from "./scan.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  HIGH,
  KEY_AT,
  keyLengthOf,
  Kind,
  kindOf,
  LOW,
  META,
  unitOf,
} from "./segment.ts";

/** Of a page, before its rows. */
export const EXPORT_PAGE_HEADER_BYTES = 3;
const QUOTA_BYTES = 8;
/** Records that are gathered, beyond twice those of the page so far, before they are put in order. */
const SLACK_RECORDS = 256;

export class Export {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * The first records behind a key, in the order of keys.
   *
   * @param after null for the first page
   * @param bytesMax of all rows; a single one may have more
   */
  page(
    { keyspace, prefix, prefixes }: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
    bytesMax: number,
  ): Uint8Array<ArrayBuffer> {
    const found = new FirstPlaces(recordsMax, bytesMax);
    const asked = [prefix];
    for (const segment of this.#records.table.segments()) {
      forEachLive(segment, this.#records.now, keyspace, prefixes, (slot) => {
        if (!hasPrefix(segment, slot, asked)) return;
        if (after !== null && !isBehind(segment, slot, after)) return;
        found.add({ segment, slot });
      });
    }
    const { places, isAll } = found.end();
    const out = new ByteWriter(4096);
    out.u8(isAll ? 1 : 0);
    out.u16(places.length);
    for (const place of places) writeRow(out, place);
    return out.take();
  }
}

/** Gathers places and keeps the first ones, in the order of their keys, that a page has room for. */
class FirstPlaces {
  readonly #recordsMax: number;
  readonly #bytesMax: number;
  #places: Place[] = [];
  /** Behind it nothing has room; null while all has. */
  #last: Place | null = null;
  #sortAt = SLACK_RECORDS;

  constructor(recordsMax: number, bytesMax: number) {
    this.#recordsMax = recordsMax;
    this.#bytesMax = bytesMax;
  }

  add(place: Place): void {
    if (this.#last !== null && compareSlots(place.segment, place.slot, this.#last) > 0) return;
    this.#places.push(place);
    if (this.#places.length >= this.#sortAt) this.#keepFirst();
  }

  end(): { places: readonly Place[]; isAll: boolean } {
    this.#keepFirst();
    return { places: this.#places, isAll: this.#last === null };
  }

  #keepFirst(): void {
    const places = this.#places.toSorted(compareKeys);
    let count = 0;
    for (let bytes = 0; count < Math.min(places.length, this.#recordsMax); count++) {
      bytes += rowBytesOf(places[count]!);
      if (bytes > this.#bytesMax && count > 0) break;
    }
    this.#places = places.slice(0, count);
    if (count < places.length) this.#last = this.#places.at(-1)!;
    this.#sortAt = 2 * count + SLACK_RECORDS;
  }
}

function valueBytesOf({ segment: { slots }, slot }: Place): number {
  return kindOf(slots[slot + META]!) === Kind.counter ? QUOTA_BYTES : slots[slot + LOW]!;
}

function rowBytesOf(place: Place): number {
  const keyBytes = keyLengthOf(place.segment.slots[place.slot + META]!);
  return EXPORT_ROW_BYTES + keyBytes + valueBytesOf(place);
}

function writeRow(out: ByteWriter, place: Place): void {
  const { segment, slot } = place;
  const { slots, arena } = segment;
  const meta = slots[slot + META]!;
  const keyAt = slots[slot + KEY_AT]!;
  const keyBytes = keyLengthOf(meta);
  out.u16(keyBytes);
  out.u8(kindOf(meta));
  out.u8(unitOf(meta));
  out.u32(slots[slot + EXPIRES_LOW]!);
  out.u32(slots[slot + EXPIRES_HIGH]!);
  out.u32(valueBytesOf(place));
  out.copy(arena, keyAt, keyAt + keyBytes);
  if (kindOf(meta) === Kind.counter) {
    out.u32(slots[slot + LOW]!);
    out.u32(slots[slot + HIGH]!);
  } else {
    const valueAt = segment.valueAt(slot);
    out.copy(arena, valueAt, valueAt + slots[slot + LOW]!);
  }
}
