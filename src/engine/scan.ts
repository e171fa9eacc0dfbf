/**
 * Scan: the records of a prefix in the order of their keys, a page at a time, and their removal.
 *
 * A page is found in one walk over all records, which keeps few more than the page may have: memory is
 * bounded, whatever the shard holds.
 */
import { compareBytes } from "../wire/bytes.ts";
import { SCAN_ROW_BYTES } from "../wire/edge/command.ts";
import { PageWriter } from "../wire/page.ts";
import { forEachLive, hasPrefix, isLive } from "./live.ts";
import type { Records } from "./records.ts";
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
  type Segment,
} from "./segment.ts";
import { HASH_END } from "./table.ts";

/** Records that one step of a removal removes, at least, unless there are no more. */
const REMOVE_STEP_RECORDS = 4096;

/** Records beyond those of a page that are gathered before they are put in order. */
const SCAN_SLACK_RECORDS = 256;

/** Which records. */
export interface ScanQuery {
  readonly keyspace: number;
  /** Keys begin with this, consumers where they are pairs. */
  readonly prefix: Uint8Array;
  /** They begin with one of these, too; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
}

interface Place {
  readonly segment: Segment;
  readonly slot: number;
}

export class Scan {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * The first records behind a key. Format: `wire/page.ts`, rows of SCAN without their key size.
   *
   * @param after null for the first page
   */
  page(
    { keyspace, prefix, prefixes }: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
  ): Uint8Array<ArrayBuffer> {
    let found: Place[] = [];
    let isCut = false;
    /** Once there are enough, the last of the first: nothing behind it is kept. */
    let end: Place | null = null;
    const keepFirst = (): void => {
      found.sort((a, b) => compareKeys(a, b));
      isCut ||= found.length > recordsMax;
      found = found.slice(0, recordsMax);
      end = found.length === recordsMax ? found.at(-1)! : null;
    };
    const asked = [prefix];
    for (const segment of this.#records.table.segments()) {
      forEachLive(segment, this.#records.now, keyspace, prefixes, (slot) => {
        if (!hasPrefix(segment, slot, asked)) return;
        if (after !== null && !isBehind(segment, slot, after)) return;
        if (end !== null && compareSlots(segment, slot, end) > 0) return;
        found.push({ segment, slot });
        if (found.length >= recordsMax + SCAN_SLACK_RECORDS) keepFirst();
      });
    }
    keepFirst();
    const page = new PageWriter(SCAN_ROW_BYTES - 1, found.length);
    for (const place of found) writeRow(page, place);
    return page.take(!isCut);
  }

  /**
   * A step of a removal.
   *
   * @param cursor 0 at first, then what the last step returned
   */
  remove(
    { keyspace, prefix, prefixes }: ScanQuery,
    cursor: number,
  ): { removed: number; cursor: number | null } {
    const { table, now, commit } = this.#records;
    const asked = [prefix];
    let removed = 0;
    while (cursor < HASH_END && removed < REMOVE_STEP_RECORDS) {
      removed += table.removeWhere(cursor, (segment, slot) => {
        if (!isLive(segment, slot, now, keyspace, prefixes)) return false;
        if (!hasPrefix(segment, slot, asked)) return false;
        commit.removed(segment, slot);
        return true;
      });
      table.sweep(cursor, now);
      cursor = table.hashAfter(cursor);
    }
    return { removed, cursor: cursor < HASH_END ? cursor : null };
  }
}

function writeRow(page: PageWriter, { segment, slot }: Place): void {
  const { slots, arena } = segment;
  const meta = slots[slot + META]!;
  const at = page.add(arena, slots[slot + KEY_AT]!, keyLengthOf(meta));
  const { view } = page;
  view.setUint8(at, kindOf(meta));
  view.setUint8(at + 1, unitOf(meta));
  view.setUint32(at + 2, slots[slot + EXPIRES_LOW]!, true);
  view.setUint32(at + 6, slots[slot + EXPIRES_HIGH]!, true);
  view.setUint32(at + 10, slots[slot + LOW]!, true);
  view.setUint32(at + 14, kindOf(meta) === Kind.counter ? slots[slot + HIGH]! : 0, true);
}

function isBehind({ slots, arena }: Segment, slot: number, key: Uint8Array): boolean {
  const length = keyLengthOf(slots[slot + META]!);
  return compareBytes(arena, slots[slot + KEY_AT]!, length, key, 0, key.length) > 0;
}

function compareKeys(a: Place, b: Place): number {
  return compareSlots(a.segment, a.slot, b);
}

function compareSlots({ slots, arena }: Segment, slot: number, b: Place): number {
  return compareBytes(
    arena,
    slots[slot + KEY_AT]!,
    keyLengthOf(slots[slot + META]!),
    b.segment.arena,
    b.segment.slots[b.slot + KEY_AT]!,
    keyLengthOf(b.segment.slots[b.slot + META]!),
  );
}
