/**
 * Values in the text format of Cap'n Proto.
 *
 * Source: https://capnproto.org/language.html, "Constants"; the lexer takes the escapes of C.
 */

/** A value: structs are objects, whose undefined fields are left out. */
export type CapnpValue =
  | string
  | boolean
  | Embedded
  | readonly CapnpValue[]
  | { readonly [field: string]: CapnpValue | undefined };

/** The contents of a file, by its path below the import path, which begins with a slash. */
export class Embedded {
  /** Path below the import path, with a slash in front. */
  readonly fileName: string;

  constructor(fileName: string) {
    this.fileName = fileName;
  }
}

const encoder = new TextEncoder();

/** Text that is a value; what could mean something else than itself stands there as bytes of UTF-8. */
export function capnpText(value: CapnpValue): string {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "boolean") return String(value);
  if (value instanceof Embedded) return `embed ${quoted(value.fileName)}`;
  if (isList(value)) return `[${value.map(capnpText).join(", ")}]`;
  const fields = Object.entries(value)
    .filter((field): field is [string, CapnpValue] => field[1] !== undefined)
    .map(([name, field]) => `${name} = ${capnpText(field)}`);
  return `(${fields.join(", ")})`;
}

/** `Array.isArray` does not narrow readonly arrays by itself. */
const isList = (value: object): value is readonly CapnpValue[] => Array.isArray(value);

/** A text in quotes. All bytes but plain ASCII are escaped, so no text can end the quotes. */
function quoted(text: string): string {
  const characters = Array.from(encoder.encode(text), (byte) => {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    return isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  });
  return `"${characters.join("")}"`;
}
