/**
 * Connection ids: 16 bytes that look like a random UUIDv4, and 98 bits of them are random.
 *
 * The others say which Hub has the connection, so that it is reached without asking any directory. They are masked with a
 * hash of the random bits: two ids of one Hub have nothing in common that a stranger could see.
 */
import { hashBytes, type HashKey } from "../engine/hash.ts";
import { bytesOfHex, hexOf } from "../wire/bytes.ts";
import type { HubAddress } from "./names.ts";

/** As many as a UUID has: clients and logs show it as one. */
export const CONNECTION_ID_BYTES = 16;

/** The last three bytes are the Hub's address: 23 bits are used. */
const ADDRESS_AT = 13;
// Not a secret: the mask only spreads ids. A caller who reads the address of a Hub out of an id can do no more with it
// than with the id.
const MASK_KEY: HashKey = { low: 0x2545f491, high: 0x4f6cdd1d };
// A location is three letters: an airport's code, as Cloudflare names its data centers. 26^3 of them with 256 Hubs
// each fit 24 bits.
const LETTERS = 26;
const LOCATIONS = LETTERS ** 3;
/** Hubs of a location: `HUBS_MAX` goes up to this. */
const INDEXES = 256;
const LETTER_A = 65;

/** Makes an id of a connection in a Hub. */
export function makeConnectionId(
  { location, index }: HubAddress,
  random: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const id = Uint8Array.from(random);
  // Version 4 and the variant of RFC 9562.
  id[6] = (id[6]! & 0x0f) | 0x40;
  id[8] = (id[8]! & 0x3f) | 0x80;
  let code = 0;
  for (let i = 0; i < 3; i++) code = code * LETTERS + location.charCodeAt(i) - LETTER_A;
  writeAddress(id, (code * INDEXES + index) ^ maskOf(id));
  return id;
}

/** Ids that lie back to back, one by one. */
export function splitIds(ids: Uint8Array): Uint8Array[] {
  return Array.from({ length: ids.length / CONNECTION_ID_BYTES }, (_, i) =>
    ids.subarray(i * CONNECTION_ID_BYTES, (i + 1) * CONNECTION_ID_BYTES),
  );
}

/** The Hub that an id names; null when the bytes are not a connection id. A made-up id may name a Hub all the same. */
export function hubOfConnection(id: Uint8Array): HubAddress | null {
  if (id.length !== CONNECTION_ID_BYTES) return null;
  if (id[6]! >>> 4 !== 4 || id[8]! >>> 6 !== 2) return null;
  const address =
    ((id[ADDRESS_AT]! << 16) | (id[ADDRESS_AT + 1]! << 8) | id[ADDRESS_AT + 2]!) ^ maskOf(id);
  let code = Math.floor(address / INDEXES);
  if (code >= LOCATIONS) return null;
  let location = "";
  for (let i = 0; i < 3; i++) {
    location = String.fromCharCode(LETTER_A + (code % LETTERS)) + location;
    code = Math.floor(code / LETTERS);
  }
  return { location, index: address % INDEXES };
}

/** The Hub behind a channel that is named like a connection, else null. */
export function hubOfChannel(channel: string): HubAddress | null {
  if (!/^[\da-f]{32}$/.test(channel)) return null;
  return hubOfConnection(bytesOfHex(channel));
}

/** Name of a connection's own channel: its id as 32 lowercase hex digits. */
export function ownChannel(id: Uint8Array): string {
  return hexOf(id);
}

/** Hashes the bytes in front of the address, most of which are random. */
function maskOf(id: Uint8Array): number {
  return hashBytes(MASK_KEY, 0, id, 0, ADDRESS_AT) & 0xffffff;
}

/** 24 bits, big-endian. */
function writeAddress(id: Uint8Array, address: number): void {
  id[ADDRESS_AT] = address >>> 16;
  id[ADDRESS_AT + 1] = address >>> 8;
  id[ADDRESS_AT + 2] = address;
}
