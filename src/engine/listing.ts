/**
 * Listing: what requests about all records of a shard read.
 *
 * Few records are given as pages in the order of their keys. Many are given as they lie: first a plan,
 * which cuts the range of hashes so that each part has few fragments and says how many; then the parts,
 * whenever whoever asks has room. Nothing is kept between two calls. Records that stay are in one part
 * and one fragment, whatever happens to others meanwhile; a part never has more fragments than planned.
 */
import { compareBytes } from "../wire/bytes.ts";
import { PageWriter } from "../wire/page.ts";
import { FragmentCounter, FragmentWriter, listRowBytes } from "../wire/throttr/fragments.ts";
import { forEachLive } from "./live.ts";
import type { Records } from "./records.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  HASH,
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
import { USAGE_ROW_BYTES, writeUsage, type Usage } from "./usage.ts";

/** Which records are listed, and what of them. */
export interface ListingQuery {
  readonly rows: "list" | "stats";
  /** N of the asking door. */
  readonly valueSize: number;
  /** Keyspace of the asking door. */
  readonly keyspace: number;
  /** Keys begin with one of these; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
  /** See `Protocol`. Doors of release 0.4.0 leave it out. */
  readonly hasLiveUsage?: boolean;
}

/** A part of a plan: fragments of the records whose hashes lie from `from` on, up to the next part. */
export interface ListingPart {
  readonly from: number;
  readonly fragments: number;
}

/** Counts of live records. */
export interface ListingTotals {
  counters: number;
  buffers: number;
  bufferBytes: number;
}

/** A part of a plan is made to hold about so many bytes. */
const PART_BYTES = 16 * 1024;
/** Slots that one step of a plan looks at, at least. */
const PLAN_STEP_SLOTS = 1 << 17;

export class Listing {
  readonly #records: Records;
  readonly #usage: Usage = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };

  constructor(records: Records) {
    this.#records = records;
  }

  /** Counts the live records of a keyspace. */
  totals(keyspace: number): ListingTotals {
    const totals: ListingTotals = { counters: 0, buffers: 0, bufferBytes: 0 };
    for (const segment of this.#records.table.segments()) {
      const { slots } = segment;
      forEachLive(segment, this.#records.now, keyspace, [], (slot) => {
        if (kindOf(slots[slot + META]!) === Kind.counter) totals.counters++;
        else {
          totals.buffers++;
          totals.bufferBytes += slots[slot + LOW]!;
        }
      });
    }
    return totals;
  }

  /**
   * The records behind a key, in the order of keys. Format: `wire/page.ts`.
   *
   * @param after the last key that the asker has; null for the first page
   * @param recordsMax with more records than these the page has none of them
   */
  page(
    query: ListingQuery,
    after: Uint8Array | null,
    bytesMax: number,
    recordsMax: number,
  ): Uint8Array<ArrayBuffer> {
    const found = new Found();
    let total = 0;
    for (const segment of this.#records.table.segments()) {
      forEachLive(segment, this.#records.now, query.keyspace, query.prefixes, (slot) => {
        if (total++ < recordsMax) found.add(segment, slot);
      });
    }
    const page = new PageWriter(rowBytesOf(query), total);
    if (total > recordsMax) return page.take(false);
    const order = found.sorted();
    let i = after === null ? 0 : found.firstAfter(order, after);
    for (; i < order.length && page.length < bytesMax; i++) {
      const { segment, slot } = found.at(order[i]!);
      const { slots, arena } = segment;
      const keyBytes = keyLengthOf(slots[slot + META]!);
      const row = page.add(arena, slots[slot + KEY_AT]!, keyBytes);
      this.#writeRow(query, page.view, row, segment, slot);
    }
    return page.take(i === order.length);
  }

  /**
   * A step of a plan.
   *
   * @param cursor 0 at first, then what the last step returned
   */
  plan(query: ListingQuery, cursor: number): { parts: ListingPart[]; cursor: number | null } {
    const { table } = this.#records;
    const parts: ListingPart[] = [];
    let slots = 0;
    while (cursor < HASH_END && slots < PLAN_STEP_SLOTS) {
      const segment = table.segmentAt(cursor);
      const next = table.hashAfter(cursor);
      parts.push(...this.#partsOf(query, segment, cursor, next));
      slots += segment.capacity;
      cursor = next;
    }
    return { parts, cursor: cursor < HASH_END ? cursor : null };
  }

  /** Cuts the hashes of a segment, `[from, to)`, into equal parts. */
  #partsOf(query: ListingQuery, segment: Segment, from: number, to: number): ListingPart[] {
    const rowBytes = rowBytesOf(query);
    const { slots } = segment;
    let bytes = 0;
    const matching: number[] = [];
    forEachLive(segment, this.#records.now, query.keyspace, query.prefixes, (slot) => {
      bytes += rowBytes + keyLengthOf(slots[slot + META]!);
      matching.push(slot);
    });
    const count = 2 ** Math.max(0, Math.ceil(Math.log2(bytes / PART_BYTES)));
    const span = (to - from) / count;
    const counters = Array.from({ length: count }, () => new FragmentCounter(rowBytes));
    for (const slot of matching) {
      const part = Math.floor((slots[slot + HASH]! - from) / span);
      counters[part]!.add(keyLengthOf(slots[slot + META]!));
    }
    return counters.flatMap((counter, part) =>
      counter.count === 0 ? [] : [{ from: from + part * span, fragments: counter.count }],
    );
  }

  /**
   * The fragments of parts that follow each other: as many as planned, whatever has changed since.
   *
   * @param to hash at which the last of the parts ends
   * @param firstIndex index of the first fragment
   */
  fragments(
    query: ListingQuery,
    parts: readonly ListingPart[],
    to: number,
    firstIndex: number,
  ): Uint8Array<ArrayBuffer> {
    const writer = new FragmentWriter(rowBytesOf(query), firstIndex);
    parts.forEach(({ from, fragments }, i) => {
      const lastIndex = writer.nextIndex + fragments - 1;
      this.#writePart(query, from, parts[i + 1]?.from ?? to, writer, lastIndex);
      while (writer.nextIndex <= lastIndex) writer.cut();
    });
    return writer.out.take();
  }

  #writePart(
    query: ListingQuery,
    from: number,
    to: number,
    writer: FragmentWriter,
    lastIndex: number,
  ): void {
    const { table } = this.#records;
    for (let hash = from; hash < to; hash = table.hashAfter(hash)) {
      const segment = table.segmentAt(hash);
      const { slots, arena } = segment;
      forEachLive(segment, this.#records.now, query.keyspace, query.prefixes, (slot) => {
        if (slots[slot + HASH]! < from || slots[slot + HASH]! >= to) return;
        const keyBytes = keyLengthOf(slots[slot + META]!);
        // The last fragment takes what has come since the plan.
        if (writer.nextIndex < lastIndex && writer.isFullFor(keyBytes)) writer.cut();
        const row = writer.add(arena, slots[slot + KEY_AT]!, keyBytes);
        this.#writeRow(query, writer.rows, row, segment, slot);
      });
    }
  }

  #writeRow(query: ListingQuery, view: DataView, at: number, segment: Segment, slot: number): void {
    const { slots } = segment;
    const meta = slots[slot + META]!;
    view.setUint8(at, keyLengthOf(meta));
    if (query.rows === "stats") {
      const usage = this.#usage;
      const isLive = query.hasLiveUsage ?? false;
      if (this.#records.readUsage(segment, slot, isLive, usage)) writeUsage(view, at + 1, usage);
      return;
    }
    const isBuffer = kindOf(meta) === Kind.buffer;
    view.setUint8(at + 1, isBuffer ? 1 : 0);
    view.setUint8(at + 2, unitOf(meta));
    view.setUint32(at + 3, slots[slot + EXPIRES_LOW]!, true);
    view.setUint32(at + 7, slots[slot + EXPIRES_HIGH]!, true);
    const bytesMax = query.valueSize >= 4 ? 0xffffffff : 2 ** (8 * query.valueSize) - 1;
    const bytesUsed = Math.min(isBuffer ? slots[slot + LOW]! : query.valueSize, bytesMax);
    for (let i = 0; i < Math.min(4, query.valueSize); i++) {
      view.setUint8(at + 11 + i, bytesUsed >>> (8 * i));
    }
  }
}

