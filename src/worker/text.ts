/** Bytes in JSON: as text where they are UTF-8, else in base64 under a name of their own. */

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** What a function takes as arguments without a deep stack. */
const CHUNK_BYTES = 8192;

/** The text that bytes are in UTF-8; null when they are none. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

/** `{ name }` as text, or `{ nameBase64 }`. */
export function textFields(name: string, bytes: Uint8Array): Record<string, string> {
  const text = textOf(bytes);
  return text === null ? { [`${name}Base64`]: base64Of(bytes) } : { [name]: text };
}

export function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  }
  return btoa(binary);
}

/** The bytes of a text in base64; null when it is none. */
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

/** The UTF-8 bytes of a text; null when it has half a surrogate pair, which UTF-8 can't say. */
export function bytesOfText(text: string): Uint8Array | null {
  return text.isWellFormed() ? encoder.encode(text) : null;
}

/** Base64 with the alphabet that URLs take as it is, without padding. */
export const urlBase64Of = (bytes: Uint8Array): string =>
  base64Of(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

export const bytesOfUrlBase64 = (text: string): Uint8Array | null =>
  /^[\w-]*$/.test(text) ? bytesOfBase64(text.replaceAll("-", "+").replaceAll("_", "/")) : null;
