/** The value of a buffer as text, JSON or hex, and names of any bytes as a line of text. */

export type ValueForm = "text" | "json" | "hex";

/** Longer values are cut. */
export const SHOWN_BYTES_MAX = 64 << 10;
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

/** JSON with line breaks; null for other text, and for a bare number or word, which gains nothing. */
export function prettyJsonOf(text: string): string | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
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

/** A name of any bytes in one line: text where it is UTF-8 without control characters, else escapes. */
export function nameText(bytes: Uint8Array): string {
  const text = utf8Of(bytes);
  if (text !== null && !/\p{C}/u.test(text)) return text === "" ? "(empty)" : text;
  return Array.from(bytes, (byte) =>
    byte > 0x20 && byte < 0x7f && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, "0")}`,
  ).join("");
}

/** The forms that a value has, the most telling first. */
export function formsOf(bytes: Uint8Array): readonly ValueForm[] {
  const text = utf8Of(bytes);
  if (text === null) return ["hex"];
  return prettyJsonOf(text) === null ? ["text", "hex"] : ["json", "text", "hex"];
}

/** A value in one of its forms, cut if it is long. */
export function valueIn(form: ValueForm, bytes: Uint8Array): string {
  if (form === "hex") return hexOf(bytes.subarray(0, SHOWN_BYTES_MAX));
  const text = utf8Of(bytes) ?? "";
  return (form === "json" ? (prettyJsonOf(text) ?? text) : text).slice(0, SHOWN_BYTES_MAX);
}
