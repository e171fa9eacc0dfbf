/** Names in URLs: percent-encoded byte by byte, for a name need not be text. */
import { ThrottrError } from "../wire/edge/error.ts";

const NAME_BYTES_MAX = 255;

/** The bytes that an escaped text stands for, as a binary string; null when an escape is none. */
export function unescaped(text: string): string | null {
  if (/%(?![\da-f]{2})/i.test(text)) return null;
  return text.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** What a name names: the code of a refusal begins with it. */
type Named = "key" | "channel" | "name" | "lease";

/**
 * The path of a URL as it came. The router goes by it, and `new URL` does not have it: there `/a/../b` is `/b`.
 */
export function rawPath(url: string): string {
  return /^[^:]*:\/\/[^/?#]*([^?#]*)/.exec(url)![1]!;
}

/**
 * The name that an escaped part of a URL's path stands for, as a binary string.
 *
 * @throws ThrottrError `key_invalid`, `channel_invalid`, `name_invalid`, `lease_invalid` when an escape is
 * none, or the name is longer than 255 bytes
 */
export function escapedName(part: string, what: Named): string {
  const name = unescaped(part);
  if (name === null) {
    throw new ThrottrError(`${what}_invalid`, `the ${what} has a % that begins no escape`);
  }
  return shortName(name, what);
}

/** @throws ThrottrError when a name is longer than 255 bytes */
export function shortName(name: string, what: Named): string {
  if (name.length <= NAME_BYTES_MAX) return name;
  throw new ThrottrError(
    `${what}_invalid`,
    `the ${what} has ${name.length} bytes, at most ${NAME_BYTES_MAX} are possible`,
  );
}
