/** A byte buffer that grows as it is written to and is used again for the next message. */
export class ByteWriter {
  bytes: Uint8Array<ArrayBuffer>;
  view: DataView<ArrayBuffer>;
  length = 0;

  constructor(capacity = 1024) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Makes room for `count` more bytes and returns where they begin. They count as written. */
  reserve(count: number): number {
    const at = this.length;
    const end = at + count;
    if (end > this.bytes.length) this.#grow(end);
    this.length = end;
    return at;
  }

  // `reserve` may replace the buffer, so it runs before the buffer is looked at.

  u8(value: number): void {
    const at = this.reserve(1);
    this.bytes[at] = value;
  }

  u16(value: number): void {
    const at = this.reserve(2);
    this.view.setUint16(at, value, true);
  }

  u32(value: number): void {
    const at = this.reserve(4);
    this.view.setUint32(at, value, true);
  }

  /** Appends a u64, from 0 to 2^53. */
  u64(value: number): void {
    this.u32(value >>> 0);
    this.u32(Math.floor(value / 2 ** 32));
  }

  f64(value: number): void {
    const at = this.reserve(8);
    this.view.setFloat64(at, value, true);
  }

  /** Appends `source[from, to)`. */
  copy(source: Uint8Array, from = 0, to = source.length): void {
    const at = this.reserve(to - from);
    copyBytes(source, from, this.bytes, at, to - from);
  }

  /** What was written, as a copy of its own. */
  take(): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(0, this.length);
  }

  /** Forgets what was written; keeps the buffer unless it has outgrown `keepBytesMax`. */
  reset(keepBytesMax = 1 << 20): void {
    this.length = 0;
    if (this.bytes.length > keepBytesMax) {
      this.bytes = new Uint8Array(1024);
      this.view = new DataView(this.bytes.buffer);
    }
  }

  #grow(needed: number): void {
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    grown.set(this.bytes);
    this.bytes = grown;
    this.view = new DataView(grown.buffer);
  }
}

// Below this many bytes a loop is faster than a call into the runtime.
const LOOP_BYTES_MAX = 48;

/** Copies `count` bytes between arrays, or within one when the target lies before the source. */
export function copyBytes(
  source: Uint8Array,
  from: number,
  target: Uint8Array,
  at: number,
  count: number,
): void {
  if (count <= LOOP_BYTES_MAX) {
    for (let i = 0; i < count; i++) target[at + i] = source[from + i]!;
  } else if (source === target) {
    target.copyWithin(at, from, from + count);
  } else {
    target.set(source.subarray(from, from + count), at);
  }
}

/** Appends a u64 given as two u32 halves in `width` little-endian bytes. */
export function writeUint(
  target: Uint8Array,
  at: number,
  width: number,
  high: number,
  low: number,
): void {
  for (let i = 0; i < width; i++) {
    target[at + i] = i < 4 ? low >>> (8 * i) : high >>> (8 * (i - 4));
  }
}

/** True when `bytes[at, at + length)` begins with one of the prefixes, or there are none. */
export function beginsWithAny(
  prefixes: readonly Uint8Array[],
  bytes: Uint8Array,
  at: number,
  length: number,
): boolean {
  if (prefixes.length === 0) return true;
  return prefixes.some(
    (prefix) => prefix.length <= length && prefix.every((byte, i) => bytes[at + i] === byte),
  );
}

/** Order of byte strings: by their bytes, the shorter first where one begins with the other. */
export function compareBytes(
  a: Uint8Array,
  aAt: number,
  aLength: number,
  b: Uint8Array,
  bAt: number,
  bLength: number,
): number {
  const length = Math.min(aLength, bLength);
  for (let i = 0; i < length; i++) {
    const difference = a[aAt + i]! - b[bAt + i]!;
    if (difference !== 0) return difference;
  }
  return aLength - bLength;
}

/** Arguments of one call: engines limit them to what fits the stack. */
const ARGUMENTS_MAX = 1024;

/** Bytes as a string of as many characters, U+0000 to U+00FF: what maps take as a key. */
export function binaryString(bytes: Uint8Array, at: number, length: number): string {
  if (length > ARGUMENTS_MAX) {
    const half = length >>> 1;
    return binaryString(bytes, at, half) + binaryString(bytes, at + half, length - half);
  }
  // One call: a text that grows by a character at a time becomes a rope, which costs more to make and to read.
  // oxlint-disable-next-line no-new-array -- `Array.from` calls a function for each character
  const codes = new Array<number>(length);
  for (let i = 0; i < length; i++) codes[i] = bytes[at + i]!;
  return String.fromCharCode.apply(null, codes);
}

/** The bytes of a binary string. */
export function binaryBytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Byte strings back to back; the only one of a list as it is. */
export function joinBytes<Part extends Uint8Array>(
  parts: readonly Part[],
): Part | Uint8Array<ArrayBuffer> {
  if (parts.length === 1) return parts[0]!;
  const joined = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Bytes beside a part of a buffer for which it is not worth a copy. */
const SLACK_BYTES = 4096;

/**
 * Bytes that will be kept: as a copy where they are a small part of their buffer, since a part keeps all of its buffer in
 * memory.
 */
export function kept(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength > 2 * bytes.length + SLACK_BYTES ? bytes.slice() : bytes;
}

/** Bytes as lowercase hex digits. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes of pairs of hex digits. A caller may publish to some hundred thousand channels that are named by them at once. */
export function bytesOfHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Codes of digits end in 0 to 9; those of letters in 1 to 6, and are above 64.
    bytes[i >> 1] = bytes[i >> 1]! * 16 + (code & 15) + 9 * (code >> 6);
  }
  return bytes;
}
