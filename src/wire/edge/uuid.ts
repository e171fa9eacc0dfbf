/** UUIDs that callers name things by: 16 bytes on the wire. */
import { bytesOfHex, hexOf } from "../bytes.ts";
import { invalid } from "./argument.ts";

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const GROUPS = /^(.{8})(.{4})(.{4})(.{4})(.{12})$/;
const UUID_BYTES = 16;

/** Fills bytes with random ones, as `crypto.getRandomValues` does. */
export type FillRandom = (bytes: Uint8Array<ArrayBuffer>) => unknown;

/**
 * The bytes of a UUID.
 *
 * @throws ThrottrError with the code
 */
export function uuidBytes(text: unknown, field: string, code: string): Uint8Array<ArrayBuffer> {
  if (typeof text === "string" && UUID.test(text)) return bytesOfHex(text.replaceAll("-", ""));
  throw invalid(field, "a UUID", text, code);
}

/** The UUID that 16 bytes are, in lowercase. */
export function uuidOf(bytes: Uint8Array): string {
  return hexOf(bytes).replace(GROUPS, "$1-$2-$3-$4-$5");
}

/** A new random UUID, version 4. */
export function newUuid(fill: FillRandom): string {
  const bytes = new Uint8Array(UUID_BYTES);
  fill(bytes);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return uuidOf(bytes);
}
