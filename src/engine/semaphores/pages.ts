/**
 * Pages of semaphores, and of the holders of one: what listings and Dump read.
 *
 * Listings are in the order of names or of holders, Dump in the order of the table. Both expire leases first.
 */
import { ByteWriter } from "../../wire/bytes.ts";
import { Keyspace } from "../../wire/keyspace.ts";
import { PageWriter } from "../../wire/page.ts";
import { writePageEntry } from "../../wire/yrmcds/dump.ts";
import { firstKeys, firstPage, visitKeys, type FirstKeysFound } from "../first-keys.ts";
import { LiveFilter } from "../live.ts";
import type { Records } from "../records.ts";
import { HASH, KEY_AT, keyLengthOf, META, type Segment } from "../segment.ts";
import { U64 } from "../time.ts";
import { HASH_END } from "../table.ts";
import { Walk, type Steps } from "../walk.ts";
import { HOLDER_BYTES, HolderKind } from "./holder.ts";
import type { Semaphores } from "./semaphores.ts";
import {
  AMOUNT,
  CONSUMPTION,
  ENDS_AT,
  HOLDING_KEY_BYTES,
  HOLDING_NUMBER,
  readMaximum,
  readMs,
  readU32,
  writeU32,
} from "./stored.ts";
import { SEMAPHORE_PAGE_BYTES } from "../sizes.ts";

/** Of a semaphore: consumption u32, maximum u32. */
const ENTRY_BYTES = 8;
/** Of a holder: amount u32, end u64 in ns since the epoch, 0 for none. */
const HOLDING_BYTES = 12;
/** Version of pages whose keys may have more than 255 bytes. */
const WIDE = 2;

/** Entries of Dump, format `wire/yrmcds/dump.ts`, and the cursor of the next page. */
export interface DumpPage {
  entries: Uint8Array<ArrayBuffer>;
  /** null behind the last page. */
  cursor: number | null;
}

export class SemaphorePages {
  readonly #records: Records;
  readonly #semaphores: Semaphores;
  readonly #time = new U64();

  constructor(records: Records, semaphores: Semaphores) {
    this.#records = records;
    this.#semaphores = semaphores;
  }

  /**
   * The first semaphores behind a name. Format: `wire/page.ts` with sizes of two bytes, rows of
   * consumption and maximum.
   *
   * @param prefix names begin with it
   * @param prefixes they begin with one of these, too; empty for all names
   * @param after null for the first page
   */
  *semaphores(
    prefix: Uint8Array,
    prefixes: readonly Uint8Array[],
    after: Uint8Array | null,
    rowsMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    this.#semaphores.expire(this.#records.clock.realMs);
    const filter = new LiveFilter(this.#records, Keyspace.semaphores, prefixes, prefix);
    const options = { keysMax: rowsMax, bytesMax: SEMAPHORE_PAGE_BYTES };
    return yield* firstPage(
      after,
      (behind) => firstKeys(this.#records, filter, behind, options),
      ({ keys }) => {
        this.#semaphores.expire(this.#records.clock.realMs);
        const startMs = this.#semaphores.intervalStartMs;
        const page = new PageWriter(ENTRY_BYTES, keys.length, WIDE);
        visitKeys(this.#records, Keyspace.semaphores, keys, (segment, slot) => {
          const { slots, arena } = segment;
          const valueAt = segment.valueAt(slot);
          const at = page.add(arena, slots[slot + KEY_AT]!, keyLengthOf(slots[slot + META]!));
          page.view.setUint32(at, readU32(arena, valueAt + CONSUMPTION), true);
          page.view.setUint32(at + 4, readMaximum(arena, valueAt, startMs), true);
        });
        return page;
      },
    );
  }

  /**
   * The first holders of a semaphore behind a holder; an empty page where there is no such semaphore. Format:
   * `wire/page.ts`, keys are holders, rows have amount and end.
   *
   * @param after null for the first page
   */
  *holders(
    name: Uint8Array,
    after: Uint8Array | null,
    rowsMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const number = this.#numberOf(name);
    if (number === 0) return new PageWriter(HOLDING_BYTES, 0).take(true);
    const filter = new LiveFilter(this.#records, Keyspace.holdings);
    const options = {
      isAsked: ({ slots, arena }: Segment, slot: number) =>
        readU32(arena, slots[slot + KEY_AT]! + HOLDING_NUMBER) === number,
      keysMax: rowsMax,
    };
    return yield* firstPage(
      after === null ? null : holdingKey(after, number),
      (behind) => this.#holderKeys(name, number, firstKeys(this.#records, filter, behind, options)),
      ({ keys }) => {
        const page = new PageWriter(HOLDING_BYTES, keys.length);
        visitKeys(this.#records, Keyspace.holdings, keys, (segment, slot) =>
          this.#writeHolder(page, segment, slot),
        );
        return page;
      },
    );
  }

  /** None where the semaphore was collected meanwhile: another one may have its number, and the holders are of that one. */
  *#holderKeys(
    name: Uint8Array,
    number: number,
    walk: Steps<FirstKeysFound>,
  ): Steps<FirstKeysFound> {
    const found = yield* walk;
    return this.#numberOf(name) === number ? found : { keys: [], isAll: true, live: 0 };
  }

  #numberOf(name: Uint8Array): number {
    return this.#semaphores.numberOf(name, 0, name.length, this.#records.clock.realMs);
  }

