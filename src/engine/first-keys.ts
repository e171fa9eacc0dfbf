/** The first keys of a query in their order, found in one walk over all records. */
import type { Keyspace } from "../wire/keyspace.ts";
import { compareBytes } from "../wire/bytes.ts";
import { forEachLive } from "./live.ts";
import { isBehind } from "./place.ts";
import type { Records } from "./records.ts";
import { KEY_AT, keyLengthOf, META, type Segment } from "./segment.ts";
import { Walk, type Steps } from "./walk.ts";

/** Keys beyond twice those of the page so far that are gathered before they are put in order. */
const SLACK_KEYS = 256;
/** The same of bytes: names may have 65,535. */
const SLACK_BYTES = 1 << 20;

/** Which records. */
export interface KeyQuery {
  readonly keyspace: Keyspace;
  /** Their keys begin with one of these; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
  readonly isAsked: (segment: Segment, slot: number) => boolean;
  /** Their keys come behind it; null for all. */
  readonly after: Uint8Array | null;
}

interface Found {
  readonly key: Uint8Array;
  readonly bytes: number;
}

/** Gathers keys and keeps copies of the first ones that a page has room for: memory is bounded. */
export class FirstKeys {
  readonly #keysMax: number;
  readonly #bytesMax: number;
  #found: Found[] = [];
  /** Nothing behind it has room; null while all has. */
  #last: Uint8Array | null = null;
  /** Bytes of the rows that were found. */
  #bytes = 0;
  #sortAt = SLACK_KEYS;
  #sortAtBytes = SLACK_BYTES;

  /** @param bytesMax of all rows; a single one may have more */
  constructor(keysMax: number, bytesMax = Infinity) {
    this.#keysMax = keysMax;
    this.#bytesMax = bytesMax;
  }

  /** @param bytes of the row that the record has on the page */
  add(segment: Segment, slot: number, bytes: number): void {
    if (this.#last !== null && isBehind(segment, slot, this.#last)) return;
    const { slots, arena } = segment;
    const at = slots[slot + KEY_AT]!;
    this.#found.push({ key: arena.slice(at, at + keyLengthOf(slots[slot + META]!)), bytes });
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
    found.sort((a, b) => compareBytes(a.key, 0, a.key.length, b.key, 0, b.key.length));
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
    this.#sortAt = 2 * count + SLACK_KEYS;
    this.#sortAtBytes = 2 * this.#bytes + SLACK_BYTES;
  }
}

/**
 * The live records of a query that come first.
 *
 * @param bytesMax of their keys; a single one may have more
 */
export function* firstKeys(
  records: Records,
  { keyspace, prefixes, isAsked, after }: KeyQuery,
  keysMax: number,
  bytesMax = Infinity,
): Steps<{ keys: Uint8Array[]; isAll: boolean }> {
  const first = new FirstKeys(keysMax, bytesMax);
  yield* new Walk(records.table).visit((segment) => {
    forEachLive(segment, records.now, keyspace, prefixes, (slot) => {
      if (!isAsked(segment, slot)) return;
      if (after !== null && !isBehind(segment, slot, after)) return;
      first.add(segment, slot, keyLengthOf(segment.slots[slot + META]!));
    });
  });
  return first.end();
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
