/**
 * The first keys behind a key, in the order of keys: what pages of scans, exports and listings consist of.
 *
 * The table is ordered by hash, so every page takes one walk over all records. The walk keeps copies of few more keys
 * than the page has room for. Records may change between its steps: `visitKeys` looks each key up again.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import { compareBytes } from "../wire/bytes.ts";
import type { PageWriter } from "../wire/page.ts";
import type { LiveFilter } from "./live.ts";
import { isBehind } from "./place.ts";
import type { Records } from "./records.ts";
import { HASH, type Segment } from "./segment.ts";
import { Walk, type Steps } from "./walk.ts";
import {
  FIRST_KEYS_SLACK,
  FIRST_KEYS_SLACK_BYTES,
  ORDERED_PAGE_ROWS_MAX,
  ORDERED_STEP_KEYS,
} from "./sizes.ts";

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
  constructor(keysMax: number, bytesMax = Infinity) {
    this.#keysMax = keysMax;
    this.#bytesMax = bytesMax;
  }

  /** Keys behind this one have no room; null while all have. */
  get last(): Uint8Array | null {
    return this.#last;
  }

  /** Adds a key. @param bytes of the row that its record has on the page */
  add(key: Uint8Array, bytes: number): void {
    if (this.#last !== null && compareKeys(key, this.#last) > 0) return;
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
    this.#sortAt = count + FIRST_KEYS_SLACK;
    this.#sortAtBytes = 2 * this.#bytes + FIRST_KEYS_SLACK_BYTES;
  }
}

/** Which keys `firstKeys` looks for, and how many. */
interface FirstKeysOptions {
  /**
   * Records for which it is false are left out.
   *
   * @param last keys behind it may be left out; null while there is room for all
   */
  readonly isAsked?: (segment: Segment, slot: number, last: Uint8Array | null) => boolean;
  /** The key that a record is ordered by, null to leave it out; its own unless given. */
  readonly keyOf?: (segment: Segment, slot: number) => Uint8Array | null;
  /** Bytes of the row that a record has on the page; those of its key unless given. */
  readonly bytesOf?: (segment: Segment, slot: number) => number;
  /** `ORDERED_PAGE_ROWS_MAX` at most, whatever is asked for. */
  readonly keysMax?: number;
  /** Of all rows; a single one may have more. */
  readonly bytesMax?: number;
  /** The walk ends where there are more live records than these, without a key. */
  readonly liveMax?: number;
}

export interface FirstKeysFound {
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
  const { isAsked, keyOf, bytesOf, keysMax = Infinity, bytesMax, liveMax = Infinity } = options;
  const first = new FirstKeys(Math.min(keysMax, ORDERED_PAGE_ROWS_MAX), bytesMax);
  const mayBeFirst = (segment: Segment, slot: number): boolean => {
    if (isAsked !== undefined && !isAsked(segment, slot, first.last)) return false;
    if (keyOf !== undefined) return true;
    if (after !== null && !isBehind(segment, slot, after)) return false;
    return first.last === null || !isBehind(segment, slot, first.last);
  };
  const gather = (segment: Segment, slot: number): void => {
    const key = keyOf === undefined ? segment.keyOf(slot) : keyOf(segment, slot);
    if (key === null || (after !== null && compareKeys(key, after) <= 0)) return;
    first.add(key, bytesOf?.(segment, slot) ?? key.length);
  };
  let live = 0;
  /** Of the keys that a step may gather. */
  let keysLeft = ORDERED_STEP_KEYS;
  yield* new Walk(records.table).visitParts((segment, from, to) => {
    const { slots } = segment;
    const all: number[] = [];
    filter.forEach(segment, (slot) => {
      if (slots[slot + HASH]! >= from) all.push(slot);
    });
    const found = all.filter((slot) => mayBeFirst(segment, slot));
    const isCut = found.length > keysLeft;
    const end = isCut ? Math.max(from + 1, hashAt(segment, found, keysLeft)) : to;
    const isVisited = (slot: number): boolean => slots[slot + HASH]! < end;
    live += isCut ? all.filter(isVisited).length : all.length;
    if (live > liveMax) return null;
    for (const slot of isCut ? found.filter(isVisited) : found) gather(segment, slot);
    keysLeft = isCut ? ORDERED_STEP_KEYS : keysLeft - found.length;
    return end;
  });
  if (live > liveMax) return { keys: [], isAll: false, live };
  if (keysLeft < ORDERED_STEP_KEYS) yield;
  return { ...first.end(), live };
}

/**
 * Writes a page of the first keys behind a key. Every page but the last has a row at least, as its last row says where the next
 * page begins: if all records that a walk found are gone when it ends, another walk begins behind them.
 *
 * @param after null for the first page
 * @param write writes the rows of the keys whose records are still there
 */
export function* firstPage(
  after: Uint8Array | null,
  walk: (behind: Uint8Array | null) => Steps<FirstKeysFound>,
  write: (found: FirstKeysFound) => PageWriter,
): Steps<Uint8Array<ArrayBuffer>> {
  for (let behind = after; ;) {
    const found = yield* walk(behind);
    const page = write(found);
    const last = found.keys.at(-1);
    if (!page.isEmpty || found.isAll || last === undefined) return page.take(found.isAll);
    behind = last;
  }
}

/** The hash that comes at an index in the order of hashes of the records in some slots. */
function hashAt({ slots }: Segment, of: readonly number[], index: number): number {
  return Uint32Array.from(of, (slot) => slots[slot + HASH]!).toSorted()[index]!;
}

function compareKeys(a: Uint8Array, b: Uint8Array): number {
  return compareBytes(a, 0, a.length, b, 0, b.length);
}

/**
 * Visits the records under keys, in the order given, that are still live. False ends it.
 *
 * @returns false when a visit has ended it
 */
export function visitKeys(
  records: Records,
  keyspace: Keyspace,
  keys: readonly Uint8Array[],
  visit: (segment: Segment, slot: number) => boolean | void,
): boolean {
  for (const key of keys) {
    if (records.find(keyspace, key, 0, key.length) === 0) continue;
    if (visit(records.segment, records.slot) === false) return false;
  }
  return true;
}