  /**
   * A page of Dump. A semaphore that exists all the while is on one page; one that comes or goes may be
   * on one or not.
   *
   * @param cursor 0 for the first page, then what the last page says
   * @param bytesMax at which a page ends; the segment that crosses it is on it to its end. A page that is
   * not the last one may have less, or nothing.
   * @param hasGiven the dump began before records were given to another shard: it has them as long as they are there
   */
  dump(cursor: number, bytesMax: number, nowMs: number, hasGiven = false): DumpPage {
    this.#semaphores.expire(nowMs);
    const { table } = this.#records;
    const filter = new LiveFilter(this.#records, Keyspace.semaphores);
    filter.hasGiven = hasGiven;
    const startMs = this.#semaphores.intervalStartMs;
    const out = new ByteWriter(4096);
    const walk = new Walk(table);
    let hash = cursor;
    for (; hash < HASH_END && out.length < bytesMax; hash = table.hashAfter(hash)) {
      const segment = table.segmentAt(hash);
      if (!walk.take(segment)) break;
      const { slots, arena } = segment;
      const from = hash;
      filter.forEach(segment, (slot) => {
        // It was on a page from before a restart, after which the table has fewer segments.
        if (slots[slot + HASH]! < from) return;
        const at = segment.valueAt(slot);
        const consumption = readU32(arena, at + CONSUMPTION);
        const maximum = readMaximum(arena, at, startMs);
        const nameBytes = keyLengthOf(slots[slot + META]!);
        writePageEntry(out, consumption, maximum, arena, slots[slot + KEY_AT]!, nameBytes);
      });
    }
    return { entries: out.take(), cursor: hash < HASH_END ? hash : null };
  }

  #writeHolder(page: PageWriter, segment: Segment, slot: number): void {
    const { slots, arena } = segment;
    const keyAt = slots[slot + KEY_AT]!;
    const valueAt = segment.valueAt(slot);
    const at = page.add(arena, keyAt, HOLDER_BYTES);
    page.view.setUint32(at, readU32(arena, valueAt + AMOUNT), true);
    if (arena[keyAt] !== HolderKind.lease) return;
    const ends = this.#records.toReal(this.#time.setMs(readMs(arena, valueAt + ENDS_AT)));
    page.view.setUint32(at + 4, ends.low, true);
    page.view.setUint32(at + 8, ends.high, true);
  }
}

/** The key that the record of a holding has. */
function holdingKey(holder: Uint8Array, number: number): Uint8Array {
  const key = new Uint8Array(HOLDING_KEY_BYTES);
  key.set(holder);
  writeU32(key, HOLDING_NUMBER, number);
  return key;
}
