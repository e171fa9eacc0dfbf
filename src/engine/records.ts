/**
 * Live records: the table seen through the clock, with every change noted for the commit.
 *
 * An expired record is absent here, whether or not it was collected. Removing it takes no image: a replay of the
 * journal knows its expiry and the time, and drops it, too.
 *
 * **The current record** is a cursor, `segment` and `slot`: most methods work on it instead of looking a key up again.
 * It moves in four ways:
 * - `find` moves it to the record under a key; where there is none, `slot` is -1.
 * - Adding a record moves it to the new record.
 * - Removing it, or an expiry that has come, leaves none: `slot` is -1.
 * - Setting a longer value may split its segment. It is still the same record, in another place.
 * Adding or removing any record may move all others of a segment, so nothing keeps a slot across such a call.
 *
 * Methods on the hot path take a key as keyspace, bytes, offset and length: an object for each request would be an
 * allocation.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import { copyBytes, type ByteWriter } from "../wire/bytes.ts";
import { Change } from "../wire/throttr/requests.ts";
import { Commit } from "./commit.ts";
import type { HashKey } from "./hash.ts";
import { MINUTE_MS } from "./minute-counts.ts";
import type { RecordImage } from "./image.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  hasExpired,
  HIGH,
  IMAGE_AT,
  Kind,
  kindOf,
  LOW,
  META,
  recordMeta,
  KEPT_MASK,
  SLOT_WORDS,
  unitOf,
  type Segment,
} from "./segment.ts";
import { ShardClock } from "./shard-clock.ts";
import { Space } from "./space.ts";
import { Table } from "./table.ts";
import { U64 } from "./time.ts";
import { countRead, countWrite, readUsage, readUsageAtTurn, type Usage } from "./usage.ts";

const U32 = 2 ** 32;

export class Records {
  readonly table: Table;
  readonly commit = new Commit();
  readonly clock = new ShardClock();
  /** Present time of the shard, ns. It never goes back. */
  readonly now = new U64();
  nowMs = 0;
  /** Present time of the platform: every time in a reply is in it. */
  readonly realNow = new U64();
  readonly space: Space;
  /** No record expires before this time point. */
  readonly deadline = new U64().set(0xffffffff, 0xffffffff);
  /** A record has been written that expires before all the others. */
  hasEarlierDeadline = false;

  readonly #expires = new U64();
  /** Minutes since the epoch. */
  #minute = 0;

  /**
   * @param bytesMax budget of the memory of the table and what is kept beside it, in bytes
   * @param isCounting the usage of records is counted
   */
  constructor(hashKey: HashKey, homeSalt: number, bytesMax: number, isCounting: boolean) {
    this.table = new Table(hashKey, homeSalt, isCounting);
    this.space = new Space(this.table, this.clock, this.now, bytesMax);
  }

  /** Takes a reading of the platform's clock. */
  advance(realMs: number): void {
    if (realMs === this.clock.realMs) return;
    this.clock.read(realMs);
    this.#followClock();
  }

  /** Goes on from a time that was stored: see `ShardClock.restore`. */
  restoreClock(nowMs: number, realMs: number): void {
    this.clock.restore(nowMs, realMs);
    this.#followClock();
  }

  /** Drops the lag of the clock. There must be no records. */
  dropLag(): void {
    this.clock.setBack();
    this.noteSetBack();
  }

  /** Says that the clock, and all times that records have, were set back: see `ClockSetBack`. */
  noteSetBack(): void {
    this.space.noteSetBack();
    this.#followClock();
  }

  #followClock(): void {
    const { nowMs, realMs, lagMs } = this.clock;
    this.nowMs = nowMs;
    this.now.setMs(nowMs);
    if (lagMs === 0) this.realNow.set(this.now.high, this.now.low);
    else this.realNow.setMs(realMs);
    this.#minute = Math.floor(nowMs / MINUTE_MS);
  }

  /** Turns a time of the shard into the platform's time at which it comes. */
  toReal(time: U64): U64 {
    const { clock } = this;
    return clock.lagMs === 0 ? time : time.subtractMs(clock.lagWhen(time.toMsCeil()));
  }

  /** As `toReal`, in milliseconds. */
  toRealMs(ms: number): number {
    return ms - this.clock.lagWhen(ms);
  }

  /** When the record in a slot ends, in the platform's time. Valid until the next call. */
  realEnd({ slots }: Segment, slot: number): U64 {
    return this.toReal(this.#expires.set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!));
  }

  /** Turns a time of the platform into the shard's time. */
  fromReal(time: U64): U64 {
    const { clock } = this;
    if (clock.lagMs === 0) return time;
    return time.subtractMs(-clock.lagAtReading(time.toMsCeil()));
  }

  /** Looks a key up, and makes its record the current one. Returns its kind; 0 when there is no live record. */
  find(keyspace: Keyspace, bytes: Uint8Array, at: number, length: number): Kind | 0 {
    const { table, now } = this;
    if (!table.find(keyspace, bytes, at, length)) return 0;
    const { slots } = table.segment;
    if (hasExpired(slots, table.slot, now) || table.isGiven(slots[table.slot + META]!)) {
      table.remove();
      return 0;
    }
    return kindOf(slots[table.slot + META]!);
  }

  get segment(): Segment {
    return this.table.segment;
  }

  get slot(): number {
    return this.table.slot;
  }

  /** Kind of the current record. */
  get kind(): Kind {
    return kindOf(this.segment.slots[this.slot + META]!);
  }

  get unit(): number {
    return unitOf(this.segment.slots[this.slot + META]!);
  }

  /**
   * Adds a counter under the key that the last `find` missed. A counter that expires at once leaves no record.
   *
   * @returns false when the byte budget refuses it
   */
  addCounter(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    unit: number,
    quotaHigh: number,
    quotaLow: number,
    expires: U64,
  ): boolean {
    if (expires.notAfter(this.now.high, this.now.low)) return true;
    if (!this.space.create(keyspace, bytes, at, length, Kind.counter, unit, 0)) return false;
    const { slots } = this.segment;
    slots[this.slot + HIGH] = quotaHigh;
    slots[this.slot + LOW] = quotaLow;
    this.#setExpiry(expires);
    this.commit.changed(this.segment, this.slot);
    return true;
  }

  /**
   * Sets value, unit and expiry of the current record, or adds a record if there is none. `find` must have looked up
   * the same key before. The value lies at `valueAt`. A buffer that expires at once leaves no record.
   *
   * @returns false when the byte budget refuses it: what was there is as it was
   */
  setBuffer(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    unit: number,
    valueAt: number,
    valueBytes: number,
    expires: U64,
  ): boolean {
    const exists = this.slot >= 0;
    if (expires.notAfter(this.now.high, this.now.low)) {
      if (exists) this.remove();
      return true;
    }
    const hasRoom = exists
      ? this.space.resize(keyspace, bytes, at, length, valueBytes)
      : this.space.create(keyspace, bytes, at, length, Kind.buffer, unit, valueBytes);
    if (!hasRoom) return false;
    const { slots } = this.segment;
    const key = slots[this.slot + META]! & KEPT_MASK;
    slots[this.slot + META] = recordMeta(key, Kind.buffer, unit);
    this.#setValue(bytes, valueAt, valueBytes);
    this.#setExpiry(expires);
    this.commit.replaced(this.segment, this.slot);
    return true;
  }

  /** As `setBuffer`: the writer begins with the key, and has the value behind it. */
  setBufferFrom(
    { bytes, length }: ByteWriter,
    keyspace: Keyspace,
    keyBytes: number,
    unit: number,
    expires: U64,
  ): boolean {
    const valueBytes = length - keyBytes;
    return this.setBuffer(keyspace, bytes, 0, keyBytes, unit, keyBytes, valueBytes, expires);
  }

  /**
   * Adds a buffer that does not expire under the key that the last `find` missed. The caller writes all of its
   * value, and notes that for the commit.
   *
   * @returns false when the byte budget refuses it
   */
  addBuffer(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    valueBytes: number,
  ): boolean {
    if (!this.space.create(keyspace, bytes, at, length, Kind.buffer, 0, valueBytes)) return false;
    const { segment, slot } = this.table;
    segment.slots[slot + EXPIRES_HIGH] = 0xffffffff;
    segment.slots[slot + EXPIRES_LOW] = 0xffffffff;
    return true;
  }

  /**
   * Changes the quota of the current record, a counter, by an amount, or to it.
   *
   * @param change one of `Change`
   * @returns false, and nothing changed, when the quota would leave 0 to the given maximum
   */
  changeQuota(
    change: number,
    amountHigh: number,
    amountLow: number,
    maxHigh: number,
    maxLow: number,
  ): boolean {
    const { slots } = this.segment;
    const low = slots[this.slot + LOW]!;
    const high = slots[this.slot + HIGH]!;
    if (change === Change.decrease) {
      const highLeft = high - amountHigh - (low < amountLow ? 1 : 0);
      if (highLeft < 0) return false;
      this.#setQuota(highLeft, (low - amountLow) >>> 0);
      return true;
    }
    if (change === Change.increase) {
      const lowSum = low + amountLow;
      const highSum = high + amountHigh + (lowSum >= U32 ? 1 : 0);
      if (highSum > maxHigh || (highSum === maxHigh && lowSum % U32 > maxLow)) return false;
      this.#setQuota(highSum, lowSum >>> 0);
      return true;
    }
    if (change !== Change.patch) return false;
    this.#setQuota(amountHigh, amountLow);
    return true;
  }

  #setQuota(high: number, low: number): void {
    const { segment, slot } = this.table;
    segment.slots[slot + HIGH] = high;
    segment.slots[slot + LOW] = low;
    this.commit.changed(segment, slot);
  }

  /**
   * Changes the expiry of the current record by a duration, or to the present and the duration. A record whose new
   * expiry has come is removed.
   *
   * @param change one of `Change`
   * @returns false for another change
   */
  changeExpiry(change: number, duration: U64): boolean {
    const { slots } = this.segment;
    const expires = this.#expires.set(
      slots[this.slot + EXPIRES_HIGH]!,
      slots[this.slot + EXPIRES_LOW]!,
    );
    switch (change) {
      case Change.patch:
        expires.set(this.now.high, this.now.low).add(duration.high, duration.low);
        break;
      case Change.increase:
        expires.add(duration.high, duration.low);
        break;
      case Change.decrease:
        expires.subtract(duration.high, duration.low);
        break;
      default:
        return false;
    }
    if (expires.notAfter(this.now.high, this.now.low)) {
      this.remove();
      return true;
    }
    this.#setExpiry(expires);
    this.commit.changed(this.segment, this.slot);
    return true;
  }

  /** Sets the current record, a counter, as if it were new. A counter that expires at once is removed. */
  resetCounter(unit: number, quotaHigh: number, quotaLow: number, expires: U64): void {
    if (expires.notAfter(this.now.high, this.now.low)) {
      this.remove();
      return;
    }
    const { slots } = this.segment;
    const key = slots[this.slot + META]! & KEPT_MASK;
    slots[this.slot + META] = recordMeta(key, Kind.counter, unit);
    slots[this.slot + HIGH] = quotaHigh;
    slots[this.slot + LOW] = quotaLow;
    this.#setExpiry(expires);
    this.commit.replaced(this.segment, this.slot);
  }

  /** Counts a read of the current record. */
  countRead(): void {
    const segment = this.#segmentOfThisMinute();
    if (segment !== null) countRead(segment.arena, segment.usageAt(this.slot));
  }

  /** Counts a write of the current record, if the write has not removed it. */
  countWrite(): void {
    if (this.slot < 0) return;
    const segment = this.#segmentOfThisMinute();
    if (segment !== null) countWrite(segment.arena, segment.usageAt(this.slot));
  }

  /**
   * Reads the usage of the record in a slot. False, and nothing read, where usage is not counted.
   *
   * @param isLive as of now, not as of the last whole minute's end
   */
  readUsage(segment: Segment, slot: number, isLive: boolean, usage: Usage): boolean {
    if (segment.usageBytes === 0) return false;
    if (segment.minute !== this.#minute) segment.turnMinute(this.#minute);
    const at = segment.usageAt(slot);
    const share = (this.nowMs % MINUTE_MS) / MINUTE_MS;
    if (isLive) readUsage(segment.arena, at, share, usage);
    else readUsageAtTurn(segment.arena, at, usage);
    return true;
  }

  /** The segment of the current record, with its usage moved to the present minute; null where usage is not counted. */
  #segmentOfThisMinute(): Segment | null {
    const { segment } = this.table;
    if (segment.usageBytes === 0) return null;
    if (segment.minute !== this.#minute) segment.turnMinute(this.#minute);
    return segment;
  }

  /** Removes the current record before it has expired. */
  remove(): void {
    this.commit.removed(this.segment, this.slot);
    this.table.remove();
  }

  /** Puts back what an image says, whatever the budget. It may have expired. */
  restore(image: RecordImage): void {
    const { table } = this;
    const { keyspace, bytes, keyAt, keyBytes, kind, unit, valueBytes, expires } = image;
    if (table.find(keyspace, bytes, keyAt, keyBytes)) {
      const { slots } = table.segment;
      const meta = slots[table.slot + META]!;
      if (kind === Kind.counter && kindOf(meta) === Kind.counter) {
        slots[table.slot + META] = recordMeta(meta & KEPT_MASK, kind, unit);
        this.#restoreFields(image);
        return;
      }
      table.remove();
    }
    if (kind === 0 || expires.notAfter(this.now.high, this.now.low)) return;
    table.create(keyspace, bytes, keyAt, keyBytes, kind, unit, valueBytes, Infinity);
    this.#restoreFields(image);
  }

  #restoreFields({ kind, bytes, valueAt, valueBytes, quotaHigh, quotaLow, expires }: RecordImage) {
    if (kind === Kind.counter) {
      const { slots } = this.segment;
      slots[this.slot + HIGH] = quotaHigh;
      slots[this.slot + LOW] = quotaLow;
    } else {
      this.#setValue(bytes, valueAt, valueBytes);
    }
    this.#setExpiry(expires);
  }

  /** Drops all records, without images. */
  clear(hashKey: HashKey): void {
    this.table.clear(hashKey);
    this.deadline.set(0xffffffff, 0xffffffff);
    this.hasEarlierDeadline = false;
  }

  /** Starts the stream of commits anew: slots forget where in the old stream their images lie. */
  forgetImages(): void {
    for (const { slots } of this.table.segments()) {
      for (let at = IMAGE_AT; at < slots.length; at += SLOT_WORDS) slots[at] = 0;
    }
    this.commit.restart();
  }

  #setValue(bytes: Uint8Array, at: number, length: number): void {
    copyBytes(bytes, at, this.segment.arena, this.segment.valueAt(this.slot), length);
  }

  #setExpiry(expires: U64): void {
    const { segment, slot } = this.table;
    segment.slots[slot + EXPIRES_HIGH] = expires.high;
    segment.slots[slot + EXPIRES_LOW] = expires.low;
    segment.deadline.lower(expires.high, expires.low);
    if (this.deadline.lower(expires.high, expires.low)) this.hasEarlierDeadline = true;
  }
}
