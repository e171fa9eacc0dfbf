/**
 * The record table: segments behind a directory, by the leading bits of the key's hash.
 *
 * A segment that is full splits in two, and only its own records move: memory never holds an old and
 * a new table of the whole size (extendible hashing). Segments lie in the order of the hashes, so a
 * walk by hash visits every record that stays, even if segments split meanwhile.
 */
import { copyBytes } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { hashBytes, type HashKey } from "./hash.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  hasExpired,
  HASH,
  HIGH,
  IMAGE_AT,
  KEY_AT,
  keyLengthOf,
  keyMeta,
  keyspaceOf,
  Kind,
  kindOf,
  LOW,
  META,
  MOVING,
  recordMeta,
  Segment,
  SLOT_WORDS,
} from "./segment.ts";
import type { U64 } from "./time.ts";
import {
  SEGMENT_SPLIT_BYTES,
  SEGMENT_SPLIT_BYTES_DEPTH_MAX,
  SEGMENT_SPLIT_DEPTH_MAX,
  SEGMENT_SPLIT_SLOTS,
} from "./sizes.ts";

export const HASH_END = 2 ** 32;

/** Counts of records under keys. Expired records count until they are collected. */
export interface Totals {
  counters: number;
  buffers: number;
  bufferBytes: number;
}

export class Table {
  /** Segment and slot of the current record: see `Records`. */
  segment: Segment;
  slot = -1;

  records = 0;
  /** Updated with each record, so that figures need no walk. */
  readonly totals: Totals = { counters: 0, buffers: 0, bufferBytes: 0 };
  /** The part of `records` and `totals` that is marked as `MOVING`. */
  movingRecords = 0;
  readonly movingTotals: Totals = { counters: 0, buffers: 0, bufferBytes: 0 };
  /** The marked records belong to another shard: they are absent, and dropped in steps. */
  isForgetting = false;
  /** Bytes allocated for slots and arenas. */
  bytes = 0;

  #hashKey: HashKey;
  readonly #homeSalt: number;
  readonly #usageBytes: number;
  #directory: Segment[];
  #depth = 0;
  /** Of the key of the last lookup. */
  hash = 0;

  /**
   * @param hashKey random per table, so that a caller cannot prepare keys that collide
   * @param homeSalt u32, random per instance: see `Segment`
   * @param isCounting records have room for their usage
   */
  constructor(hashKey: HashKey, homeSalt: number, isCounting: boolean) {
    this.#hashKey = hashKey;
    this.#homeSalt = homeSalt;
    this.segment = new Segment(0, isCounting, homeSalt);
    this.#usageBytes = this.segment.usageBytes;
    this.#directory = [this.segment];
  }

  /** Looks a key up. True leaves the record in `segment` and `slot`. */
  find(keyspace: Keyspace, bytes: Uint8Array, at: number, length: number): boolean {
    this.hash = hashBytes(this.#hashKey, keyspace, bytes, at, length);
    this.segment = this.#segmentOf(this.hash);
    this.slot = this.segment.find(this.hash, keyMeta(keyspace, length), bytes, at);
    return this.slot >= 0;
  }

  /** Looks up the record with a hash for which `matches` is true. True leaves it in `segment` and `slot`. */
  findWhere(hash: number, matches: (segment: Segment, slot: number) => boolean): boolean {
    this.hash = hash;
    this.segment = this.#segmentOf(hash);
    this.slot = this.segment.findWhere(hash, matches);
    return this.slot >= 0;
  }

  /**
   * Adds the record whose key the last `find` missed, with room for a value. The caller fills in
   * value and expiry. False when that would take the table beyond `bytesMax`: nothing has changed.
   *
   * Eight positions, as this is on the hot path: an object would be an allocation for each new record.
   */
  create(
    keyspace: Keyspace,
    bytes: Uint8Array,
    at: number,
    length: number,
    kind: Kind,
    unit: number,
    valueBytes: number,
    bytesMax: number,
  ): boolean {
    const arenaBytes = length + this.#usageBytes + valueBytes;
    if (!this.#makeRoom(1, arenaBytes, bytesMax)) return false;
    const { segment } = this;
    const slot = segment.take(this.hash);
    const keyAt = segment.place(arenaBytes);
    copyBytes(bytes, at, segment.arena, keyAt, length);
    const { slots } = segment;
    slots[slot + HASH] = this.hash;
    slots[slot + META] = recordMeta(keyMeta(keyspace, length), kind, unit);
    slots[slot + KEY_AT] = keyAt;
    slots[slot + IMAGE_AT] = 0;
    slots[slot + LOW] = valueBytes;
    slots[slot + HIGH] = valueBytes;
    this.slot = slot;
    this.records++;
    if (keyspace === Keyspace.throttr) this.#count(kind, 1, valueBytes);
    return true;
  }

  /**
   * Makes room for a value of another length in the current record, a buffer. False when a longer value would take
   * the table beyond `bytesMax`: the record is as it was.
   */
  resizeValue(valueBytes: number, bytesMax: number): boolean {
    return this.#resizeValue(valueBytes, bytesMax, false);
  }

  /**
   * Makes room for a longer value of the current record, a buffer, without regard to the budget. The table gets no spare room beside
   * it, which other records would fill.
   */
  lengthenValue(valueBytes: number): void {
    this.#resizeValue(valueBytes, Infinity, true);
  }

  #resizeValue(valueBytes: number, bytesMax: number, isExact: boolean): boolean {
    const oldBytes = this.segment.slots[this.slot + HIGH]!;
    // A value of less than half its room moves to a smaller one, if there is room to move to.
    if (valueBytes > oldBytes || valueBytes < oldBytes >>> 1) {
      const hasMoved = this.#move(valueBytes, bytesMax, isExact);
      if (!hasMoved && valueBytes > oldBytes) return false;
    }
    const { slots } = this.segment;
    const meta = slots[this.slot + META]!;
    if (keyspaceOf(meta) === Keyspace.throttr) {
      const added = valueBytes - slots[this.slot + LOW]!;
      this.totals.bufferBytes += added;
      if ((meta & MOVING) !== 0) this.movingTotals.bufferBytes += added;
    }
    slots[this.slot + LOW] = valueBytes;
    return true;
  }

  /** Moves the current record to arena bytes that fit another value, without copying the old one. */
  #move(valueBytes: number, bytesMax: number, isExact: boolean): boolean {
    const { slots, arena } = this.segment;
    const meta = slots[this.slot + META]!;
    const length = keyLengthOf(meta);
    const keyAt = slots[this.slot + KEY_AT]!;
    const keptBytes = length + this.#usageBytes;
    const kept = arena.slice(keyAt, keyAt + keptBytes);
    this.hash = slots[this.slot + HASH]!;
    const hasRoom = this.#makeRoom(0, keptBytes + valueBytes, bytesMax, isExact);
    // Making room may have split the segment, even when it failed in the end.
    this.slot = this.segment.find(this.hash, keyMeta(keyspaceOf(meta), length), kept, 0);
    if (!hasRoom) return false;
    const { segment } = this;
    const newAt = segment.place(keptBytes + valueBytes);
    copyBytes(kept, 0, segment.arena, newAt, keptBytes);
    segment.arenaDead += keptBytes + segment.slots[this.slot + HIGH]!;
    segment.slots[this.slot + KEY_AT] = newAt;
    segment.slots[this.slot + HIGH] = valueBytes;
    return true;
  }

