/** Names of any bytes, as the JSON door says them and takes them. */

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
  const escaped = escapedName(name);
  if (!/^(?:|%2e|%2e%2e)$/.test(escaped)) return before + escaped + after;
  const parameter = `${field}=${escaped}`;
  return `${before}-${after}${after.includes("?") ? "&" : "?"}${parameter}`;
}

/** Letters and digits as they are, all other bytes escaped. */
const escapedName = (name: Uint8Array): string =>
  Array.from(name, (byte) => {
    const character = String.fromCharCode(byte);
    return /[\w-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");
