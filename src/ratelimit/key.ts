/**
 * Encodes keys, which come from strangers: any text becomes 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`, and no two texts
 * become the same.
 *
 *     as it is   a text of that form that does not begin with "." nor end with ":c"
 *     escaped    ".", then the text, each byte of its UTF-8 that the form does not have, each "+", a
 *                leading "." and the ":" of ":c" at the end as "+" and two hex digits: "/a" is ".+2Fa"
 *     hashed     ".", then the SHA-256 of the UTF-8 in base64url, without padding
 *
 * A text is escaped if the result fits into 64 bytes, and hashed otherwise. The three forms can't collide: only the first
 * begins without ".", and of the others only the escaped one has a "+".
 */
import { invalid } from "../wire/edge/argument.ts";
import { isName } from "../wire/ratelimit/keys.ts";

const MARKER = ".";
const ESCAPE = "+";
/** The ending of keys of composites: no other key may end like this. */
const COMPOSITE_END = ":c";
const KEY_BYTES_MAX = 64;
/** Characters that are never escaped. */
const PLAIN = /^[A-Za-z0-9_\-:.@]$/;

const encoder = new TextEncoder();

/**
 * The key under which the state of a caller's key is stored.
 *
 * Texts that look alike but have other code points have other keys: normalize them before, if you like.
 *
 * @example
 * await encodeKey("203.0.113.7"); // "203.0.113.7"
 * await encodeKey("2001:db8::1"); // "2001:db8::1"
 * await encodeKey("/a b"); // ".+2Fa+20b"
 *
 * @throws ThrottrError `key_invalid` for an empty one
 */
export async function encodeKey(key: string): Promise<string> {
  return encodeNow(key) ?? (await hashed(key));
}

/** `encodeKey` where no hash is needed, which takes a promise; null for a key that needs one. */
export function encodeNow(key: string): string | null {
  if (typeof key !== "string" || key === "") {
    throw invalid("key", "text that is not empty", key);
  }
  if (!key.startsWith(MARKER) && !key.endsWith(COMPOSITE_END) && isName(key)) return key;
  return escaped(key);
}

/** Escapes a text; null where the result does not fit. */
function escaped(key: string): string | null {
  // No text has fewer bytes than code units.
  if (key.length >= KEY_BYTES_MAX) return null;
  let text = MARKER;
  const bytes = bytesOf(key);
  const endAt = key.endsWith(COMPOSITE_END) ? bytes.length - COMPOSITE_END.length : -1;
  for (const [i, byte] of bytes.entries()) {
    const character = String.fromCharCode(byte);
    const isPlain = PLAIN.test(character) && !(i === 0 && character === MARKER) && i !== endAt;
    text += isPlain ? character : ESCAPE + hexOf(byte);
  }
  return text.length <= KEY_BYTES_MAX ? text : null;
}

async function hashed(key: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", Uint8Array.from(bytesOf(key)));
  const base64 = btoa(String.fromCharCode(...new Uint8Array(digest)));
  return MARKER + base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function hexOf(byte: number): string {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}

/**
 * UTF-8, and of half a surrogate pair the three bytes that it would have if it were a character: an
 * encoder makes U+FFFD of every one of them, so that keys would collide.
 */
function bytesOf(key: string): Uint8Array {
  if (key.isWellFormed()) return encoder.encode(key);
  const bytes: number[] = [];
  for (const character of key) {
    const code = character.codePointAt(0)!;
    if (character.isWellFormed()) bytes.push(...encoder.encode(character));
    else bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f));
  }
  return Uint8Array.from(bytes);
}
