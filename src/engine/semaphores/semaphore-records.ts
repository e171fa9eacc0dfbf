/**
 * Semaphores and holdings as records, and the index that leads from holders to them.
 *
 * Beside the current record (see `Records`) there are a current semaphore and a current holder. The current record is
 * that of the semaphore after `find` and `seek`, and that of its holding after `findAmount` and `seekAmount`. Adding or
 * removing a record moves others, so the record of the semaphore is looked up again after that: by its number, without
 * its name. This file only stores; `Semaphores` has the rules.
 *
 * The memory of the index counts against the budget as it is allocated. In all, with the usage of records
 * counted, a semaphore takes about 100 bytes and its name, what a connection holds of one 110, a connection
 * that holds anything 40, and a lease 170.
 */
import { copyBytes } from "../../wire/bytes.ts";
import { Keyspace } from "../../wire/keyspace.ts";
import type { HashKey } from "../hash.ts";
import type { RecordPlace } from "../record-place.ts";
import type { Records } from "../records.ts";
import {
  HASH,
  KEY_AT,
  keyLengthOf,
  keyspaceOf,
  META,
  SLOT_WORDS,
  type Segment,
} from "../segment.ts";
import { HOLDER_BYTES, HolderKind } from "./holder.ts";
import { Holdings } from "./holdings.ts";
import { HASH_END } from "../table.ts";
import { Numbers } from "./numbers.ts";
import {
  AMOUNT,
  CONSUMPTION,
  SEMAPHORE_BYTES,
  ENDS_AT,
  HOLDING_BYTES,
  HOLDING_KEY_BYTES,
  HOLDING_NUMBER,
  LEASE_BYTES,
  MAXIMUM,
  NUMBER,
  readMs,
  readU32,
  ROW,
  UPDATED_AT,
  writeMs,
  writeU32,
} from "./stored.ts";
import { SEMAPHORE_INDEX_BYTES_EACH_MAX, SEMAPHORE_INDEX_BYTES_MIN } from "../sizes.ts";

export class SemaphoreRecords {
  readonly holdings: Holdings;
  readonly #records: Records;
  readonly #numbers = new Numbers();
  /** Placement hashes of semaphores by number, as far as they were asked for. */
  readonly #places = new Map<number, number>();
  /** Rows have been restored that the index does not know of. */
  #isStale = false;
  #nameBytes = 0;
  /** Semaphores that existed at the start or were added since. */
  semaphoresSeen = 0;
  /** Number of the current semaphore. */
  #number = 0;
  /** Key of a holding: the current holder, and a number. */
  readonly #key = new Uint8Array(HOLDING_KEY_BYTES);
  readonly #isCurrent = (segment: Segment, slot: number): boolean =>
    keyspaceOf(segment.slots[slot + META]!) === Keyspace.semaphores &&
    readU32(segment.arena, segment.valueAt(slot) + NUMBER) === this.#number;

  constructor(records: Records, hashKey: HashKey) {
    this.#records = records;
    this.holdings = new Holdings(hashKey);
  }

  get semaphores(): number {
    return this.#numbers.count;
  }

  /** Number of the current semaphore. */
  get number(): number {
    return this.#number;
  }

  /** Bytes of semaphores, of holdings, and of the index. */
  get bytes(): number {
    const { count, ends } = this.holdings;
    const slotBytes = SLOT_WORDS * 4 + this.#records.segment.usageBytes;
    const holdingBytes = slotBytes + HOLDING_KEY_BYTES + HOLDING_BYTES;
    return (
      this.semaphores * (slotBytes + SEMAPHORE_BYTES) +
      this.#nameBytes +
      count * holdingBytes +
      ends.count * (LEASE_BYTES - HOLDING_BYTES) +
      this.#indexBytes
    );
  }

  // Fields of the current record, which must be that of a semaphore.

  get consumption(): number {
    return this.#read(CONSUMPTION);
  }

  get maximum(): number {
    return this.#read(MAXIMUM);
  }

