/**
 * Scan: the records of a prefix, a page at a time, and their removal.
 *
 * A page in the order of keys is found in one walk over all records. The walk keeps little more than the keys of the
 * page, so its memory is bounded.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { SCAN_ROW_BYTES } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { PageWriter } from "../wire/page.ts";
import { firstKeys, firstPage, visitKeys } from "./first-keys.ts";
import { LiveFilter } from "./live.ts";
import type { Records } from "./records.ts";
import { HIGH, KEY_AT, Kind, LOW, type Segment } from "./segment.ts";
import type { ScanQuery } from "./scan-query.ts";
import type { SemaphorePages } from "./semaphores/pages.ts";
import { HASH_END } from "./table.ts";
import { tablePage, type TablePlace, type TableQuery } from "./table-page.ts";
import type { U64 } from "./time.ts";
import { Walk, type Steps } from "./walk.ts";
import { ORDERED_RECORDS_MAX, REMOVE_STEP_RECORDS } from "./sizes.ts";

/** Records in the order of the table, as rows of SCAN. */
export interface TableRows {
  readonly rows: Uint8Array<ArrayBuffer>;
  readonly count: number;
  /** Where the next page begins; null behind the last record. */
  readonly next: TablePlace | null;
  /** Place of the last of these records; null where there are none. Release 0.4.0 leaves it out. */
  readonly last?: TablePlace | null;
}

export class Scan {
  readonly #records: Records;
  readonly #semaphorePages: SemaphorePages;

  constructor(records: Records, semaphorePages: SemaphorePages) {
    this.#records = records;
    this.#semaphorePages = semaphorePages;
  }

  /** The shard has so few records that a page in the order of their keys is bounded work. */
  get isOrdered(): boolean {
    return this.#records.table.ownRecords <= ORDERED_RECORDS_MAX;
  }

  /** Records in the order of the table: see `tablePage`. */
  rowsFrom(query: TableQuery, place: TablePlace, recordsMax: number): TableRows {
    const out = new ByteWriter(4096);
    const page = tablePage(this.#records, query, place, recordsMax, out, (target, segment, slot) =>
      writeTableRow(target, segment, slot, this.#records.realEnd(segment, slot)),
    );
    return { rows: out.take(), ...page };
  }

  /** The page of a shard that is not ordered: empty, and not the last one. */
  unorderedPage(): Uint8Array<ArrayBuffer> {
    return new PageWriter(SCAN_ROW_BYTES - 1, 0).take(false);
  }

  /**
   * The first records behind a key. Format: `wire/page.ts`, rows of SCAN without their key size. Semaphores and
   * holdings have rows of their own: see `SemaphorePages`.
   *
   * @param after null for the first page
   */
  *page(
    { keyspace, prefix, prefixes }: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const pages = this.#semaphorePages;
    if (keyspace === Keyspace.semaphores) {
      return yield* pages.semaphores(prefix, prefixes, after, recordsMax);
    }
    if (keyspace === Keyspace.holdings) return yield* pages.holders(prefix, after, recordsMax);
    const filter = new LiveFilter(this.#records, keyspace, prefixes, prefix);
    return yield* firstPage(
      after,
      (behind) => firstKeys(this.#records, filter, behind, { keysMax: recordsMax }),
      ({ keys }) => {
        const page = new PageWriter(SCAN_ROW_BYTES - 1, keys.length);
        visitKeys(this.#records, keyspace, keys, (segment, slot) =>
          writeRow(page, segment, slot, this.#records.realEnd(segment, slot)),
        );
        return page;
      },
    );
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
    const filter = new LiveFilter(this.#records, keyspace, prefixes, prefix);
    const walk = new Walk(table);
    let removed = 0;
    while (cursor < HASH_END && removed < REMOVE_STEP_RECORDS) {
      if (!walk.take(table.segmentAt(cursor))) break;
      removed += table.removeWhere(cursor, (segment, slot) => {
        if (!filter.has(segment, slot)) return false;
        commit.removed(segment, slot);
        return true;
      });
      table.sweep(cursor, now);
      cursor = table.hashAfter(cursor);
    }
    return { removed, cursor: cursor < HASH_END ? cursor : null };
  }
}

function writeRow(page: PageWriter, segment: Segment, slot: number, ends: U64): void {
  const { slots, arena } = segment;
  const at = page.add(arena, slots[slot + KEY_AT]!, segment.keyBytesOf(slot));
  writeFields(page.view, at, segment, slot, ends);
}

function writeTableRow(out: ByteWriter, segment: Segment, slot: number, ends: U64): void {
  const { slots, arena } = segment;
  const keyAt = slots[slot + KEY_AT]!;
  const keyBytes = segment.keyBytesOf(slot);
  const at = out.reserve(SCAN_ROW_BYTES);
  out.view.setUint8(at, keyBytes);
  writeFields(out.view, at + 1, segment, slot, ends);
  out.copy(arena, keyAt, keyAt + keyBytes);
}

function writeFields(view: DataView, at: number, segment: Segment, slot: number, ends: U64): void {
  const { slots } = segment;
  const kind = segment.kindOf(slot);
  view.setUint8(at, kind);
  view.setUint8(at + 1, segment.unitOf(slot));
  view.setUint32(at + 2, ends.low, true);
  view.setUint32(at + 6, ends.high, true);
  view.setUint32(at + 10, slots[slot + LOW]!, true);
  view.setUint32(at + 14, kind === Kind.counter ? slots[slot + HIGH]! : 0, true);
}
