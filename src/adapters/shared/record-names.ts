/**
 * Names of the records of a key-value store: a prefix and the key, as long as a name may be. A longer key is hashed, and
 * then its record has the key before the value, so that keys can be listed.
 */
import { invalid } from "../../wire/edge/argument.ts";
import { decodeText } from "./text.ts";

/** Bytes of a record's name. */
const NAME_BYTES_MAX = 255;
/** Bytes of a key, whose length is written in two bytes. */
const KEY_BYTES_MAX = 0xffff;
const LENGTH_BYTES = 2;
/** Begins the name behind the prefix where the key is hashed; also of a key that begins like it. */
const HASHED = "#sha256:";
/** Bytes of the name of a hashed key behind the prefix: what a prefix has to leave for any key to fit. */
const HASHED_BYTES = HASHED.length + 64;
/** Bytes of a prefix that takes any key. */
export const HASHABLE_PREFIX_BYTES_MAX = NAME_BYTES_MAX - HASHED_BYTES;

const encoder = new TextEncoder();

/** What a key is stored as. */
export interface RecordName {
  readonly name: string;
  /** The key, where the name is a hash of it; else empty. */
  readonly hashedKey: Uint8Array;
}

/** The beginning of the names of hashed keys. */
export const hashedPrefix = (prefix: string): string => prefix + HASHED;

/** @throws ThrottrError `key_invalid` */
export async function recordName(prefix: string, key: string): Promise<RecordName> {
  if (typeof key !== "string" || !key.isWellFormed()) throw invalid("key", "well-formed text", key);
  const name = prefix + key;
  if (fitsName(name) && !key.startsWith(HASHED)) return { name, hashedKey: new Uint8Array(0) };
  const hashedKey = encoder.encode(key);
  if (hashedKey.length > KEY_BYTES_MAX) {
    throw invalid("key", `at most ${KEY_BYTES_MAX} bytes`, hashedKey.length);
  }
  return { name: hashedPrefix(prefix) + (await hashOf(hashedKey)), hashedKey };
}

/** Whether names that begin with a base may be hashes, of keys that don't begin with it. */
export function mayBeginHashed(base: string): boolean {
  return HASHED.startsWith(base) || base.startsWith(HASHED);
}

/** Whether a record can have a name that begins so. */
export function fitsName(beginning: string): boolean {
  return beginning.length <= NAME_BYTES_MAX && encoder.encode(beginning).length <= NAME_BYTES_MAX;
}

/** The value of a record: as it is, or behind the key. */
export function storedValue({ hashedKey }: RecordName, value: Uint8Array): Uint8Array {
  if (hashedKey.length === 0) return value;
  const stored = new Uint8Array(LENGTH_BYTES + hashedKey.length + value.length);
  new DataView(stored.buffer).setUint16(0, hashedKey.length);
  stored.set(hashedKey, LENGTH_BYTES);
  stored.set(value, LENGTH_BYTES + hashedKey.length);
  return stored;
}

/** The reverse of `recordName` and `storedValue`. */
export function readRecord(
  prefix: string,
  name: string,
  stored: Uint8Array,
): { readonly key: string; readonly value: Uint8Array } {
  if (!name.startsWith(hashedPrefix(prefix)))
    return { key: name.slice(prefix.length), value: stored };
  const { buffer, byteOffset, byteLength } = stored;
  const valueAt = LENGTH_BYTES + new DataView(buffer, byteOffset, byteLength).getUint16(0);
  return {
    key: decodeText(stored.subarray(LENGTH_BYTES, valueAt)),
    value: stored.subarray(valueAt),
  };
}

async function hashOf(bytes: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", Uint8Array.from(bytes));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
