/** Names of rate limits: base keys, keys and quotas, and the key that a state is stored under. */
import { RateLimitError, type RateLimitErrorCode } from "./error.ts";

const NAME_BYTES_MAX = 64;
/** One byte each. */
const NAME = /^[A-Za-z0-9_\-:.@+]+$/;

/** The key of the library for a limit without a key. */
const DEFAULT_KEY = "default";

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
  checkName(baseKey, "baseKey", "base_key_invalid");
  const checked = key === "" ? DEFAULT_KEY : checkName(key, "key", "key_invalid");
  return `${baseKey}:${checked}${isComposite ? ":c" : ""}`;
}
