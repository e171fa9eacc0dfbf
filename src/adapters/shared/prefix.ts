/** Prefixes that keep the records of one adapter from those of another. */
import { encodeKey } from "../../ratelimit/key.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";

const PREFIX_BYTES_MAX = 128;

/**
 * The prefix of records: an option, and what ends it.
 *
 * @param field the name of the option, for the message
 * @param end of the prefix, in ASCII, behind the option
 * @throws RateLimitError `configuration_invalid` for anything but well-formed text, or a prefix beyond 128 bytes
 */
export function checkPrefix(option: string, field = "prefix", end = ""): string {
  const bytesMax = PREFIX_BYTES_MAX - end.length;
  const isText = typeof option === "string" && option.isWellFormed();
  const bytes = isText ? new TextEncoder().encode(option).length : 0;
  if (bytes >= 1 && bytes <= bytesMax) return option + end;
  throw configurationInvalid(field, `expected well-formed text of 1 to ${bytesMax} bytes`, option);
}

/** The key of a record: the prefix, and any text, encoded. Empty text is the prefix alone, which no other text becomes. */
export async function recordKey(prefix: string, key: string): Promise<string> {
  return prefix + (key === "" ? "" : await encodeKey(key));
}
