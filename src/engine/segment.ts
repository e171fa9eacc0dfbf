/**
 * A segment: the records of one range of hashes, in one open-addressing table and one byte arena.
 *
 * A slot is eight u32 words, so that a probe touches one cache line. Collisions go to the next slot.
 * Removal closes its gap, so there are no tombstones to collect. Keys, the usage of
 * records (where it is counted) and values of buffers lie in the arena, one behind the other.
 */
import type { Keyspace } from "../wire/keyspace.ts";
import { copyBytes } from "../wire/bytes.ts";
import { RecordKind } from "../wire/edge/command.ts";
import { U64 } from "./time.ts";
import { turnMinute, USAGE_BYTES } from "./usage.ts";
import { SEGMENT_SPARSE_SLOTS_MIN } from "./sizes.ts";

export const SLOT_WORDS = 8;
export const HASH = 0;
/** Kind, unit, keyspace, key length and `MOVING`: see the masks below. 0 for a free slot. */
export const META = 1;
export const KEY_AT = 2;
/** Where the record's image lies in the stream of commits, see `Commit`. */
export const IMAGE_AT = 3;
/** Counter: low half of the quota. Buffer: length of the value. */
export const LOW = 4;
/** Counter: high half of the quota. Buffer: bytes that the arena has reserved for the value. */
export const HIGH = 5;
export const EXPIRES_LOW = 6;
export const EXPIRES_HIGH = 7;

export const Kind = RecordKind;
export type Kind = (typeof Kind)[keyof typeof Kind];

const KIND_MASK = 0x3;
const UNIT_SHIFT = 2;
const UNIT_MASK = 0x7;
const KEYSPACE_SHIFT = 5;
const KEY_LENGTH_SHIFT = 9;
const KEY_LENGTH_MASK = 0xffff;
/** The bits of `META` that belong to the key. */
export const KEY_MASK = 0x1ffffe0;
/** In `META`: the record moves to another shard with the split under way. Of use only once a walk has seen all records. */
export const MOVING = 0x2000000;
/** The bits of `META` that stay while the record lives. */
export const KEPT_MASK = KEY_MASK | MOVING;

export function keyMeta(keyspace: Keyspace, keyLength: number): number {
  return (keyLength << KEY_LENGTH_SHIFT) | (keyspace << KEYSPACE_SHIFT);
}

export function recordMeta(key: number, kind: Kind, unit: number): number {
  return key | (unit << UNIT_SHIFT) | kind;
}

/** Kind of the record with this `META`, which is not that of a free slot. */
export const kindOf = (meta: number): Kind => (meta & KIND_MASK) as Kind;
export const unitOf = (meta: number): number => (meta >>> UNIT_SHIFT) & UNIT_MASK;
export const keyspaceOf = (meta: number): Keyspace => ((meta >>> KEYSPACE_SHIFT) & 0xf) as Keyspace;
export const keyLengthOf = (meta: number): number => (meta >>> KEY_LENGTH_SHIFT) & KEY_LENGTH_MASK;

/** True when the record in a slot has expired at a time. */
export function hasExpired(slots: Uint32Array, slot: number, now: U64): boolean {
  const high = slots[slot + EXPIRES_HIGH]!;
  return high < now.high || (high === now.high && slots[slot + EXPIRES_LOW]! <= now.low);
}

const NO_SLOTS = new Uint32Array(0);
const NO_BYTES = new Uint8Array(0);
const CAPACITY_MIN = 16;
const ARENA_BYTES_MIN = 256;

/** How many slots of a capacity may be taken: 7 of 8. */
const fullAt = (capacity: number): number => capacity - (capacity >>> 3);

export class Segment {
  slots = NO_SLOTS;
  capacity = 0;
  count = 0;
  arena = NO_BYTES;
  arenaUsed = 0;
  arenaDead = 0;
  /** No record expires before this time point. It may be too early, never too late. */
  readonly deadline = new U64().set(0xffffffff, 0xffffffff);

  /** The minute that "this minute" of the usage of all records is. */
  minute = 0;

  /** Leading bits of the hash that all records share. */
  readonly depth: number;
  /** Bytes behind each key that hold the usage of its record: 0 where it is not counted. */
  readonly usageBytes: number;
  readonly #homeSalt: number;

  /** @param homeSalt u32: decides which slots hashes lead to */
  constructor(depth: number, isCounting: boolean, homeSalt: number) {
    this.depth = depth;
    this.usageBytes = isCounting ? USAGE_BYTES : 0;
    this.#homeSalt = homeSalt;
  }

  get bytes(): number {
    return this.slots.byteLength + this.arena.byteLength;
  }

  get isFull(): boolean {
    return this.count >= fullAt(this.capacity);
  }

