/**
 * Connection ids: 16 bytes that look like a random UUIDv4, 98 bits of which are.
 *
 * The other bits say which Hub has the connection, so that it is reached without asking anybody. They
 * are masked with a hash of the random ones: nothing about ids of one Hub looks alike.
 */
import { hashBytes, type HashKey } from "../engine/hash.ts";
import { bytesOfHex, hexOf } from "../wire/bytes.ts";
import type { HubPlace } from "./names.ts";

export const CONNECTION_ID_BYTES = 16;

const PLACE_AT = 13;
const MASK_KEY: HashKey = { low: 0x2545f491, high: 0x4f6cdd1d };
const LETTERS = 26;
const LOCATIONS = LETTERS ** 3;
const INDEXES = 256;
const LETTER_A = 65;

/** Makes an id of a connection in a Hub. */
export function makeConnectionId(
  { location, index }: HubPlace,
  random: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const id = Uint8Array.from(random);
  id[6] = (id[6]! & 0x0f) | 0x40;
  id[8] = (id[8]! & 0x3f) | 0x80;
  let code = 0;
  for (let i = 0; i < 3; i++) code = code * LETTERS + location.charCodeAt(i) - LETTER_A;
  writePlace(id, (code * INDEXES + index) ^ maskOf(id));
  return id;
}

/** Ids that lie back to back, one by one. */
export function splitIds(ids: Uint8Array): Uint8Array[] {
  return Array.from({ length: ids.length / CONNECTION_ID_BYTES }, (_, i) =>
    ids.subarray(i * CONNECTION_ID_BYTES, (i + 1) * CONNECTION_ID_BYTES),
  );
}

/** The Hub that an id names, or null when the bytes are no id of ours. */
export function placeOfConnection(id: Uint8Array): HubPlace | null {
  if (id.length !== CONNECTION_ID_BYTES) return null;
  if (id[6]! >>> 4 !== 4 || id[8]! >>> 6 !== 2) return null;
  const place = ((id[PLACE_AT]! << 16) | (id[PLACE_AT + 1]! << 8) | id[PLACE_AT + 2]!) ^ maskOf(id);
  let code = Math.floor(place / INDEXES);
  if (code >= LOCATIONS) return null;
  let location = "";
  for (let i = 0; i < 3; i++) {
    location = String.fromCharCode(LETTER_A + (code % LETTERS)) + location;
    code = Math.floor(code / LETTERS);
  }
  return { location, index: place % INDEXES };
}

/** The Hub behind a channel that is named like a connection, else null. */
export function placeOfChannel(channel: string): HubPlace | null {
  if (!/^[\da-f]{32}$/.test(channel)) return null;
  return placeOfConnection(bytesOfHex(channel));
}

/** Name of a connection's own channel: its id as 32 lowercase hex digits. */
export function ownChannel(id: Uint8Array): string {
  return hexOf(id);
}

function maskOf(id: Uint8Array): number {
  return hashBytes(MASK_KEY, 0, id, 0, PLACE_AT) & 0xffffff;
}

function writePlace(id: Uint8Array, place: number): void {
  id[PLACE_AT] = place >>> 16;
  id[PLACE_AT + 1] = place >>> 8;
  id[PLACE_AT + 2] = place;
}