  /** Removes the current record. A segment that most records have left gives its memory back. */
  remove(): void {
    const { segment } = this;
    this.#free(segment, this.slot);
    this.slot = -1;
    if (!segment.isSparse) return;
    const bytesBefore = segment.bytes;
    segment.shrink();
    this.bytes += segment.bytes - bytesBefore;
  }

  #free(segment: Segment, slot: number): void {
    const meta = segment.slots[slot + META]!;
    if ((meta & MOVING) !== 0) this.#countMoving(segment, slot, -1);
    if (keyspaceOf(meta) === Keyspace.throttr) {
      this.#count(kindOf(meta), -1, -segment.slots[slot + LOW]!);
    }
    segment.free(slot);
    this.records--;
  }

  #count(kind: Kind, records: number, bytes: number, totals = this.totals): void {
    if (kind === Kind.counter) {
      totals.counters += records;
    } else {
      totals.buffers += records;
      totals.bufferBytes += bytes;
    }
  }

  /** Says whether the record in a slot moves with the split under way. */
  setMoving(segment: Segment, slot: number, isMoving: boolean): void {
    const meta = segment.slots[slot + META]!;
    if (((meta & MOVING) !== 0) === isMoving) return;
    segment.slots[slot + META] = meta ^ MOVING;
    this.#countMoving(segment, slot, isMoving ? 1 : -1);
  }

  #countMoving({ slots }: Segment, slot: number, records: 1 | -1): void {
    const meta = slots[slot + META]!;
    this.movingRecords += records;
    if (keyspaceOf(meta) !== Keyspace.throttr) return;
    this.#count(kindOf(meta), records, records * slots[slot + LOW]!, this.movingTotals);
  }

  /** Records that the shard owns. */
  get ownRecords(): number {
    return this.isForgetting ? this.records - this.movingRecords : this.records;
  }

  /** Totals of the records that the shard owns. */
  get ownTotals(): Totals {
    const { totals, movingTotals } = this;
    if (!this.isForgetting) return { ...totals };
    return {
      counters: totals.counters - movingTotals.counters,
      buffers: totals.buffers - movingTotals.buffers,
      bufferBytes: totals.bufferBytes - movingTotals.bufferBytes,
    };
  }

  /** True for a record, by its `META`, that was given away and is not dropped yet. */
  isGiven(meta: number): boolean {
    return this.isForgetting && (meta & MOVING) !== 0;
  }

  /** Drops all records. @param hashKey of the empty table: its order may be that of another one */
  clear(hashKey: HashKey): void {
    this.#hashKey = hashKey;
    this.segment = new Segment(0, this.#usageBytes > 0, this.#homeSalt);
    this.slot = -1;
    this.#directory = [this.segment];
    this.#depth = 0;
    this.bytes = 0;
    this.records = this.movingRecords = 0;
    for (const totals of [this.totals, this.movingTotals]) {
      totals.counters = totals.buffers = totals.bufferBytes = 0;
    }
  }

  /** The first hash behind the segment that covers a hash; `HASH_END` behind the last. */
  hashAfter(hash: number): number {
    const span = 2 ** (32 - this.#segmentOf(hash).depth);
    return (Math.floor(hash / span) + 1) * span;
  }

  /** Removes expired records from the segment that covers a hash, and gives their memory back. */
  sweep(hash: number, now: U64): void {
    const segment = this.#segmentOf(hash);
    const bytesBefore = segment.bytes;
    const { slots } = segment;
    segment.deadline.set(0xffffffff, 0xffffffff);
    for (let slot = 0; slot < slots.length;) {
      const meta = slots[slot + META]!;
      if (meta !== 0) {
        if (hasExpired(slots, slot, now)) {
          this.#free(segment, slot);
          continue;
        }
        segment.deadline.lower(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!);
      }
      slot += SLOT_WORDS;
    }
    segment.shrink();
    this.bytes += segment.bytes - bytesBefore;
  }

  /** Gives back the room that no record of the segment that covers a hash has. */
  trim(hash: number): void {
    const segment = this.#segmentOf(hash);
    const bytesBefore = segment.bytes;
    segment.trim();
    this.bytes += segment.bytes - bytesBefore;
  }

  /** Removes records of the segment that covers a hash: those for which `matches` is true. Returns their number. */
  removeWhere(hash: number, matches: (segment: Segment, slot: number) => boolean): number {
    const segment = this.#segmentOf(hash);
    const recordsBefore = this.records;
    for (let slot = 0; slot < segment.slots.length;) {
      if (segment.slots[slot + META] !== 0 && matches(segment, slot)) {
        // Records behind it move up: visit the same slot again.
        this.#free(segment, slot);
      } else {
        slot += SLOT_WORDS;
      }
    }
    return recordsBefore - this.records;
  }

  /** Every segment once, in the order of hashes. */
  *segments(): Generator<Segment> {
    for (let hash = 0; hash < HASH_END; hash = this.hashAfter(hash)) yield this.#segmentOf(hash);
  }

  /** The segment that covers a hash, for walks over segments. Tests count its calls: lookups by key are no part of a walk. */
  segmentAt(hash: number): Segment {
    return this.#segmentOf(hash);
  }

  #segmentOf(hash: number): Segment {
    return this.#directory[this.#depth === 0 ? 0 : hash >>> (32 - this.#depth)]!;
  }

  /**
   * Grows or splits until the segment of `hash` has the slots and arena bytes asked for.
   *
   * @param isExact no segment splits for want of arena bytes, and its arena has none to spare
   */
  #makeRoom(slots: number, arenaBytes: number, bytesMax: number, isExact = false): boolean {
    for (;;) {
      const { segment } = this;
      const needsSlots = slots > 0 && segment.isFull;
      const needsArena = segment.arenaUsed + arenaBytes > segment.arena.length;
      if (!needsSlots && !needsArena) return true;
      const tooManySlots =
        needsSlots &&
        segment.capacity >= SEGMENT_SPLIT_SLOTS &&
        segment.depth < SEGMENT_SPLIT_DEPTH_MAX;
      const tooManyBytes =
        needsArena &&
        !isExact &&
        segment.count > 1 &&
        segment.arenaLive - segment.count * this.#usageBytes + arenaBytes > SEGMENT_SPLIT_BYTES &&
        segment.depth < SEGMENT_SPLIT_BYTES_DEPTH_MAX;
      if (tooManySlots || tooManyBytes) {
        // Together the halves exceed their segment by their slack at most.
        if (this.bytes + (segment.bytes >>> 2) > bytesMax) return false;
        this.#split(segment);
        continue;
      }
      const before = segment.bytes;
      const capacity = needsSlots ? segment.nextCapacity : segment.capacity;
      const arena = needsArena ? segment.nextArenaBytes(arenaBytes, isExact) : segment.arena.length;
      const after = capacity * SLOT_WORDS * 4 + arena;
      if (after > before && this.bytes + after - before > bytesMax) return false;
      if (needsSlots) segment.resizeSlots(capacity);
      if (needsArena) segment.resizeArena(arena);
      this.bytes += after - before;
    }
  }

  #split(segment: Segment): void {
    if (segment.depth === this.#depth) {
      this.#directory = this.#directory.flatMap((entry) => [entry, entry]);
      this.#depth++;
    }
    const halves = segment.split();
    const span = 2 ** (this.#depth - segment.depth);
    const first = Math.floor((this.hash >>> (32 - this.#depth)) / span) * span;
    this.#directory.fill(halves[0], first, first + span / 2);
    this.#directory.fill(halves[1], first + span / 2, first + span);
    this.bytes += halves[0].bytes + halves[1].bytes - segment.bytes;
    this.segment = this.#segmentOf(this.hash);
  }
}
