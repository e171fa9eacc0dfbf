/**
 * Scan: the records of a prefix, a page at a time, and their removal.
 *
 * A page in the order of keys is found in one walk over all records, which keeps few more keys than the page
 * may have: memory is bounded, whatever the shard holds.
 */
import { SCAN_ROW_BYTES } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { PageWriter } from "../wire/page.ts";
import { firstKeys, visitKeys } from "./first-keys.ts";
import { hasPrefix, isLive } from "./live.ts";
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
import { SemaphorePages } from "./semaphores/pages.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { HASH_END } from "./table.ts";
import { Walk, type Steps } from "./walk.ts";

/** A step of a removal ends when it has removed so many records. */
const REMOVE_STEP_RECORDS = 4096;

/** Which records. */
export interface ScanQuery {
  readonly keyspace: number;
  /**
   * Keys begin with this, consumers where they are pairs. Of holdings: the name of the semaphore that they
   * are of.
   */
  readonly prefix: Uint8Array;
  /** They begin with one of these, too; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
}

export class Scan {
  readonly #records: Records;
  readonly #semaphorePages: SemaphorePages;

  constructor(records: Records, semaphores: Semaphores) {
    this.#records = records;
    this.#semaphorePages = new SemaphorePages(records, semaphores);
  }

  /**
   * The first records behind a key. Format: `wire/page.ts`, rows of SCAN without their key size; of
   * semaphores and holdings those that `SemaphorePages` tells of.
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
    const asked = [prefix];
    const query = {
      keyspace,
      prefixes,
      isAsked: (segment: Segment, slot: number) => hasPrefix(segment, slot, asked),
      after,
    };
    const { keys, isAll } = yield* firstKeys(this.#records, query, recordsMax);
    const page = new PageWriter(SCAN_ROW_BYTES - 1, keys.length);
    visitKeys(this.#records, keyspace, keys, (segment, slot) => writeRow(page, segment, slot));
    return page.take(isAll);
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
    const walk = new Walk(table);
    let removed = 0;
    while (cursor < HASH_END && removed < REMOVE_STEP_RECORDS) {
      if (!walk.take(table.segmentAt(cursor))) break;
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

function writeRow(page: PageWriter, segment: Segment, slot: number): void {
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
