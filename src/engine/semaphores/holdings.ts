/**
 * The index of holdings: who holds what, and which lease ends first.
 *
 * It lies beside the record table, and counts against the same budget. After a restore it is made anew from the table.
 * The record of a holding has the row of this index; a row leads to the record, as holder and number are its key.
 *
 *     row = next of the holder, previous of the holder, holder's row, number, place of the lease's end
 */
import type { HashKey } from "../hash.ts";
import { HOLDER_BYTES, HOLDER_ID_BYTES, HolderKind } from "./holder.ts";
import { Holders } from "./holders.ts";
import { LeaseEnds } from "./lease-ends.ts";
import { Rows } from "./rows.ts";

const NEXT = 0;
const PREVIOUS = 1;
const HOLDER = 2;
const NUMBER = 3;
const END = 4;
const ROW_WORDS = 5;

/** Ids of connections, 16 bytes each, and the cursor of the next page. */
export interface ConnectionPage {
  ids: Uint8Array<ArrayBuffer>;
  /** null behind the last page. */
  cursor: number | null;
}

export class Holdings {
  readonly ends: LeaseEnds;
  readonly #rows = new Rows(ROW_WORDS);
  readonly #holders: Holders;

  constructor(hashKey: HashKey) {
    this.ends = new LeaseEnds(this.#rows, END);
    this.#holders = new Holders(hashKey);
  }

  get count(): number {
    return this.#rows.count;
  }

  get holders(): number {
    return this.#holders.count;
  }

  get bytes(): number {
    return this.#rows.bytes + this.#holders.bytes + this.ends.bytes;
  }

  /** Bytes that `grow` would add: 0 as long as there is room for one more holding. */
  get growthBytes(): number {
    return this.#rows.growthBytes + this.#holders.growthBytes + this.ends.growthBytes;
  }

  grow(): void {
    if (this.#rows.growthBytes > 0) this.#rows.grow();
    if (this.#holders.growthBytes > 0) this.#holders.grow();
    if (this.ends.growthBytes > 0) this.ends.grow();
  }

  /** Adds a holding of the holder that `key` begins with, and returns its row; there must be room. */
  add(key: Uint8Array, number: number): number {
    const holder = this.#holders.find(key) || this.#holders.add(key);
    const row = this.#rows.take();
    const { words } = this.#rows;
    const next = this.#holders.firstOf(holder);
    words[row + NEXT] = next;
    words[row + HOLDER] = holder;
    words[row + NUMBER] = number;
    if (next !== 0) words[next + PREVIOUS] = row;
    this.#holders.setFirst(holder, row);
    return row;
  }

  /** Removes a holding, and its holder if it holds nothing else. */
  remove(row: number): void {
    const { words } = this.#rows;
    const next = words[row + NEXT]!;
    const previous = words[row + PREVIOUS]!;
    const holder = words[row + HOLDER]!;
    this.ends.remove(row);
    if (next !== 0) words[next + PREVIOUS] = previous;
    if (previous !== 0) words[previous + NEXT] = next;
    else if (next !== 0) this.#holders.setFirst(holder, next);
    else this.#holders.remove(holder);
    this.#rows.free(row);
  }

  /** The first holding of the holder that `key` begins with; 0 when it holds nothing. */
  firstOf(key: Uint8Array): number {
    const holder = this.#holders.find(key);
    return holder === 0 ? 0 : this.#holders.firstOf(holder);
  }

  /** The holder's next holding; 0 behind the last. */
  next(row: number): number {
    return this.#rows.words[row + NEXT]!;
  }

  /** Number of the semaphore that is held. */
  numberOf(row: number): number {
    return this.#rows.words[row + NUMBER]!;
  }

  /** Writes the holder to the beginning of `key`. */
  copyHolder(row: number, key: Uint8Array): void {
    this.#holders.copy(this.#rows.words[row + HOLDER]!, 0, HOLDER_BYTES, key, 0);
  }

  /**
   * A page of the connections that hold something. A connection that does so all the while is on one page. If the
   * index is made anew meanwhile it may be missed until the next round.
   *
   * @param cursor 0 for the first page, then what the last page says
   * @param connectionsMax 1 or more
   */
  connections(cursor: number, connectionsMax: number): ConnectionPage {
    const holders = this.#holders;
    const ids = new Uint8Array(connectionsMax * HOLDER_ID_BYTES);
    let found = 0;
    let row = cursor;
    do {
      row = holders.after(row);
      if (row === 0) break;
      if (holders.firstOf(row) === 0 || holders.kindOf(row) !== HolderKind.connection) continue;
      holders.copy(row, 1, HOLDER_ID_BYTES, ids, found++ * HOLDER_ID_BYTES);
    } while (found < connectionsMax);
    return { ids: ids.slice(0, found * HOLDER_ID_BYTES), cursor: row === 0 ? null : row };
  }

  /** Forgets everything and gives the memory back. */
  clear(): void {
    this.#rows.clear();
    this.#holders.clear();
    this.ends.clear();
  }
}
