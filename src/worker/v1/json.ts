/** Reads JSON of strangers: what it unfolds to in memory is bounded before it is parsed. */
import { ThrottrError } from "../../wire/edge/error.ts";

/** Objects and lists in each other. The deepest body, many composites, has seven. */
const DEPTH_MAX = 16;
/**
 * Commas, objects and lists. A thousand composites of eight quotas have less than half of it. An empty object takes far
 * more memory than the three bytes that say it.
 */
const PARTS_MAX = 100_000;

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
/** `[` and `{`. */
const OPENING = [0x5b, 0x7b];
/** `]` and `}`. */
const CLOSING = [0x5d, 0x7d];

/** Fatal, as a replacement character would change a key in silence. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/**
 * The value of a body. `Request.json()` is not used: it reads any bytes as UTF-8, and unfolds whatever comes.
 *
 * @throws ThrottrError `json_invalid`, 413 `body_too_large`
 */
export function parseJson(bytes: Uint8Array): unknown {
  assertBounded(bytes);
  let text;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new ThrottrError("json_invalid", "the body is not UTF-8");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ThrottrError("json_invalid", `the body is not JSON: ${(error as Error).message}`);
  }
}

/**
 * Counts parts and depth in the bytes, without a parser: invalid JSON passes here and fails in `JSON.parse`.
 *
 * @throws ThrottrError `body_too_large`
 */
function assertBounded(bytes: Uint8Array): void {
  let depth = 0;
  let parts = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) i = endOfString(bytes, i);
    else if (CLOSING.includes(byte)) depth--;
    else if (byte === COMMA) parts++;
    else if (OPENING.includes(byte)) {
      parts++;
      depth++;
    }
    if (depth <= DEPTH_MAX && parts <= PARTS_MAX) continue;
    throw new ThrottrError(
      "body_too_large",
      `JSON may have at most ${PARTS_MAX} values in ${DEPTH_MAX} levels of objects and lists`,
    );
  }
}

/** Where the string ends that begins at `at`; what follows a backslash does not end it. */
function endOfString(bytes: Uint8Array, at: number): number {
  let i = at + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}