  get updatedAtMs(): number {
    const { segment, slot } = this.#records.table;
    return readMs(segment.arena, segment.valueAt(slot) + UPDATED_AT);
  }

  /** Writes the fields of the current record, that of a semaphore. */
  write(consumption: number, maximum: number, updatedAtMs: number): void {
    const { segment, slot } = this.#records.table;
    const at = segment.valueAt(slot);
    writeU32(segment.arena, at + CONSUMPTION, consumption);
    writeU32(segment.arena, at + MAXIMUM, maximum);
    writeMs(segment.arena, at + UPDATED_AT, updatedAtMs);
    this.#records.commit.rewritten(segment, slot);
  }

  /** Looks up the semaphore whose name is `bytes[at, at + length)`: makes it the current one, with its record. */
  find(bytes: Uint8Array, at: number, length: number): boolean {
    if (this.#records.find(Keyspace.semaphores, bytes, at, length) === 0) return false;
    this.#number = this.#read(NUMBER);
    return true;
  }

  /** Makes the record of the current semaphore the current record. */
  seek(): void {
    const hash = this.#numbers.hashOf(this.#number);
    if (!this.#records.table.findWhere(hash, this.#isCurrent)) {
      throw new Error(`semaphores: there is no semaphore ${this.#number}`);
    }
  }

  /** Adds a semaphore under the name that the last `find` missed; `write` must follow. False when there is no room. */
  add(bytes: Uint8Array, at: number, length: number): boolean {
    const records = this.#records;
    const { growthBytes } = this.#numbers;
    if (growthBytes > 0) {
      if (!records.space.reserve(growthBytes)) return false;
      this.#numbers.grow();
    }
    if (!records.addBuffer(Keyspace.semaphores, bytes, at, length, SEMAPHORE_BYTES)) return false;
    const { segment, slot } = records.table;
    this.#number = this.#numbers.take(segment.slots[slot + HASH]!);
    writeU32(segment.arena, segment.valueAt(slot) + NUMBER, this.#number);
    this.#nameBytes += length;
    this.semaphoresSeen++;
    return true;
  }

  /** Takes the current semaphore back, which was just added and has not been written. */
  takeBack(nameBytes: number): void {
    this.seek();
    this.#records.table.remove();
    this.#forget(this.#number, nameBytes);
    this.semaphoresSeen--;
  }

  /** Removes the semaphores of the segment that covers a hash without consumption since a time. */
  removeIdle(hash: number, sinceMs: number): number {
    const { table, commit, now } = this.#records;
    const removed = table.removeWhere(hash, (segment, slot) => {
      const meta = segment.slots[slot + META]!;
      if (keyspaceOf(meta) !== Keyspace.semaphores || table.isGiven(meta)) return false;
      const at = segment.valueAt(slot);
      if (readU32(segment.arena, at + CONSUMPTION) > 0) return false;
      if (readMs(segment.arena, at + UPDATED_AT) >= sinceMs) return false;
      this.#forget(readU32(segment.arena, at + NUMBER), keyLengthOf(meta));
      commit.removed(segment, slot);
      return true;
    });
    if (removed > 0) table.sweep(hash, now);
    return removed;
  }

  #forget(number: number, nameBytes: number): void {
    this.#numbers.free(number);
    this.#places.delete(number);
    this.#nameBytes -= nameBytes;
  }

  /** Sets the current holder. */
  setHolder(holder: Uint8Array): void {
    copyBytes(holder, 0, this.#key, 0, HOLDER_BYTES);
  }

  /** Looks up what the current holder holds of the current semaphore; 0 for nothing. */
  findAmount(): number {
    writeU32(this.#key, HOLDING_NUMBER, this.#number);
    const isThere = this.#records.find(Keyspace.holdings, this.#key, 0, HOLDING_KEY_BYTES) !== 0;
    return isThere ? this.#read(AMOUNT) : 0;
  }

  /** Looks up the amount of a holding of the index; its semaphore and its holder become the current ones. */
  seekAmount(row: number): number {
    this.holdings.copyHolder(row, this.#key);
    this.#number = this.holdings.numberOf(row);
    const amount = this.findAmount();
    if (amount === 0) throw new Error(`semaphores: there is no holding of ${this.#number}`);
    return amount;
  }

  /** Sets the amount of the current record, that of a holding; 0 removes it. */
  setAmount(amount: number): void {
    if (amount === 0) {
      this.holdings.remove(this.row);
      this.#records.remove();
      return;
    }
    const { segment, slot } = this.#records.table;
    writeU32(segment.arena, segment.valueAt(slot) + AMOUNT, amount);
    this.#records.commit.rewritten(segment, slot);
  }

  /**
   * Adds the holding that the last `findAmount` missed. False when there is no room.
   *
   * @param endsAtMs of a lease
   */
  addHolding(amount: number, endsAtMs: number): boolean {
    const { holdings } = this;
    const { growthBytes } = holdings;
    const isLease = this.#key[0] === HolderKind.lease;
    if (growthBytes > 0) {
      if (!this.#records.space.reserve(growthBytes)) return false;
      holdings.grow();
    }
    const isAdded = this.#records.addBuffer(
      Keyspace.holdings,
      this.#key,
      0,
      HOLDING_KEY_BYTES,
      isLease ? LEASE_BYTES : HOLDING_BYTES,
    );
    if (!isAdded) return false;
    const row = holdings.add(this.#key, this.#number);
    const { segment, slot } = this.#records.table;
    const at = segment.valueAt(slot);
    writeU32(segment.arena, at + AMOUNT, amount);
    writeU32(segment.arena, at + ROW, row);
    if (isLease) {
      writeMs(segment.arena, at + ENDS_AT, endsAtMs);
      holdings.ends.add(row, endsAtMs);
    }
    this.#records.commit.rewritten(segment, slot);
    return true;
  }

  /** When the current record, that of a lease, ends. */
  get endsAtMs(): number {
    const { segment, slot } = this.#records.table;
    return readMs(segment.arena, segment.valueAt(slot) + ENDS_AT);
  }

  /** Name of the semaphore with a number, whose record becomes the current one; null if no semaphore has the number. */
  nameOf(number: number): Uint8Array | null {
    this.ensureIndex();
    if (!this.#numbers.isInUse(number)) return null;
    this.#number = number;
    this.seek();
    const { segment, slot } = this.#records.table;
    return segment.keyOf(slot);
  }

  /** Row of the index of the current record, that of a holding. */
  get row(): number {
    return this.#read(ROW);
  }

  /** Moves the end of the current record, that of a lease. */
  setEnd(endsAtMs: number): void {
    const { segment, slot } = this.#records.table;
    writeMs(segment.arena, segment.valueAt(slot) + ENDS_AT, endsAtMs);
    this.#records.commit.rewritten(segment, slot);
    this.holdings.ends.move(this.row, endsAtMs);
  }

  #read(field: number): number {
    const { segment, slot } = this.#records.table;
    return readU32(segment.arena, segment.valueAt(slot) + field);
  }

  get #indexBytes(): number {
    return this.#numbers.bytes + this.holdings.bytes;
  }

  /** Says that records of semaphores or holdings have been restored. */
  noteRestored(): void {
    this.#isStale = true;
  }

  /** Makes the index, if it does not know all that was restored. */
  ensureIndex(): void {
    if (this.#isStale) this.#makeIndex();
  }

  /** Makes the index anew, if it has far more memory than it needs. */
  trimIndex(): void {
    const inUse = (this.#numbers.count + this.holdings.count) * SEMAPHORE_INDEX_BYTES_EACH_MAX;
    if (this.#indexBytes > SEMAPHORE_INDEX_BYTES_MIN + inUse) this.#makeIndex();
  }

  /** Makes the index of what the table holds, whatever the budget. */
  #makeIndex(): void {
    const numbers = this.#numbers;
    const bytesBefore = this.#indexBytes;
    const semaphoresGone = this.semaphoresSeen - numbers.count;
    numbers.clear();
    this.holdings.clear();
    this.#nameBytes = 0;
    for (const segment of this.#records.table.segments()) this.#indexSegment(segment);
    numbers.endClaims();
    this.semaphoresSeen = semaphoresGone + numbers.count;
    this.#records.space.bytesBeside += this.#indexBytes - bytesBefore;
    this.#isStale = false;
  }

  /**
   * Placement hash of the semaphore with a number, where its holdings lie, too; -1 where there is none. Names may be long, so
   * each is hashed once until `forgetPlaces`.
   */
  placeOf(number: number, place: RecordPlace): number {
    this.ensureIndex();
    const known = this.#places.get(number);
    if (known !== undefined) return known;
    if (!this.#numbers.isInUse(number)) return -1;
    this.#number = number;
    this.seek();
    const { segment, slot } = this.#records.table;
    const { slots, arena } = segment;
    const nameBytes = keyLengthOf(slots[slot + META]!);
    const hash = place.hashOf(Keyspace.semaphores, arena, slots[slot + KEY_AT]!, nameBytes);
    this.#places.set(number, hash);
    return hash;
  }

  /** Gives the memory of `placeOf` back. */
  forgetPlaces(): void {
    this.#places.clear();
  }

  /** Semaphores, with their holdings, were given to another shard: the index is made anew without them. */
  noteGiven(): void {
    this.#isStale ||= this.#numbers.count > 0 || this.holdings.count > 0;
  }

  /** A number that rows on disk may still have under a semaphore that was given away: see `Numbers.retire`. */
  retireNumber(number: number): void {
    this.#numbers.retire(number);
  }

  /** No row on disk has given semaphores. */
  freeRetiredNumbers(): void {
    this.ensureIndex();
    this.#numbers.freeRetired();
  }

  /**
   * At a start that has left out semaphores of other shards: drops holdings without a semaphore, without tombstones.
   */
  dropOrphans(): void {
    const { table } = this.#records;
    const numbers = new Set<number>();
    for (const segment of table.segments()) {
      const { slots, arena } = segment;
      for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
        const meta = slots[slot + META]!;
        if (meta === 0 || keyspaceOf(meta) !== Keyspace.semaphores) continue;
        numbers.add(readU32(arena, segment.valueAt(slot) + NUMBER));
      }
    }
    for (let hash = 0; hash < HASH_END; hash = table.hashAfter(hash)) {
      table.removeWhere(hash, ({ slots, arena }, slot) => {
        if (keyspaceOf(slots[slot + META]!) !== Keyspace.holdings) return false;
        const number = readU32(arena, slots[slot + KEY_AT]! + HOLDING_NUMBER);
        if (numbers.has(number)) return false;
        this.#numbers.retire(number);
        return true;
      });
    }
    this.noteRestored();
  }

  #indexSegment(segment: Segment): void {
    const { slots, arena } = segment;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      const meta = slots[slot + META]!;
      if (meta === 0) continue;
      const at = segment.valueAt(slot);
      if (this.#records.table.isGiven(meta)) {
        if (keyspaceOf(meta) === Keyspace.semaphores)
          this.#numbers.retire(readU32(arena, at + NUMBER));
      } else if (keyspaceOf(meta) === Keyspace.semaphores) {
        this.#numbers.claim(readU32(arena, at + NUMBER), slots[slot + HASH]!);
        this.#nameBytes += keyLengthOf(meta);
      } else if (keyspaceOf(meta) === Keyspace.holdings) {
        this.#indexHolding(arena, slots[slot + KEY_AT]!, at);
      }
    }
  }

  #indexHolding(arena: Uint8Array, keyAt: number, valueAt: number): void {
    const { holdings } = this;
    const key = this.#key;
    copyBytes(arena, keyAt, key, 0, HOLDING_KEY_BYTES);
    if (holdings.growthBytes > 0) holdings.grow();
    const row = holdings.add(key, readU32(key, HOLDING_NUMBER));
    writeU32(arena, valueAt + ROW, row);
    if (key[0] === HolderKind.lease) holdings.ends.add(row, readMs(arena, valueAt + ENDS_AT));
  }
}
