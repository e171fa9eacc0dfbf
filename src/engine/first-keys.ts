/**
 * The first keys behind a key, in the order of keys: what pages of scans, exports and listings consist of.
 *
 * The table is ordered by hash, so every page takes one walk over all records. The walk keeps copies of few more keys
 * than the page has room for. Records may change between its steps: `visitKeys` looks each key up again.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import { compareBytes } from "../wire/bytes.ts";
import type { LiveFilter } from "./live.ts";
import { isBehind } from "./place.ts";
import type { Records } from "./records.ts";
import type { Segment } from "./segment.ts";
import { Walk, type Steps } from "./walk.ts";
import { FIRST_KEYS_SLACK, FIRST_KEYS_SLACK_BYTES } from "./sizes.ts";

interface Found {
  readonly key: Uint8Array;
  readonly bytes: number;
}

/** Gathers keys, and keeps copies of the first ones that a page has room for: memory is bounded. */
class FirstKeys {
  readonly #keysMax: number;
  readonly #bytesMax: number;
  #found: Found[] = [];
  /** The last key that has room; null while all have. */
  #last: Uint8Array | null = null;
  /** Bytes of the rows that were found. */
  #bytes = 0;
  #sortAt = FIRST_KEYS_SLACK;
  #sortAtBytes = FIRST_KEYS_SLACK_BYTES;

  /** @param bytesMax of all rows; a single one may have more */
  constructor(keysMax = Infinity, bytesMax = Infinity) {
    this.#keysMax = keysMax;
    this.#bytesMax = bytesMax;
  }

  /** Keys behind this one have no room; null while all have. */
  get last(): Uint8Array | null {
    return this.#last;
  }

  /** Adds the key of a record. @param bytes of the row that the record has on the page */
  addKeyOf(segment: Segment, slot: number, bytes: number): void {
    if (this.#last !== null && isBehind(segment, slot, this.#last)) return;
    this.#add(segment.keyOf(slot), bytes);
  }

  /** Adds another key, in place of the one that a record has. */
  add(key: Uint8Array, bytes: number): void {
    if (this.#last === null || compareKeys(key, this.#last) <= 0) this.#add(key, bytes);
  }

  #add(key: Uint8Array, bytes: number): void {
    this.#found.push({ key, bytes });
    this.#bytes += bytes;
    if (this.#found.length >= this.#sortAt || this.#bytes >= this.#sortAtBytes) this.#keepFirst();
  }

  /** The first keys, and whether they are all. */
  end(): { keys: Uint8Array[]; isAll: boolean } {
    this.#keepFirst();
    return { keys: this.#found.map(({ key }) => key), isAll: this.#last === null };
  }

  #keepFirst(): void {
    const found = this.#found;
    found.sort((a, b) => compareKeys(a.key, b.key));
    let count = 0;
    this.#bytes = 0;
    for (; count < Math.min(found.length, this.#keysMax); count++) {
      const bytes = this.#bytes + found[count]!.bytes;
      if (bytes > this.#bytesMax && count > 0) break;
      this.#bytes = bytes;
    }
    if (count < found.length) {
      this.#last = found[count - 1]!.key;
      found.length = count;
    }
    this.#sortAt = 2 * count + FIRST_KEYS_SLACK;
    this.#sortAtBytes = 2 * this.#bytes + FIRST_KEYS_SLACK_BYTES;
  }
}

/** Which keys `firstKeys` looks for, and how many. */
interface FirstKeysOptions {
  /** Records for which it is false are left out. */
  readonly isAsked?: (segment: Segment, slot: number) => boolean;
  /**
   * The key that a record is ordered by, null to leave it out; its own unless given.
   *
   * @param last keys behind it may be left out; null while there is room for all
   */
  readonly keyOf?: (segment: Segment, slot: number, last: Uint8Array | null) => Uint8Array | null;
  /** Bytes of the row that a record has on the page; those of its key unless given. */
  readonly bytesOf?: (segment: Segment, slot: number) => number;
  readonly keysMax?: number;
  /** Of all rows; a single one may have more. */
  readonly bytesMax?: number;
  /** The walk ends where there are more live records than these. */
  readonly liveMax?: number;
}

interface FirstKeysFound {
  readonly keys: Uint8Array[];
  /** There are no more keys than these. */
  readonly isAll: boolean;
  /** How many live records the walk has visited. */
  readonly live: number;
}

/**
 * The keys of live records that come first behind a key.
 *
 * @param after null for the first page
 */
export function* firstKeys(
  records: Records,
  filter: LiveFilter,
  after: Uint8Array | null,
  options: FirstKeysOptions,
): Steps<FirstKeysFound> {
  const { isAsked, keyOf, bytesOf, keysMax, bytesMax, liveMax = Infinity } = options;
  const first = new FirstKeys(keysMax, bytesMax);
  let live = 0;
  yield* new Walk(records.table).visit((segment) => {
    filter.forEach(segment, (slot) => {
      if (++live > liveMax) return;
      if (isAsked !== undefined && !isAsked(segment, slot)) return;
      if (keyOf !== undefined) {
        const key = keyOf(segment, slot, first.last);
        if (key === null || (after !== null && compareKeys(key, after) <= 0)) return;
        first.add(key, bytesOf?.(segment, slot) ?? key.length);
        return;
      }
      if (after !== null && !isBehind(segment, slot, after)) return;
      first.addKeyOf(segment, slot, bytesOf?.(segment, slot) ?? segment.keyBytesOf(slot));
    });
    return live <= liveMax;
  });
  return { ...first.end(), live };
}

function compareKeys(a: Uint8Array, b: Uint8Array): number {
  return compareBytes(a, 0, a.length, b, 0, b.length);
}

/** Visits the records under keys, in the order given, that are still live. False ends it. */
export function visitKeys(
  records: Records,
  keyspace: Keyspace,
  keys: readonly Uint8Array[],
  visit: (segment: Segment, slot: number) => boolean | void,
): void {
  for (const key of keys) {
    if (records.find(keyspace, key, 0, key.length) === 0) continue;
    if (visit(records.segment, records.slot) === false) return;
  }
}
