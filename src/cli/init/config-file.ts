/** The wrangler configuration of a project: where it is, what it says, and its text with additions. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parse as parseToml } from "@decimalturn/toml-patch";
import { parse as parseJsonc, printParseErrorCode, type ParseError } from "jsonc-parser";
import { UsageError } from "../failure.ts";
import { projectText } from "../files.ts";
import { withAdditionInJsonc } from "./edit-jsonc.ts";
import { withAdditionInToml } from "./edit-toml.ts";
import { isObject, isSameConfig, withAddition, type Addition, type ConfigObject } from "./json.ts";

/** In the order in which wrangler looks for them. */
const NAMES = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

/** Marks a text as UTF-8; some editors write it. */
const BYTE_ORDER_MARK = "\uFEFF";

const DATE = /\d{4}-\d\d-\d\d/g;

export interface ConfigFile {
  readonly path: string;
  /** As it was read. */
  readonly text: string;
  readonly config: ConfigObject;
}

/** The path of a folder's configuration; null when it has none. */
export function configPathIn(folder: string): string | null {
  return NAMES.map((name) => join(folder, name)).find((path) => existsSync(path)) ?? null;
}

/** Reads a configuration. @throws UsageError `config_missing`, `config_invalid`, `file_unreadable` */
export function readConfig(path: string): ConfigFile {
  const text = projectText(path);
  if (text === null) throw new UsageError("config_missing", `there is no ${path}`);
  return { path, text, config: parsed(path, text.replace(BYTE_ORDER_MARK, "")) };
}

/**
 * The text of a configuration with additions.
 *
 * @throws UsageError `config_invalid` when the text can't be edited without changing anything else
 */
export function textWith(
  { path, text, config }: ConfigFile,
  additions: readonly Addition[],
): string {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : "";
  let edited = text.slice(mark.length);
  let wanted = config;
  for (const addition of additions) {
    edited = isToml(path)
      ? withAdditionInToml(edited, addition)
      : withAdditionInJsonc(edited, addition);
    wanted = withAddition(wanted, addition);
  }
  // The text may be of a kind that the editors do not know. So what they have made must say what was there and what is
  // added, and have all characters of before. Only a compatibility date is ever replaced.
  const isKept = isWithin(text.replaceAll(DATE, ""), mark + edited.replaceAll(DATE, ""));
  if (isKept && isSameConfig(parsed(path, edited), wanted)) return mark + edited;
  throw new UsageError(
    "config_invalid",
    `${path}: cannot be edited without changing more than is needed; add by hand: ${JSON.stringify(additions)}`,
  );
}

/** Whether a text is another one with characters left out. */
function isWithin(part: string, whole: string): boolean {
  let at = 0;
  for (let i = 0; i < whole.length && at < part.length; i++) if (whole[i] === part[at]) at++;
  return at === part.length;
}

const isToml = (path: string): boolean => path.endsWith(".toml");

function parsed(path: string, text: string): ConfigObject {
  const value = isToml(path) ? tomlOf(path, text) : jsoncOf(path, text);
  if (isObject(value)) return value;
  throw new UsageError("config_invalid", `${path}: expected an object`);
}

function tomlOf(path: string, text: string): ConfigObject {
  try {
    return parseToml(text) as ConfigObject;
  } catch (error) {
    throw new UsageError("config_invalid", `${path}: ${(error as Error).message}`);
  }
}

function jsoncOf(path: string, text: string): ConfigObject {
  const errors: ParseError[] = [];
  const value = parseJsonc(text, errors, { allowTrailingComma: true }) as ConfigObject;
  const [first] = errors;
  if (first === undefined) return value;
  const line = text.slice(0, first.offset).split("\n").length;
  throw new UsageError("config_invalid", `${path}:${line}: ${printParseErrorCode(first.error)}`);
}
