/** Bytes as text: read from arguments, and shown to people and scripts. */
import { InvalidArgumentError } from "commander";

/** How keys and values are written in arguments. */
export type Encoding = "text" | "hex" | "base64";

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();
/** What a terminal would take for an order, or not show: C0, DEL, C1, and marks that turn text around. */
// oxlint-disable-next-line eslint/no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * The bytes that an argument stands for.
 *
 * @throws InvalidArgumentError when it is not of that encoding
 */
export function bytesOfArgument(text: string, encoding: Encoding): Uint8Array {
  if (encoding === "text") return encoder.encode(text);
  if (encoding === "hex") {
    if (/^(?:[0-9a-fA-F]{2})*$/.test(text)) return Uint8Array.from(Buffer.from(text, "hex"));
    throw new InvalidArgumentError(`Pairs of hexadecimal digits are expected, got ${text}.`);
  }
  const bytes = Buffer.from(text, "base64");
  const unpadded = text.replace(/=+$/, "").replaceAll("-", "+").replaceAll("_", "/");
  if (bytes.toString("base64").replace(/=+$/, "") === unpadded) return Uint8Array.from(bytes);
  throw new InvalidArgumentError(`Base64 is expected, got ${text}.`);
}

/** The text of bytes that are UTF-8; null of others. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

export const base64Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");

/** Bytes as two fields of a JSON object: the text, or base64 where they are none, and which it is. */
export function jsonBytes<Field extends string>(
  field: Field,
  bytes: Uint8Array,
): Record<Field | `${Field}Encoding`, string> {
  const text = textOf(bytes);
  const fields =
    text === null
      ? { [field]: base64Of(bytes), [`${field}Encoding`]: "base64" }
      : { [field]: text, [`${field}Encoding`]: "text" };
  return fields as Record<Field | `${Field}Encoding`, string>;
}

/** Bytes for people: nothing in them moves the cursor. What is no text is `base64:…`. */
export function shownBytes(bytes: Uint8Array): string {
  const text = textOf(bytes);
  return text === null ? `base64:${base64Of(bytes)}` : shownText(text);
}

/** A key for people. */
export function shownKey(key: Uint8Array): string {
  return key.length === 0 ? "(empty)" : shownBytes(key);
}

/** Text for people: what a terminal would take for an order is written as an escape. */
export function shownText(text: string): string {
  return text.replace(CONTROL, (control) => {
    if (control === "\n") return "\\n";
    if (control === "\r") return "\\r";
    if (control === "\t") return "\\t";
    return `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** As `shownText`, with line feeds and tabs as they are. */
export function shownLines(text: string): string {
  return text.replace(/[^\n\t]+/g, shownText);
}
