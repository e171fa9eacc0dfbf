/** The value of a buffer as text, JSON or hex, and names of any bytes as a line of text. */

import { indentedJson, isJson } from "./json-text.ts";

export type ValueForm = "text" | "json" | "hex";

/** The longest part of a value that is shown: bytes in hex, characters in text and JSON. */
const SHOWN_MAX = 64 << 10;
const HEX_ROW_BYTES = 16;

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of bytes in UTF-8; null for other bytes. */
export function utf8Of(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** Rows of sixteen bytes: offset, bytes, and the characters that ASCII has for them. */
export function hexOf(bytes: Uint8Array): string {
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += HEX_ROW_BYTES) {
    const row = bytes.subarray(at, at + HEX_ROW_BYTES);
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const characters = Array.from(row, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·",
    ).join("");
    rows.push(
      `${at.toString(16).padStart(6, "0")}  ${hex.padEnd(HEX_ROW_BYTES * 3 - 1)}  ${characters}`,
    );
  }
  return rows.join("\n");
}

/** What a line does not show: control characters, all spaces but the common one, and that one at an end or beside another. */
const UNSEEN = /\p{C}|[^\S ]|^ | $| {2}/u;
/** The name without bytes, as it is shown. */
const EMPTY_NAME = "(empty)";

/**
 * A name of any bytes as one line of text. UTF-8 that a line shows whole stays as it is, except that a backslash which looks like
 * the beginning of an escape is escaped, and so is the name that looks like the empty one; all other names have escapes such as `\x00`.
 * So no two names look alike.
 */
export function nameText(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  if (text === "") return EMPTY_NAME;
  if (text === EMPTY_NAME) return `\\x28${text.slice(1)}`;
  if (text !== null && !UNSEEN.test(text)) return text.replace(/\\(?=x[\da-f]{2})/gi, "\\x5c");
  return Array.from(bytes, (byte) =>
    byte > 0x20 && byte < 0x7f && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, "0")}`,
  ).join("");
}

/** The forms in which a value can be shown, the most readable first. */
export function formsOf(bytes: Uint8Array): readonly ValueForm[] {
  const text = utf8Of(bytes);
  if (text === null) return ["hex"];
  return isJson(text) ? ["json", "text", "hex"] : ["text", "hex"];
}

/** The part of a value that is shown. */
export interface ShownValue {
  readonly text: string;
  /** Whether the value is longer. */
  readonly isCut: boolean;
}

/** A value in one of its forms, cut if it is too long in that form. */
export function valueIn(form: ValueForm, bytes: Uint8Array): ShownValue {
  if (form === "hex") {
    return { text: hexOf(bytes.subarray(0, SHOWN_MAX)), isCut: bytes.length > SHOWN_MAX };
  }
  const text = utf8Of(bytes) ?? "";
  const whole = form === "json" ? indentedJson(text, SHOWN_MAX) : text;
  return { text: whole.slice(0, SHOWN_MAX), isCut: whole.length > SHOWN_MAX };
}

/** The beginning of a message. */
export interface Beginning extends ShownValue {
  readonly isHex: boolean;
}

/** The first bytes of a message: as text if they are UTF-8, without a character that is cut in the middle; else as hex. */
export function beginningOf(bytes: Uint8Array, bytesMax: number): Beginning {
  const isCut = bytes.length > bytesMax;
  const shown = bytes.subarray(0, bytesMax);
  try {
    // With `stream` an unfinished character at the end is not an error, as the rest could follow.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return { text: decoder.decode(shown, { stream: isCut }), isHex: false, isCut };
  } catch {
    return { text: hexOf(shown), isHex: true, isCut };
  }
}
