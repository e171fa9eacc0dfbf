/**
 * The names of limiters in use, each with a row of counts: 256 at most, as strangers may be able to invent names.
 *
 * A limiter's name is what a stored key has before its first colon (`wire/ratelimit/keys.ts`). Names keep their rows in
 * the order in which they came. Only a name that was not used for an hour gives its row to a new one.
 */
import { binaryString } from "../wire/bytes.ts";
import { isNameByte, NAME_BYTES_MAX } from "../wire/ratelimit/keys.ts";
import { FixedKeys } from "./fixed-keys.ts";
import { hashBytes, type HashKey } from "./hash.ts";
import { LIMIT_NAMES_MAX } from "./sizes.ts";

const UNUSED_MINUTES = 60;
/** In place of a row: the key does not begin with a name. */
export const NO_NAME = -1;
/** In place of a row: the key begins with a name, and all rows are taken. */
export const NO_ROW = -2;
const COLON = 0x3a;

export class LimitNames {
  readonly #hashKey: HashKey;
  readonly #keys = new FixedKeys(LIMIT_NAMES_MAX, NAME_BYTES_MAX);
  readonly #isTaken = new Uint8Array(LIMIT_NAMES_MAX);
  /** The minute in which a name was last used. */
  readonly #usedAt = new Float64Array(LIMIT_NAMES_MAX);
  /** The name of the last call with its colon, and its row: most calls in a row are of the same limiter. */
  readonly #last = new Uint8Array(NAME_BYTES_MAX + 1);
  #lastBytes = 0;
  #lastRow = NO_NAME;
  /** The minute in which unused names were last looked for. */
  #sweptAt = -1;
  readonly #onGone: (row: number) => void;

  /**
   * @param hashKey names can't be chosen so that they collide
   * @param onGone a name has lost its row
   */
  constructor(hashKey: HashKey, onGone: (row: number) => void) {
    this.#hashKey = hashKey;
    this.#onGone = onGone;
  }

  /**
   * The row of the name that `bytes[at, at + length)` begins with, a new one if there is room.
   *
   * @param minute the present, since the epoch
   * @returns the row, `NO_NAME` or `NO_ROW`
   */
  rowOf(bytes: Uint8Array, at: number, length: number, minute: number): number {
    const row = this.#isLast(bytes, at, length)
      ? this.#lastRow
      : this.#find(bytes, at, length, minute);
    if (row >= 0) this.#usedAt[row] = minute;
    return row;
  }

  /** Names with their rows. */
  rows(): { name: string; row: number }[] {
    const rows: { name: string; row: number }[] = [];
    this.#isTaken.forEach((isTaken, row) => {
      if (isTaken === 0) return;
      const name = this.#keys.keyOf(row);
      rows.push({ name: binaryString(name, 0, name.length), row });
    });
    return rows;
  }

  #isLast(bytes: Uint8Array, at: number, length: number): boolean {
    const lastBytes = this.#lastBytes;
    if (lastBytes === 0 || length < lastBytes) return false;
    for (let i = 0; i < lastBytes; i++) if (this.#last[i] !== bytes[at + i]) return false;
    return true;
  }

  #find(bytes: Uint8Array, at: number, length: number, minute: number): number {
    const nameBytes = nameBytesOf(bytes, at, length);
    if (nameBytes === 0) return NO_NAME;
    const hash = hashBytes(this.#hashKey, 0, bytes, at, nameBytes);
    let row = this.#keys.find(hash, bytes, at, nameBytes);
    if (row < 0) {
      row = this.#takeRow(minute);
      if (row < 0) return NO_ROW;
      this.#keys.put(row, hash, bytes, at, nameBytes);
    }
    for (let i = 0; i <= nameBytes; i++) this.#last[i] = bytes[at + i]!;
    this.#lastBytes = nameBytes + 1;
    this.#lastRow = row;
    return row;
  }

  /** A row without a name; -1 when all names are in use. */
  #takeRow(minute: number): number {
    let row = this.#isTaken.indexOf(0);
    if (row < 0 && this.#sweptAt !== minute) {
      this.#sweptAt = minute;
      this.#removeUnused(minute);
      row = this.#isTaken.indexOf(0);
    }
    if (row >= 0) this.#isTaken[row] = 1;
    return row;
  }

  /** At most once a minute, or invented names would make every decision look at all rows. */
  #removeUnused(minute: number): void {
    for (let row = 0; row < LIMIT_NAMES_MAX; row++) {
      if (minute - this.#usedAt[row]! < UNUSED_MINUTES) continue;
      this.#keys.remove(row);
      this.#isTaken[row] = 0;
      this.#onGone(row);
    }
    this.#lastBytes = 0;
  }
}

/** Bytes of the name before the first colon; 0 when that is not a name. */
function nameBytesOf(bytes: Uint8Array, at: number, length: number): number {
  const max = Math.min(length - 1, NAME_BYTES_MAX);
  for (let i = 0; i <= max; i++) {
    const byte = bytes[at + i]!;
    if (byte === COLON) return i;
    if (!isNameByte(byte)) return 0;
  }
  return 0;
}
