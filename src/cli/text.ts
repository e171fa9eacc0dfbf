/**
 * Bytes as text: parsed from arguments, and printed for people and scripts.
 *
 * Keys and values are bytes that strangers chose. Printed as they are they could move the cursor, change colours or
 * reorder text in a terminal, so everything for people goes through `shownBytes` or `shownText`.
 */
import { InvalidArgumentError } from "commander";

/** How keys and values are written in arguments. */
export type Encoding = "text" | "hex" | "base64";

/** Refuses invalid UTF-8, and keeps a byte order mark: it is part of the key. */
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();
/** Characters that a terminal executes or hides: C0, DEL, C1, line separators, and marks of text direction. */
// oxlint-disable-next-line eslint/no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Reads the bytes of an argument.
 *
 * @throws InvalidArgumentError if the argument is not valid in its encoding
 */
export function bytesOfArgument(text: string, encoding: Encoding): Uint8Array {
  if (encoding === "text") return encoder.encode(text);
  if (encoding === "hex") {
    if (/^(?:[0-9a-fA-F]{2})*$/.test(text)) return Uint8Array.from(Buffer.from(text, "hex"));
    throw new InvalidArgumentError(`Expected pairs of hexadecimal digits, got ${text}.`);
  }
  const bytes = Buffer.from(text, "base64");
  // Shells and URLs drop the padding and use the alphabet of base64url; both name the same bytes.
  const unpadded = text.replace(/=+$/, "").replaceAll("-", "+").replaceAll("_", "/");
  if (bytes.toString("base64").replace(/=+$/, "") === unpadded) return Uint8Array.from(bytes);
  throw new InvalidArgumentError(`Expected base64, got ${text}.`);
}

/** Bytes decoded as UTF-8; null if they are not valid UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** Bytes as base64 with padding, the standard alphabet. */
export const base64Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");

/** Bytes as two fields of a JSON object: text if they are UTF-8, otherwise base64, and which of the two. */
export function jsonBytes<Field extends string>(
  field: Field,
  bytes: Uint8Array,
): Record<Field | `${Field}Encoding`, string> {
  const text = textOf(bytes);
  const fields = {
    [field]: text ?? base64Of(bytes),
    [`${field}Encoding`]: text === null ? "base64" : "text",
  };
  return fields as Record<Field | `${Field}Encoding`, string>;
}

/** Bytes for people: escaped text, or `base64:…` if they are not UTF-8. */
export function shownBytes(bytes: Uint8Array): string {
  const text = textOf(bytes);
  return text === null ? `base64:${base64Of(bytes)}` : shownText(text);
}

/** Like `shownBytes`, but text keeps its line feeds and tabs: for values and messages. */
export function shownPayload(bytes: Uint8Array): string {
  const text = textOf(bytes);
  return text === null ? shownBytes(bytes) : shownLines(text);
}

/** A key for people; the empty key is a valid one and needs a name. */
export function shownKey(key: Uint8Array): string {
  return key.length === 0 ? "(empty)" : shownBytes(key);
}

/** Text that fits in a column. */
export function cut(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text;
}

/** Text for people: control characters are written as escapes. */
export function shownText(text: string): string {
  return text.replace(CONTROL, (control) => {
    if (control === "\n") return "\\n";
    if (control === "\r") return "\\r";
    if (control === "\t") return "\\t";
    return `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** Like `shownText`, but keeps line feeds and tabs. */
export function shownLines(text: string): string {
  return text.replace(/[^\n\t]+/g, shownText);
}
