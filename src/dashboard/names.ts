/**
 * Names of any bytes (keys, channels, semaphores) in JSON, in paths and in the address of the dashboard.
 */

/** A field as text where it is UTF-8, else in base64 under a name of its own. */
export type NameFields<Name extends string> = {
  readonly [field in Name | `${Name}Base64`]?: string;
};

const encoder = new TextEncoder();

/** The bytes of such a field. */
export function bytesOfName<Name extends string>(
  fields: NameFields<Name>,
  name: Name,
): Uint8Array<ArrayBuffer> {
  const text = fields[name];
  if (text !== undefined) return encoder.encode(text);
  const base64 = fields[`${name}Base64`] ?? "";
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/**
 * The path of what belongs to a name. A name that can't stand in a path, as browsers take `.` and `..` out of it, is in
 * the query.
 *
 * @param before the name, `/v1/semaphores/`
 * @param after the name, `/holders?limit=50`
 */
export function pathOf(
  before: string,
  field: string,
  name: Uint8Array,
  after: string = "",
): string {
  const escaped = escapedBytes(name);
  if (!/^(?:|%2e|%2e%2e)$/.test(escaped)) return before + escaped + after;
  const parameter = `${field}=${escaped}`;
  return `${before}-${after}${after.includes("?") ? "&" : "?"}${parameter}`;
}

/** Letters, digits, `_` and `-` as they are, all other bytes escaped. */
export const escapedBytes = (name: Uint8Array): string =>
  Array.from(name, (byte) => {
    const character = String.fromCharCode(byte);
    return /[\w-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");

/** The bytes of an escaped text. A character that should have been escaped stands for its UTF-8. */
export function bytesOfEscaped(text: string): Uint8Array<ArrayBuffer> {
  const bytes: number[] = [];
  for (const [part] of text.matchAll(/%[\da-fA-F]{2}|[^]/gu)) {
    if (part.length === 3 && part.startsWith("%")) bytes.push(Number.parseInt(part.slice(1), 16));
    else bytes.push(...encoder.encode(part));
  }
  return Uint8Array.from(bytes);
}
