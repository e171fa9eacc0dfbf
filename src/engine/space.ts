/**
 * Space: the byte budget of a shard's records, and of the indexes beside their table.
 *
 * Where a record does not fit, expired records are removed first, at most once a second: only then is it refused. What is
 * given back to a limit is never refused. It makes the value of a record longer by a few bytes, and the table grows by only as many.
 * Keys are given as keyspace and bytes, like everywhere on the hot path: an object would be an allocation a request.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import type { ShardClock } from "./shard-clock.ts";
import type { Kind } from "./segment.ts";
import { HASH_END, type Table } from "./table.ts";
import type { U64 } from "./time.ts";
import { FULL_SWEEP_INTERVAL_MS, STRETCHED_BYTES_MAX } from "./sizes.ts";

/** Room beyond the budget for values that grow, so that a full shard can still be written to: 1/8. */
const GROWTH_SHIFT = 3;
/** Room beyond the budget of a shard that splits, so that it refuses nothing for want of room that it soon has: 1/4. */
const STRETCH_SHIFT = 2;

export class Space {
  readonly #bytesMax: number;
  /** A split is under way, or not forgotten yet: until then the shard may hold a quarter more than its budget. */
  isStretched = false;
  /** Bytes of what is kept beside the table and counts against the same budget. */
  bytesBeside = 0;
  /** Requests for a new record, or a longer value, that the budget refused. */
  refused = 0;
  readonly #table: Table;
  readonly #clock: ShardClock;
  readonly #now: U64;
  #sweptAtMs = -Infinity;
  /** Values may become longer beyond the budget for now. */
  #isOpen = false;

  /**
   * @param now the shard's time, as the clock has it
   * @param bytesMax budget of the memory of the table and what is kept beside it, in bytes
   */
  constructor(table: Table, clock: ShardClock, now: U64, bytesMax: number) {
    this.#table = table;
    this.#clock = clock;
    this.#now = now;
    this.#bytesMax = bytesMax;
  }

  /** The budget of now, in bytes. */
  get bytesMax(): number {
    if (!this.isStretched) return this.#bytesMax;
    const stretched = this.#bytesMax + (this.#bytesMax >>> STRETCH_SHIFT);
    return Math.max(this.#bytesMax, Math.min(stretched, STRETCHED_BYTES_MAX));
  }

  /**
   * Runs `act`, and refuses no longer value of an existing record meanwhile. The caller makes sure that a value can become longer by a
   * few bytes only, however often this is called. Not to be nested.
   */
  neverRefusing(act: () => void): void {
    this.#isOpen = true;
    try {
      act();
    } finally {
      this.#isOpen = false;
    }
  }

  /** Says that the clock was set back. */
  noteSetBack(): void {
    this.#sweptAtMs = -Infinity;
  }

  /**
   * Takes bytes of the budget for what is kept beside the table.
   *
   * @returns false when the budget does not have them
   */
  reserve(bytes: number): boolean {
    const hasRoom = this.hasRoom(bytes);
    if (hasRoom) this.bytesBeside += bytes;
    return hasRoom;
  }

  /** Whether the budget has bytes for what is kept beside the table. It may move all records. */
  hasRoom(bytes: number): boolean {
    if (this.#has(bytes) || (this.#sweep() && this.#has(bytes))) return true;
    this.refused++;
    return false;
  }

  #has(bytes: number): boolean {
    return this.#table.bytes + this.bytesBeside + bytes <= this.bytesMax;
  }

  /** Adds a record to the table: see `Table.create`. False when the budget refuses it. */
  create(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    kind: Kind,
    unit: number,
    valueBytes: number,
  ): boolean {
    const table = this.#table;
    const bytesMax = this.bytesMax - this.bytesBeside;
    if (table.create(keyspace, bytes, at, length, kind, unit, valueBytes, bytesMax)) return true;
    if (
      this.#sweepAndFind(keyspace, bytes, at, length) &&
      table.create(keyspace, bytes, at, length, kind, unit, valueBytes, bytesMax)
    ) {
      return true;
    }
    this.refused++;
    return false;
  }

  /** Makes room for another value of the current record, whose key is given. False when the budget refuses it. */
  resize(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    valueBytes: number,
  ): boolean {
    const table = this.#table;
    const bytesMax = this.bytesMax + (this.bytesMax >>> GROWTH_SHIFT) - this.bytesBeside;
    if (table.resizeValue(valueBytes, bytesMax)) return true;
    if (
      this.#sweepAndFind(keyspace, bytes, at, length) &&
      table.resizeValue(valueBytes, bytesMax)
    ) {
      return true;
    }
    if (this.#isOpen) {
      table.lengthenValue(valueBytes);
      return true;
    }
    this.refused++;
    return false;
  }

  /** Keeps a start within the budget: records are restored whatever that is, into arenas with room to spare. */
  trim(): void {
    const table = this.#table;
    for (let hash = 0; hash < HASH_END; hash = table.hashAfter(hash)) {
      if (this.#has(0)) return;
      table.trim(hash);
    }
  }

  /** As `#sweep`; a sweep moves records, so the key is looked up again. */
  #sweepAndFind(keyspace: Keyspace, bytes: Uint8Array, at: number, length: number): boolean {
    if (!this.#sweep()) return false;
    this.#table.find(keyspace, bytes, at, length);
    return true;
  }

  /** Removes all that has expired; false when that was done just now. */
  #sweep(): boolean {
    const { nowMs } = this.#clock;
    if (nowMs - this.#sweptAtMs < FULL_SWEEP_INTERVAL_MS) return false;
    this.#sweptAtMs = nowMs;
    const table = this.#table;
    for (let hash = 0; hash < HASH_END; hash = table.hashAfter(hash)) table.sweep(hash, this.#now);
    return true;
  }
}
