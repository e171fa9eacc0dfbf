/**
 * Fragments: what long answers are cut into, so that neither side needs memory for all of one.
 *
 *     fragment = index u64 (from 1), count u64, rows, names back to back
 *
 * Source: protocol reference, "7.3 layouts", LIST and below.
 */
import { ByteWriter } from "../bytes.ts";

/** Bytes of a fragment before its rows. */
const HEADER_BYTES = 16;
/** Most bytes of rows and names in a fragment. */
const FRAGMENT_BYTES_MAX = 2048;

/** Bytes of a row of LIST: key size, type, TTL type, time point, bytes used. */
export const listRowBytes = (valueSize: number): number => 11 + valueSize;

export class FragmentWriter {
  /** Whole fragments. */
  readonly out = new ByteWriter();
  readonly #rows = new ByteWriter();
  readonly #names = new ByteWriter();
  readonly #rowBytes: number;
  #count = 0;
  #index: number;

  /** @param firstIndex of the fragments that follow */
  constructor(rowBytes: number, firstIndex = 1) {
    this.#rowBytes = rowBytes;
    this.#index = firstIndex;
  }

  /** Fragments cut so far, the first one's index included. */
  get nextIndex(): number {
    return this.#index;
  }

  /** Bytes of rows and names in the fragment in the making. */
  get bytes(): number {
    return this.#rows.length + this.#names.length;
  }

  /** True when the present fragment has no room for a row with a name of this length. */
  isFullFor(nameBytes: number): boolean {
    return this.#count > 0 && this.bytes + this.#rowBytes + nameBytes > FRAGMENT_BYTES_MAX;
  }

  /** Adds a row of zeros with a name; the row begins at the returned offset of `rows`. */
  add(bytes: Uint8Array, nameAt: number, nameBytes: number): number {
    this.#count++;
    this.#names.copy(bytes, nameAt, nameAt + nameBytes);
    const at = this.#rows.reserve(this.#rowBytes);
    this.#rows.bytes.fill(0, at, at + this.#rowBytes);
    return at;
  }

  /** Rows of the fragment in the making, valid until the next `add`. */
  get rows(): DataView {
    return this.#rows.view;
  }

  get rowBytes(): Uint8Array {
    return this.#rows.bytes;
  }

  /** Ends the fragment in the making, empty or not. */
  cut(): void {
    this.out.u64(this.#index++);
    this.out.u64(this.#count);
    this.out.copy(this.#rows.bytes, 0, this.#rows.length);
    this.out.copy(this.#names.bytes, 0, this.#names.length);
    this.#rows.reset();
    this.#names.reset();
    this.#count = 0;
  }
}

/** Counts the fragments that a `FragmentWriter` makes of the same rows. */
export class FragmentCount {
  readonly #rowBytes: number;
  #bytes = 0;
  count = 0;

  constructor(rowBytes: number) {
    this.#rowBytes = rowBytes;
  }

  add(nameBytes: number): void {
    const bytes = this.#rowBytes + nameBytes;
    if (this.count === 0 || this.#bytes + bytes > FRAGMENT_BYTES_MAX) {
      this.count++;
      this.#bytes = 0;
    }
    this.#bytes += bytes;
  }
}

/** A row of a fragment, and its name. */
export interface FragmentRow {
  /** Where the row begins in the answer; its first byte is the size of the name. */
  readonly rowAt: number;
  readonly name: Uint8Array;
}

/**
 * The rows of an answer of fragments, in their order. What `FragmentWriter` writes, this reads.
 *
 * @param bytes the answer behind its status: the number of fragments u64, then the fragments
 * @throws RangeError when the answer is cut off, or goes on behind its last fragment
 */
export function* readFragments(bytes: Uint8Array, rowBytes: number): Generator<FragmentRow> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fragments = Number(view.getBigUint64(0, true));
  let at = 8;
  for (let fragment = 0; fragment < fragments; fragment++) {
    const rows = Number(view.getBigUint64(at + 8, true));
    const rowsAt = at + HEADER_BYTES;
    at = rowsAt + rowBytes * rows;
    for (let row = 0; row < rows; row++) {
      const rowAt = rowsAt + rowBytes * row;
      const nameAt = at;
      at += view.getUint8(rowAt);
      yield { rowAt, name: bytes.subarray(nameAt, at) };
    }
  }
  if (at !== bytes.length) throw new RangeError("fragments: the answer does not end with its last");
}
