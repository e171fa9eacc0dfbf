/** Bytes in JSON: text if they are UTF-8, otherwise base64 in a field with another name (`keyBase64` beside `key`). */

const encoder = new TextEncoder();
/** Fatal, to tell UTF-8 from other bytes; a byte order mark is kept, or a key would come back shorter. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** Arguments of one call of `String.fromCharCode`: engines limit them to what fits the stack. */
const CHUNK_BYTES = 8192;

/** Bytes decoded as UTF-8; null if they are not valid UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

/** The field for some bytes: `{ name }` as text, or `{ nameBase64 }`. */
export function textFields(name: string, bytes: Uint8Array): Record<string, string> {
  const text = textOf(bytes);
  return text === null ? { [`${name}Base64`]: base64Of(bytes) } : { [name]: text };
}

/** Base64 with padding. The runtime's `btoa` takes text of one character for each byte. */
export function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  }
  return btoa(binary);
}

/** Decodes base64; null if the text is not base64. */
export function bytesOfBase64(text: string): Uint8Array | null {
  let binary;
  try {
    binary = atob(text);
  } catch {
    return null;
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Encodes a text as UTF-8; null if it has half of a surrogate pair, which UTF-8 cannot encode. */
export function bytesOfText(text: string): Uint8Array | null {
  return text.isWellFormed() ? encoder.encode(text) : null;
}

/** Base64url without padding (RFC 4648, section 5): a cursor goes into a query without escapes. */
export const urlBase64Of = (bytes: Uint8Array): string =>
  base64Of(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

/** The `cursor` field of a page; null after the last page. */
export const cursorText = (cursor: Uint8Array | null): string | null =>
  cursor === null ? null : urlBase64Of(cursor);

/** Decodes base64url; null if the text has other characters or an impossible length. */
export const bytesOfUrlBase64 = (text: string): Uint8Array | null =>
  /^[\w-]*$/.test(text) ? bytesOfBase64(text.replaceAll("-", "+").replaceAll("_", "/")) : null;
