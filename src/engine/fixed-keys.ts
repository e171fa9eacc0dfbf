/**
 * Keys of a fixed number of entries, in memory that is allocated once.
 *
 * An entry is a number that the owner chooses; its key is found by hash and bytes. Hashes must be seeded where strangers
 * choose keys, or they could make every lookup walk over all entries.
 */
import { copyBytes } from "../wire/bytes.ts";

/** Slots for each entry, so that a lookup meets few others on its way. */
const SLOTS_PER_ENTRY = 4;

export class FixedKeys {
  readonly #bytesMax: number;
  readonly #hashes: Uint32Array;
  readonly #lengths: Uint8Array;
  readonly #bytes: Uint8Array;
  /** Open addressing: the entry plus one, or 0 for an empty slot. */
  readonly #slots: Uint16Array;
  readonly #mask: number;

  /**
   * @param entries how many, a power of two
   * @param bytesMax longest key, at most 255
   */
  constructor(entries: number, bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#hashes = new Uint32Array(entries);
    this.#lengths = new Uint8Array(entries);
    this.#bytes = new Uint8Array(entries * bytesMax);
    this.#slots = new Uint16Array(entries * SLOTS_PER_ENTRY);
    this.#mask = this.#slots.length - 1;
  }

  /** The entry with the key `bytes[at, at + length)`; -1 without one. */
  find(hash: number, bytes: Uint8Array, at: number, length: number): number {
    const slots = this.#slots;
    for (let slot = hash & this.#mask; slots[slot] !== 0; slot = (slot + 1) & this.#mask) {
      const entry = slots[slot]! - 1;
      if (this.#hashes[entry] === hash && this.#isKey(entry, bytes, at, length)) return entry;
    }
    return -1;
  }

  /** Gives an entry without a key this one, which no other entry has. */
  put(entry: number, hash: number, bytes: Uint8Array, at: number, length: number): void {
    this.#hashes[entry] = hash;
    this.#lengths[entry] = length;
    copyBytes(bytes, at, this.#bytes, entry * this.#bytesMax, length);
    const slots = this.#slots;
    let slot = hash & this.#mask;
    while (slots[slot] !== 0) slot = (slot + 1) & this.#mask;
    slots[slot] = entry + 1;
  }

  /** Takes the key of an entry away. Slots behind it move up, so that no lookup ends too early. */
  remove(entry: number): void {
    const slots = this.#slots;
    const mask = this.#mask;
    let hole = this.#hashes[entry]! & mask;
    while (slots[hole] !== entry + 1) hole = (hole + 1) & mask;
    for (let slot = (hole + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#hashes[slots[slot]! - 1]! & mask;
      // It stays where the hole is before its home.
      if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
      slots[hole] = slots[slot]!;
      hole = slot;
    }
    slots[hole] = 0;
  }

  /** A copy of the key of an entry. */
  keyOf(entry: number): Uint8Array<ArrayBuffer> {
    const at = entry * this.#bytesMax;
    return this.#bytes.slice(at, at + this.#lengths[entry]!) as Uint8Array<ArrayBuffer>;
  }

  #isKey(entry: number, bytes: Uint8Array, at: number, length: number): boolean {
    if (this.#lengths[entry] !== length) return false;
    const keyAt = entry * this.#bytesMax;
    for (let i = 0; i < length; i++) {
      if (this.#bytes[keyAt + i] !== bytes[at + i]) return false;
    }
    return true;
  }
}
