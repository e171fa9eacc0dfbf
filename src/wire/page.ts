/**
 * A page: a stretch of an object's rows in the order of their keys, as objects tell each other of them.
 *
 *     page = version u8, is last u8, row bytes u16, total u32, entry*
 *     entry = key length, row, key
 *
 * The length is a u8 in version 1, and a u16 in version 2, which has keys of more than 255 bytes.
 *
 * Little-endian. `total` counts all rows of the object, whatever the page holds. The caller gives the
 * last key that it has, so nothing is kept between two pages; rows that come and go meanwhile are seen
 * or not.
 */
import { ByteWriter } from "./bytes.ts";
import { ThrottrError } from "./edge/error.ts";

const HEADER_BYTES = 8;

/** And bytes of a key's length. */
type PageVersion = 1 | 2;

export class PageWriter {
  readonly #out: ByteWriter;
  readonly #rowBytes: number;
  readonly #version: PageVersion;

  constructor(rowBytes: number, total: number, version: PageVersion = 1) {
    this.#rowBytes = rowBytes;
    this.#version = version;
    this.#out = new ByteWriter(4096);
    this.#out.u8(version);
    this.#out.u8(0);
    this.#out.u16(rowBytes);
    this.#out.u32(total);
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#out.length;
  }

  get view(): DataView {
    return this.#out.view;
  }

  get bytes(): Uint8Array {
    return this.#out.bytes;
  }

  /** Adds an entry with a row of zeros, and returns where in `bytes` the row begins. */
  add(key: Uint8Array, at: number, length: number): number {
    const entry = this.#out.reserve(this.#version + this.#rowBytes + length);
    this.#out.bytes[entry] = length;
    if (this.#version === 2) this.#out.bytes[entry + 1] = length >>> 8;
    const row = entry + this.#version;
    this.#out.bytes.set(key.subarray(at, at + length), row + this.#rowBytes);
    return row;
  }

  get isEmpty(): boolean {
    return this.#out.length === HEADER_BYTES;
  }

  /** @param isLast no rows lie behind those of this page */
  take(isLast: boolean): Uint8Array<ArrayBuffer> {
    this.#out.bytes[1] = isLast ? 1 : 0;
    return this.#out.take();
  }
}

/** Goes through the entries of a page. */
export class PageReader {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly rowBytes: number;
  readonly total: number;
  readonly isLast: boolean;
  /** Of the current entry. */
  entryAt = 0;
  rowAt = 0;
  keyAt = 0;
  keyLength = 0;
  readonly #version: PageVersion;
  #next = HEADER_BYTES;

  /** @throws RangeError for a page of a version that this release does not know */
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const version = bytes[0];
    if (version !== 1 && version !== 2)
      throw new ThrottrError("page_version", "expected a page of version 1 or 2");
    this.#version = version;
    this.isLast = bytes[1] === 1;
    this.rowBytes = this.view.getUint16(2, true);
    this.total = this.view.getUint32(4, true);
  }

  /** Moves to the next entry; false behind the last one. */
  next(): boolean {
    if (this.#next === this.bytes.length) return false;
    const isWide = this.#version === 2;
    this.entryAt = this.#next;
    this.keyLength = isWide ? this.view.getUint16(this.#next, true) : this.bytes[this.#next]!;
    this.rowAt = this.#next + this.#version;
    this.keyAt = this.rowAt + this.rowBytes;
    this.#next = this.keyAt + this.keyLength;
    return true;
  }

  /** Key of the current entry, as a copy. */
  key(): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(this.keyAt, this.keyAt + this.keyLength);
  }
}