  /** Most slots are free, and there are enough of them for that to matter. */
  get isSparse(): boolean {
    return this.capacity >= SEGMENT_SPARSE_SLOTS_MIN && this.count < this.capacity >>> 3;
  }

  get arenaLive(): number {
    return this.arenaUsed - this.arenaDead;
  }

  /** First word of the slot that holds the key, or -1. */
  find(hash: number, key: number, bytes: Uint8Array, at: number): number {
    const { slots, capacity } = this;
    if (capacity === 0) return -1;
    let index = this.#home(hash);
    for (;;) {
      const slot = index * SLOT_WORDS;
      const meta = slots[slot + META]!;
      if (meta === 0) return -1;
      if (
        slots[slot + HASH] === hash &&
        (meta & KEY_MASK) === key &&
        equalBytes(this.arena, slots[slot + KEY_AT]!, bytes, at, keyLengthOf(meta))
      ) {
        return slot;
      }
      if (++index === capacity) index = 0;
    }
  }

  /** First word of the first slot with the hash for which `matches` is true, or -1. */
  findWhere(hash: number, matches: (segment: Segment, slot: number) => boolean): number {
    const { slots, capacity } = this;
    if (capacity === 0) return -1;
    let index = this.#home(hash);
    for (;;) {
      const slot = index * SLOT_WORDS;
      if (slots[slot + META] === 0) return -1;
      if (slots[slot + HASH] === hash && matches(this, slot)) return slot;
      if (++index === capacity) index = 0;
    }
  }

  /** Takes a free slot for a hash that is not in the segment; there must be one. */
  take(hash: number): number {
    const { slots, capacity } = this;
    let index = this.#home(hash);
    while (slots[index * SLOT_WORDS + META] !== 0) if (++index === capacity) index = 0;
    this.count++;
    return index * SLOT_WORDS;
  }

  /** Frees a slot and closes the gap, so that every other record stays reachable from its home. */
  free(slot: number): void {
    const { slots, capacity } = this;
    this.arenaDead += this.arenaBytesOf(slot);
    this.count--;
    let gap = slot / SLOT_WORDS;
    let index = gap;
    for (;;) {
      if (++index === capacity) index = 0;
      const from = index * SLOT_WORDS;
      if (slots[from + META] === 0) break;
      const wanted = this.#home(slots[from + HASH]!);
      const reachable =
        gap <= index ? gap < wanted && wanted <= index : gap < wanted || wanted <= index;
      if (reachable) continue;
      slots.copyWithin(gap * SLOT_WORDS, from, from + SLOT_WORDS);
      gap = index;
    }
    slots[gap * SLOT_WORDS + META] = 0;
  }

  /** Reserves arena bytes; there must be room. */
  place(count: number): number {
    const at = this.arenaUsed;
    this.arenaUsed += count;
    return at;
  }

  /** A copy of the key of the record in a slot. */
  keyOf(slot: number): Uint8Array<ArrayBuffer> {
    const at = this.slots[slot + KEY_AT]!;
    return this.arena.slice(at, at + this.keyBytesOf(slot));
  }

  keyBytesOf(slot: number): number {
    return keyLengthOf(this.slots[slot + META]!);
  }

  kindOf(slot: number): Kind {
    return kindOf(this.slots[slot + META]!);
  }

  unitOf(slot: number): number {
    return unitOf(this.slots[slot + META]!);
  }

  /** Where in the arena the usage of the record in a slot begins, if it is counted. */
  usageAt(slot: number): number {
    return this.slots[slot + KEY_AT]! + keyLengthOf(this.slots[slot + META]!);
  }

  /** Where in the arena the value of the buffer in a slot begins. */
  valueAt(slot: number): number {
    return this.usageAt(slot) + this.usageBytes;
  }

