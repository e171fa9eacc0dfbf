/** Prefixes that keep the records of one adapter from those of another. */
import { encodeKey } from "../../ratelimit/key.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";

const PREFIX_BYTES_MAX = 128;

/** @throws RateLimitError `configuration_invalid` for anything but text of 1 to 128 bytes */
export function checkPrefix(prefix: string): string {
  const bytes = typeof prefix === "string" ? new TextEncoder().encode(prefix).length : 0;
  if (bytes >= 1 && bytes <= PREFIX_BYTES_MAX) return prefix;
  throw configurationInvalid("prefix", `expected text of 1 to ${PREFIX_BYTES_MAX} bytes`, prefix);
}

/** The key of a record: the prefix, and any text, encoded. Empty text is the prefix alone, which no other text becomes. */
export async function recordKey(prefix: string, key: string): Promise<string> {
  return prefix + (key === "" ? "" : await encodeKey(key));
}
