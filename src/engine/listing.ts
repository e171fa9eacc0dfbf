/**
 * Listing: LIST and STATS, the requests that read all records of a shard.
 *
 * Few records are sent as pages in the order of their keys. Many are sent in the order of the table. First comes a plan:
 * it cuts the range of hashes into parts, and says how many fragments each part has, because a reply begins with their
 * number. Then follow the parts, when the caller has room for them. Nothing is kept between two calls. A record that
 * stays is in one part and one fragment, even if others come and go; a part never has more fragments than planned.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import { PageWriter } from "../wire/page.ts";
import { FragmentCount, FragmentWriter, listRowBytes } from "../wire/throttr/fragments.ts";
import { firstKeys, firstPage, visitKeys } from "./first-keys.ts";
import { LiveFilter } from "./live.ts";
import type { Records } from "./records.ts";
import { HASH, KEY_AT, Kind, LOW, type Segment } from "./segment.ts";
import { HASH_END } from "./table.ts";
import { USAGE_ROW_BYTES, writeUsage, type Usage } from "./usage.ts";
import { Walk, type Steps } from "./walk.ts";
import { LISTING_PART_BYTES } from "./sizes.ts";

/** Which records are listed, and what of them. */
export interface ListingQuery {
  readonly rows: "list" | "stats";
  /** N of the dialect. */
  readonly valueSize: number;
  /** Keyspace of the dialect. */
  readonly keyspace: Keyspace;
  /** Keys begin with one of these; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
  /** See `Protocol`. Doors of release 0.4.0 leave it out. */
  readonly hasLiveUsage?: boolean;
  /** Of `plan` and `fragments`: see `LiveFilter`. */
  readonly hasGiven?: boolean;
}

/** A part of a plan: fragments of the records whose hashes lie from `from` on, up to the next part. */
export interface ListingPart {
  readonly from: number;
  readonly fragments: number;
}

