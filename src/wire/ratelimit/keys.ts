/** Names of rate limits: base keys, keys and quotas, and the key that a state is stored under. */
import { RateLimitError, type RateLimitErrorCode } from "./error.ts";

export const NAME_BYTES_MAX = 64;
/** One byte each. */
const NAME = /^[A-Za-z0-9_\-:.@+]+$/;

/** The key of the library for a limit without a key. */
const DEFAULT_KEY = "default";
/** What the key of a composite's state ends with. */
const COMPOSITE_SUFFIX = ":c";

/** By code: 1 for a character of names. */
const IS_NAME_BYTE = Uint8Array.from({ length: 256 }, (_, code) =>
  NAME.test(String.fromCharCode(code)) ? 1 : 0,
);

/** True for a byte that names may have. */
export function isNameByte(byte: number): boolean {
  return IS_NAME_BYTE[byte] === 1;
}

/** True for 1 to 64 bytes of `A-Z a-z 0-9 _ - : . @ +`. */
export function isName(text: string): boolean {
  return text.length <= NAME_BYTES_MAX && NAME.test(text);
}

/**
 * Checks a name.
 *
 * @param field where the name stands, for the message
 * @throws RateLimitError with the given code
 */
export function checkName(value: unknown, field: string, code: RateLimitErrorCode): string {
  if (typeof value === "string" && isName(value)) return value;
  const range = `expected 1 to ${NAME_BYTES_MAX} characters of A-Z a-z 0-9 _ - : . @ +`;
  throw new RateLimitError(code, field, range, value);
}

/**
 * The key of the record that holds a state: `BASE:KEY`, and `BASE:KEY:c` for a composite.
 *
 * @param key "" stands for `default`, as in the library
 * @throws RateLimitError base_key_invalid, key_invalid
 */
export function storageKey(baseKey: string, key: string, isComposite: boolean): string {
  checkName(baseKey, "name", "base_key_invalid");
  const checked = key === "" ? DEFAULT_KEY : checkName(key, "key", "key_invalid");
  return `${baseKey}:${checked}${isComposite ? COMPOSITE_SUFFIX : ""}`;
}

/** Bytes of the stored key of a composite, `bytes[at, at + length)`, without the end that only such keys have. */
export function withoutSuffix(bytes: Uint8Array, at: number, length: number): number {
  const end = at + length;
  const hasSuffix = length > 2 && bytes[end - 2] === 0x3a && bytes[end - 1] === 0x63;
  return hasSuffix ? length - COMPOSITE_SUFFIX.length : length;
}