  /** Moves the usage of all records to a later minute. */
  turnMinute(minute: number): void {
    const isForgotten = minute > this.minute + 1;
    const { slots } = this;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      if (slots[slot + META] !== 0) turnMinute(this.arena, this.usageAt(slot), isForgotten);
    }
    this.minute = minute;
  }

  /** Capacity that the next growth of the slots leads to. */
  get nextCapacity(): number {
    return Math.max(CAPACITY_MIN, Math.ceil(this.capacity * 1.5));
  }

  /** Length that the arena has once it is made to hold `extra` more bytes. @param isExact it has no room to spare */
  nextArenaBytes(extra: number, isExact = false): number {
    const bytes = this.arenaLive + extra;
    return isExact ? bytes : roomyBytes(bytes);
  }

  /** Moves all records to a table of another capacity. */
  resizeSlots(capacity: number): void {
    const old = this.slots;
    this.slots = new Uint32Array(capacity * SLOT_WORDS);
    this.capacity = capacity;
    this.count = 0;
    for (let slot = 0; slot < old.length; slot += SLOT_WORDS) {
      if (old[slot + META] === 0) continue;
      const target = this.take(old[slot + HASH]!);
      for (let word = 0; word < SLOT_WORDS; word++) this.slots[target + word] = old[slot + word]!;
    }
  }

  /** Moves all keys and values to an arena of another length, without the dead bytes. */
  resizeArena(bytes: number): void {
    const old = this.arena;
    const arena = new Uint8Array(bytes);
    if (this.arenaDead === 0) {
      arena.set(old.subarray(0, this.arenaUsed));
    } else {
      let used = 0;
      const { slots } = this;
      for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
        if (slots[slot + META] === 0) continue;
        used += this.#moveBytes(slot, old, arena, used);
      }
      this.arenaUsed = used;
      this.arenaDead = 0;
    }
    this.arena = arena;
  }

  /** Gives memory back when most of it holds nothing. */
  shrink(): void {
    if (this.count === 0) {
      this.slots = NO_SLOTS;
      this.capacity = 0;
      this.arena = NO_BYTES;
      this.arenaUsed = 0;
      this.arenaDead = 0;
      return;
    }
    if (this.count < this.capacity >>> 2) this.resizeSlots(capacityFor(this.count));
    if (this.arenaLive < this.arena.length >>> 1 && this.arena.length > ARENA_BYTES_MIN) {
      this.resizeArena(this.nextArenaBytes(0));
    }
  }

  /** Gives back all room that no record has. */
  trim(): void {
    if (this.arenaLive < this.arena.length) this.resizeArena(this.arenaLive);
  }

  /** The two halves of this segment, by the next bit of the hash. */
  split(): [Segment, Segment] {
    const half = (): Segment => new Segment(this.depth + 1, this.usageBytes > 0, this.#homeSalt);
    const halves: [Segment, Segment] = [half(), half()];
    const counts: [number, number] = [0, 0];
    const arenaBytes: [number, number] = [0, 0];
    const { slots } = this;
    const bit = 31 - this.depth;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      if (slots[slot + META] === 0) continue;
      const side = (slots[slot + HASH]! >>> bit) & 1;
      counts[side]!++;
      arenaBytes[side]! += this.arenaBytesOf(slot);
    }
    for (const side of [0, 1] as const) {
      const half = halves[side];
      half.resizeSlots(capacityFor(counts[side]));
      half.arena = new Uint8Array(roomyBytes(arenaBytes[side]));
      half.deadline.set(this.deadline.high, this.deadline.low);
      half.minute = this.minute;
    }
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      if (slots[slot + META] === 0) continue;
      const half = halves[(slots[slot + HASH]! >>> bit) & 1]!;
      const target = half.take(slots[slot + HASH]!);
      for (let word = 0; word < SLOT_WORDS; word++) half.slots[target + word] = slots[slot + word]!;
      half.arenaUsed += half.#moveBytes(target, this.arena, half.arena, half.arenaUsed);
    }
    return halves;
  }

  /**
   * The slot where the search for a hash begins. Listings show callers the order in which records lie. Hashes
   * outlive a restart, so this order must not: over time a caller could learn which keys crowd the
   * same slots.
   */
  #home(hash: number): number {
    let mixed = hash ^ this.#homeSalt;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b);
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x45d9f3b);
    return (((mixed ^ (mixed >>> 16)) & 0xffff) * this.capacity) >>> 16;
  }

  /** Arena bytes of the record in a slot: its key, its usage, and the room of its value. */
  arenaBytesOf(slot: number): number {
    const meta = this.slots[slot + META]!;
    const valueBytes = kindOf(meta) === Kind.buffer ? this.slots[slot + HIGH]! : 0;
    return keyLengthOf(meta) + this.usageBytes + valueBytes;
  }

  /** Copies what the arena holds of a record to `target[at…]`, points the slot there, returns the bytes taken. */
  #moveBytes(slot: number, source: Uint8Array, target: Uint8Array, at: number): number {
    const count = this.arenaBytesOf(slot);
    copyBytes(source, this.slots[slot + KEY_AT]!, target, at, count);
    this.slots[slot + KEY_AT] = at;
    return count;
  }
}

/** A capacity at which `count` records fill three slots of four. */
function capacityFor(count: number): number {
  return Math.max(CAPACITY_MIN, Math.ceil((count * 4) / 3));
}

/** Length of an arena that holds `bytes` and may grow by an eighth. */
function roomyBytes(bytes: number): number {
  return Math.max(ARENA_BYTES_MIN, bytes + (bytes >>> 3));
}

function equalBytes(a: Uint8Array, at: number, b: Uint8Array, bt: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (a[at + i] !== b[bt + i]) return false;
  return true;
}