export class Listing {
  readonly #records: Records;
  readonly #usage: Usage = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * The records behind a key, in the order of keys. Format: `wire/page.ts`.
   *
   * @param after the last key of the previous page; null for the first page
   * @param recordsMax if there are more live records, the page has no rows
   */
  *page(
    query: ListingQuery,
    after: Uint8Array | null,
    bytesMax: number,
    recordsMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const records = this.#records;
    const rowBytes = rowBytesOf(query);
    const options = {
      bytesOf: (segment: Segment, slot: number) => rowBytes + segment.keyBytesOf(slot),
      bytesMax,
      liveMax: recordsMax,
    };
    return yield* firstPage(
      after,
      (behind) => firstKeys(records, this.#filter(query), behind, options),
      ({ keys, live }) => {
        const page = new PageWriter(rowBytes, live);
        visitKeys(records, query.keyspace, keys, (segment, slot) => {
          const { slots, arena } = segment;
          const row = page.add(arena, slots[slot + KEY_AT]!, segment.keyBytesOf(slot));
          this.#writeRow(query, page.view, row, segment, slot);
        });
        return page;
      },
    );
  }

  /**
   * A step of a plan.
   *
   * @param cursor 0 at first, then what the last step returned
   */
  plan(query: ListingQuery, cursor: number): { parts: ListingPart[]; cursor: number | null } {
    const { table } = this.#records;
    const parts: ListingPart[] = [];
    const walk = new Walk(table);
    while (cursor < HASH_END) {
      const segment = table.segmentAt(cursor);
      if (!walk.take(segment)) break;
      const next = table.hashAfter(cursor);
      parts.push(...this.#cutParts(query, segment, cursor, next));
      cursor = next;
    }
    return { parts, cursor: cursor < HASH_END ? cursor : null };
  }

  /** Cuts hashes of a segment, `[from, to)`, into equal parts. Those before them were planned before the table had this segment. */
  #cutParts(query: ListingQuery, segment: Segment, from: number, to: number): ListingPart[] {
    const rowBytes = rowBytesOf(query);
    const { slots } = segment;
    let bytes = 0;
    const matching: number[] = [];
    this.#filter(query).forEach(segment, (slot) => {
      if (slots[slot + HASH]! < from) return;
      bytes += rowBytes + segment.keyBytesOf(slot);
      matching.push(slot);
    });
    const parts = 2 ** Math.max(0, Math.ceil(Math.log2(bytes / LISTING_PART_BYTES)));
    const span = (to - from) / parts;
    const fragments = Array.from({ length: parts }, () => new FragmentCount(rowBytes));
    for (const slot of matching) {
      const part = Math.floor((slots[slot + HASH]! - from) / span);
      fragments[part]!.add(segment.keyBytesOf(slot));
    }
    return fragments.flatMap(({ count }, part) =>
      count === 0 ? [] : [{ from: from + part * span, fragments: count }],
    );
  }

  /**
   * The fragments of consecutive parts: as many as planned, even if records have changed since.
   *
   * @param to hash at which the last of the parts ends
   * @param firstIndex index of the first fragment
   */
  *fragments(
    query: ListingQuery,
    parts: readonly ListingPart[],
    to: number,
    firstIndex: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const writer = new FragmentWriter(rowBytesOf(query), firstIndex);
    const walk = new Walk(this.#records.table);
    for (const [i, { from, fragments }] of parts.entries()) {
      const end = parts[i + 1]?.from ?? to;
      const lastIndex = writer.nextIndex + fragments - 1;
      const visit = this.#partWriter(query, from, end, writer, lastIndex);
      yield* walk.visit(visit, from, end);
      while (writer.nextIndex <= lastIndex) writer.cut();
    }
    return writer.out.take();
  }

  #partWriter(
    query: ListingQuery,
    from: number,
    to: number,
    writer: FragmentWriter,
    lastIndex: number,
  ): (segment: Segment) => void {
    const filter = this.#filter(query);
    return (segment) => {
      const { slots, arena } = segment;
      filter.forEach(segment, (slot) => {
        if (slots[slot + HASH]! < from || slots[slot + HASH]! >= to) return;
        const keyBytes = segment.keyBytesOf(slot);
        // The last fragment takes the records that were added since the plan.
        if (writer.nextIndex < lastIndex && writer.isFullFor(keyBytes)) writer.cut();
        const row = writer.add(arena, slots[slot + KEY_AT]!, keyBytes);
        this.#writeRow(query, writer.rows, row, segment, slot);
      });
    };
  }

  #filter({ keyspace, prefixes, hasGiven = false }: ListingQuery): LiveFilter {
    const filter = new LiveFilter(this.#records, keyspace, prefixes);
    filter.hasGiven = hasGiven;
    return filter;
  }

  #writeRow(query: ListingQuery, view: DataView, at: number, segment: Segment, slot: number): void {
    view.setUint8(at, segment.keyBytesOf(slot));
    if (query.rows === "stats") {
      const usage = this.#usage;
      const isLive = query.hasLiveUsage ?? false;
      if (this.#records.readUsage(segment, slot, isLive, usage)) writeUsage(view, at + 1, usage);
      return;
    }
    const isBuffer = segment.kindOf(slot) === Kind.buffer;
    view.setUint8(at + 1, isBuffer ? 1 : 0);
    view.setUint8(at + 2, segment.unitOf(slot));
    const ends = this.#records.realEnd(segment, slot);
    view.setUint32(at + 3, ends.low, true);
    view.setUint32(at + 7, ends.high, true);
    const bytesMax = query.valueSize >= 4 ? 0xffffffff : 2 ** (8 * query.valueSize) - 1;
    const bytesUsed = Math.min(isBuffer ? segment.slots[slot + LOW]! : query.valueSize, bytesMax);
    for (let i = 0; i < Math.min(4, query.valueSize); i++) {
      view.setUint8(at + 11 + i, bytesUsed >>> (8 * i));
    }
  }
}

/** Bytes of a row, as LIST or STATS has it. */
export function rowBytesOf({ rows, valueSize }: ListingQuery): number {
  return rows === "list" ? listRowBytes(valueSize) : 1 + USAGE_ROW_BYTES;
}