/** Bytes of a row, as LIST or STATS has it. */
export function rowBytesOf({ rows, valueSize }: ListingQuery): number {
  return rows === "list" ? listRowBytes(valueSize) : 1 + USAGE_ROW_BYTES;
}

/** Leading bytes of a key that make a number, which compares faster than bytes do. */
const LEAD_BYTES = 6;

/** Records found in a walk, to be put in the order of their keys. */
class Found {
  readonly #segments: Segment[] = [];
  readonly #slots: number[] = [];
  readonly #leads: number[] = [];

  add(segment: Segment, slot: number): void {
    this.#segments.push(segment);
    this.#slots.push(slot);
    const { slots, arena } = segment;
    this.#leads.push(leadOf(arena, slots[slot + KEY_AT]!, keyLengthOf(slots[slot + META]!)));
  }

  at(index: number): { segment: Segment; slot: number } {
    return { segment: this.#segments[index]!, slot: this.#slots[index]! };
  }

  sorted(): Uint32Array {
    const order = Uint32Array.from(this.#slots, (_, index) => index);
    return order.toSorted((a, b) => this.#leads[a]! - this.#leads[b]! || this.#compare(a, b));
  }

  /** Position in `order` of the first key behind `key`. */
  firstAfter(order: Uint32Array, key: Uint8Array): number {
    let from = 0;
    let to = order.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      const { segment, slot } = this.at(order[middle]!);
      const { slots, arena } = segment;
      const length = keyLengthOf(slots[slot + META]!);
      const isBehind = compareBytes(arena, slots[slot + KEY_AT]!, length, key, 0, key.length) > 0;
      if (isBehind) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  #compare(a: number, b: number): number {
    const one = this.at(a);
    const other = this.at(b);
    return compareBytes(
      one.segment.arena,
      one.segment.slots[one.slot + KEY_AT]!,
      keyLengthOf(one.segment.slots[one.slot + META]!),
      other.segment.arena,
      other.segment.slots[other.slot + KEY_AT]!,
      keyLengthOf(other.segment.slots[other.slot + META]!),
    );
  }
}

function leadOf(bytes: Uint8Array, at: number, length: number): number {
  let lead = 0;
  for (let i = 0; i < LEAD_BYTES; i++) lead = lead * 256 + (i < length ? bytes[at + i]! : 0);
  return lead;
}
