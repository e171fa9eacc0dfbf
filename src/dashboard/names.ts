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

/** Bytes in a path: letters and digits as they are, all others escaped. */
export const pathOf = (name: Uint8Array): string =>
  Array.from(name, (byte) => {
    const character = String.fromCharCode(byte);
    return /[\w-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");
