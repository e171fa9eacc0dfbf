/** Names in URLs. They are decoded byte by byte, because a key or a channel need not be valid UTF-8. */
import { ThrottrError } from "../wire/edge/error.ts";

const BEYOND_ASCII = /[^ -~]+/g;
/** The wire has one byte for the length of a name. */
const NAME_BYTES_MAX = 255;

/** Decodes percent escapes into a binary string; null if a `%` is not followed by two hexadecimal digits. */
export function unescaped(text: string): string | null {
  if (/%(?![\da-f]{2})/i.test(text)) return null;
  return text.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** The kind of a name; the code of a refusal begins with it. */
type Named = "key" | "channel" | "name" | "lease";

/**
 * The path of a URL exactly as it was sent. The router matches this one; `new URL` would turn `/a/../b` into `/b`, so a
 * channel could be named by another path than the router saw. Only what no URL may have is escaped: some clients, such as curl,
 * send letters beyond ASCII as they are.
 */
export function rawPath(url: string): string {
  const path = /^[^:]*:\/\/[^/?#]*([^?#]*)/.exec(url)![1]!;
  return path.replace(BEYOND_ASCII, (text) => encodeURIComponent(text.toWellFormed()));
}

/**
 * Decodes a name in a URL's path into a binary string.
 *
 * @throws ThrottrError `key_invalid`, `channel_invalid`, `name_invalid`, `lease_invalid` when an escape is
 * none, or the name is longer than 255 bytes
 */
export function escapedName(part: string, what: Named): string {
  const name = unescaped(part);
  if (name === null) {
    throw new ThrottrError(
      `${what}_invalid`,
      `the ${what} has a % without two hexadecimal digits after it: escape it as %25`,
    );
  }
  return shortName(name, what);
}

/** @throws ThrottrError when a name is longer than 255 bytes */
export function shortName(name: string, what: Named): string {
  if (name.length <= NAME_BYTES_MAX) return name;
  throw new ThrottrError(
    `${what}_invalid`,
    `the ${what} has ${name.length} bytes, but may have at most ${NAME_BYTES_MAX}`,
  );
}
