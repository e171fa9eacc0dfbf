/**
 * Adds to TOML. Only the text of an addition is new: comments, order and spaces elsewhere stay.
 *
 * Keys and tables of their own are written here, line by line. Only additions to lists and inline tables are the work of
 * the library, which loses or parts comments when it adds lines. Either way the text is read again before it counts.
 */
import { parse, patch } from "@decimalturn/toml-patch";
import {
  isObject,
  isSameConfig,
  withAddition,
  type Addition,
  type ConfigObject,
  type ConfigValue,
} from "./json.ts";

/** The text with an addition. It must be valid. */
export function withAdditionInToml(text: string, addition: Addition): string {
  const wanted = withAddition(parse(text) as ConfigObject, addition);
  const lines = new Lines(text);
  const written = withTables(lines, addition) ?? withKey(lines, addition);
  return written !== null && isSame(written, wanted) ? written : patch(text, wanted);
}

function isSame(text: string, wanted: ConfigObject): boolean {
  try {
    return isSameConfig(parse(text) as ConfigObject, wanted);
  } catch {
    return false;
  }
}

/** A text by its lines. A line in a text of several lines may look like a header or a key, so the result is parsed again. */
class Lines {
  readonly all: readonly string[];
  readonly #newLine: string;

  constructor(text: string) {
    this.all = text.split(/\r?\n/);
    this.#newLine = text.includes("\r\n") ? "\r\n" : "\n";
  }

  /** The text with other lines in place of some. */
  spliced(at: number, removed: number, added: readonly string[]): string {
    const rest = this.all.slice(at + removed);
    const end = rest.length === 0 ? [""] : rest;
    return [...this.all.slice(0, at), ...added, ...end].join(this.#newLine);
  }

  /** The line behind the last one of a section that is neither empty nor a comment, which may be the next table's. */
  endOf(start: number): number {
    const end = this.#nextHeader(start);
    return start + this.all.slice(start, end).findLastIndex((line) => /^\s*[^#\s]/.test(line)) + 1;
  }

  #nextHeader(start: number): number {
    const at = this.all.slice(start).findIndex((line) => headerOf(line) !== null);
    return at < 0 ? this.all.length : start + at;
  }
}

/** The name in a table's header; null for other lines. */
const headerOf = (line: string): string | null =>
  /^\s*\[\[?\s*([^[\]]*?)\s*\]\]?\s*(?:#.*)?$/.exec(line)?.[1] ?? null;

/** The text with tables behind the last one of their kind, or at the end; null for other additions. */
function withTables(lines: Lines, { path, value }: Addition): string | null {
  const tables = tablesOf(path, value);
  if (tables === null) return null;
  const prefix = path.map(keyText).join(".");
  const last = lines.all.findLastIndex((line) => {
    const name = headerOf(line);
    return name === prefix || name?.startsWith(`${prefix}.`) === true;
  });
  const textEnd = lines.all.findLastIndex((line) => /\S/.test(line)) + 1;
  const at = last < 0 ? textEnd : lines.endOf(last + 1);
  const added = tables.flatMap((table) => ["", ...table]);
  return lines.spliced(at, 0, at === 0 ? added.slice(1) : added);
}

/** The text with a key behind the others of its table, or with a value for one that has none; null for other additions. */
function withKey(lines: Lines, { path, value }: Addition): string | null {
  const table = path.slice(0, -1).map(keyText).join(".");
  const name = keyText(path.at(-1)!);
  const header = lines.all.findIndex((line) => headerOf(line) === table);
  if (header < 0 && table !== "") return null;
  const start = header + 1;
  const end = lines.endOf(start);
  const own = lines.all.slice(start, end).findIndex((line) => keyOf(line) === name);
  if (own < 0) return lines.spliced(end, 0, [`${name} = ${valueText(value)}`]);
  // Of the values that are there, a text is replaced and an empty list filled.
  const known = typeof value === "string" ? /("[^"]*"|'[^']*')/ : /\[\s*\]/;
  const line = lines.all[start + own]!;
  return lines.spliced(start + own, 1, [line.replace(known, () => valueText(value))]);
}

/** The key of a line; null for other lines. */
const keyOf = (line: string): string | null => /^\s*([\w-]+)\s*=/.exec(line)?.[1] ?? null;

/** The lines of each table; null for a value that is no table. */
function tablesOf(path: readonly string[], value: ConfigValue): string[][] | null {
  const header = path.map(keyText).join(".");
  if (Array.isArray(value)) {
    const items = value as readonly ConfigValue[];
    if (!items.every(isObject)) return null;
    return items.map((item) => [`[[${header}]]`, ...linesOf(item)]);
  }
  if (!isObject(value) || !Object.values(value).every(isObject)) return null;
  return Object.entries(value).map(([name, entry]) => {
    return [`[${header}.${keyText(name)}]`, ...linesOf(entry as ConfigObject)];
  });
}

const linesOf = (table: ConfigObject): string[] =>
  Object.entries(table).map(([name, value]) => `${keyText(name)} = ${valueText(value)}`);

function valueText(value: ConfigValue): string {
  if (Array.isArray(value)) return `[${(value as ConfigValue[]).map(valueText).join(", ")}]`;
  return JSON.stringify(value);
}

const keyText = (name: string): string => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));
