/** Ids of leases: 16 bytes, which callers write as a UUID. */
import { invalid, isObject } from "./argument.ts";
import { bytesOfHex, hexOf } from "../bytes.ts";
import { LEASE_ID_BYTES } from "./command.ts";

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const GROUPS = /^(.{8})(.{4})(.{4})(.{4})(.{12})$/;

/**
 * The bytes of an id.
 *
 * @throws ThrottrError `lease_invalid`
 */
export function leaseIdOf(text: unknown): Uint8Array<ArrayBuffer> {
  if (typeof text === "string" && UUID.test(text)) return bytesOfHex(text.replaceAll("-", ""));
  throw invalid("leaseId", "a UUID", text, "lease_invalid");
}

/** The id that 16 bytes are, in lowercase. */
export function uuidOf(bytes: Uint8Array): string {
  return hexOf(bytes).replace(GROUPS, "$1-$2-$3-$4-$5");
}

/** Fills bytes with random ones, as `crypto.getRandomValues` does. */
export type FillRandom = (bytes: Uint8Array<ArrayBuffer>) => unknown;

/** A new id: a random UUID, version 4. */
export function newLeaseId(fill: FillRandom): string {
  const bytes = new Uint8Array(LEASE_ID_BYTES);
  fill(bytes);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return uuidOf(bytes);
}

/** Options with a lease id: a new one where there is none. What is not an object stays as it is. */
export function withLeaseId<Options extends { readonly leaseId?: string | undefined }>(
  options: Options,
  fill: FillRandom,
): Options {
  if (!isObject(options)) return options;
  return { ...options, leaseId: options.leaseId ?? newLeaseId(fill) };
}
