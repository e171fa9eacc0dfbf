/** Bytes, their hex, and the numbers that frames are made of: little-endian, in every dialect but yrmcds. */

/** A key or a name: one character a byte. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((bytes, part) => bytes + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function hex(bytes: Iterable<number>): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function unhex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** A number in `width` bytes; what does not fit is cut off. */
export function uint(value: bigint | number, width: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: width }, (_, i) =>
    Number((BigInt(value) >> BigInt(8 * i)) & 255n),
  );
}

/** The unsigned integer of `width` bytes at `at`. */
export function uintAt(bytes: Uint8Array, at: number, width: number): bigint {
  if (at + width > bytes.length) throw new RangeError(`${at}: beyond ${bytes.length} bytes`);
  let value = 0n;
  for (let i = width - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i]!);
  return value;
}

export const u16 = (value: number): Uint8Array => Uint8Array.of(value, value >>> 8);
export const u32 = (value: number): Uint8Array =>
  Uint8Array.of(value, value >>> 8, value >>> 16, value >>> 24);

export function u64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value, true);
  return bytes;
}

export function f64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value, true);
  return bytes;
}
