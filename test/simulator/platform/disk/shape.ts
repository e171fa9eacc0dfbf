/**
 * What a statement does: whether it writes, to which table, and how many parameters it takes. SQLite itself tells, by asking
 * an authorizer when it prepares the statement, which also refuses what the platform refuses. That depends on the text alone,
 * so it is asked once for each text in a process.
 */
import { constants, type DatabaseSync } from "node:sqlite";
import { TRANSACTION_REFUSED } from "./errors.ts";

export type Kind = "read" | "insert" | "update" | "delete" | "drop" | "schema";

export interface Shape {
  readonly kind: Kind;
  /** The one it writes to; null when it writes to none, or changes the schema. */
  readonly table: string | null;
  /** Columns that it updates. */
  readonly columns: readonly string[];
  readonly parameters: number;
  /** It declares a foreign key. */
  readonly hasReference: boolean;
}

/** Prefix of the tables in which the platform keeps what is not the object's SQL. */
const HIDDEN = "_cf_";

const {
  SQLITE_OK,
  SQLITE_DENY,
  SQLITE_INSERT,
  SQLITE_UPDATE,
  SQLITE_DELETE,
  SQLITE_PRAGMA,
  SQLITE_FUNCTION,
} = constants;
const TRANSACTIONS = new Set([constants.SQLITE_TRANSACTION, constants.SQLITE_SAVEPOINT]);
const DROPS = new Set([
  constants.SQLITE_DROP_TABLE,
  constants.SQLITE_DROP_INDEX,
  constants.SQLITE_DROP_TRIGGER,
  constants.SQLITE_DROP_VIEW,
  constants.SQLITE_DROP_VTABLE,
]);
const SCHEMA = new Set([
  constants.SQLITE_CREATE_TABLE,
  constants.SQLITE_CREATE_INDEX,
  constants.SQLITE_CREATE_TRIGGER,
  constants.SQLITE_CREATE_VIEW,
  constants.SQLITE_CREATE_VTABLE,
  constants.SQLITE_ALTER_TABLE,
  constants.SQLITE_REINDEX,
  constants.SQLITE_ANALYZE,
]);
const REFUSED = new Set([
  constants.SQLITE_ATTACH,
  constants.SQLITE_DETACH,
  constants.SQLITE_CREATE_TEMP_TABLE,
  constants.SQLITE_CREATE_TEMP_INDEX,
  constants.SQLITE_CREATE_TEMP_TRIGGER,
  constants.SQLITE_CREATE_TEMP_VIEW,
]);
const REFUSED_FUNCTIONS = new Set(["sqlite_version", "sqlite_source_id", "load_extension"]);
const PRAGMAS = new Set([
  "table_info",
  "table_xinfo",
  "table_list",
  "index_list",
  "index_info",
  "index_xinfo",
  "foreign_key_list",
  "foreign_key_check",
  "quick_check",
  "optimize",
]);

const shapes = new Map<string, Shape>();
/** Texts are as many as the workloads have, but for generations of tables. */
const SHAPES_MAX = 10_000;

/** @throws Error for what the platform refuses, and for what SQLite can't prepare */
export function shapeOf(database: DatabaseSync, text: string): Shape {
  let shape = shapes.get(text);
  if (shape !== undefined) return shape;
  shape = findShape(database, text);
  if (shapes.size >= SHAPES_MAX) shapes.clear();
  shapes.set(text, shape);
  return shape;
}

function findShape(database: DatabaseSync, text: string): Shape {
  let kind: Kind | null = null;
  let table: string | null = null;
  const columns = new Set<string>();
  let isTransaction = false;
  const writeTo = (name: string | null, how: Kind): void => {
    if (kind !== null || name === null || name === "sqlite_master") return;
    kind = how;
    table = name;
  };
  database.setAuthorizer((action, first, second) => {
    isTransaction ||= TRANSACTIONS.has(action);
    if (isTransaction || isRefused(action, first, second)) return SQLITE_DENY;
    if (DROPS.has(action)) kind = "drop";
    else if (SCHEMA.has(action) && kind !== "drop") kind = "schema";
    else if (action === SQLITE_INSERT) writeTo(first, "insert");
    else if (action === SQLITE_DELETE) writeTo(first, "delete");
    else if (action === SQLITE_UPDATE) {
      writeTo(first, "update");
      if (table === first && second !== null) columns.add(second);
    }
    return SQLITE_OK;
  });
  try {
    database.prepare(text);
  } catch (error) {
    throw isTransaction ? new Error(TRANSACTION_REFUSED) : error;
  } finally {
    database.setAuthorizer(null);
  }
  const bare = withoutQuotes(text);
  return {
    kind: kind ?? kindOf(bare),
    table: kind === "drop" || kind === "schema" ? null : table,
    columns: [...columns],
    parameters: countParameters(bare),
    hasReference: /\breferences\b/i.test(bare),
  };
}

function isRefused(action: number, first: string | null, second: string | null): boolean {
  if (action === SQLITE_PRAGMA) return !PRAGMAS.has(first ?? "");
  if (action === SQLITE_FUNCTION) return REFUSED_FUNCTIONS.has(second ?? "");
  return REFUSED.has(action) || (first?.startsWith(HIDDEN) ?? false);
}

/** Of a statement that SQLite asked nothing about: one that changes nothing, or finds nothing to change today. */
function kindOf(bare: string): Kind {
  if (/^[\s;]*(select|values|with|explain|pragma)\b/i.test(bare)) return "read";
  return /^[\s;]*drop\b/i.test(bare) ? "drop" : "schema";
}

/** The text with nothing in place of strings, quoted names and comments. */
export function withoutQuotes(text: string): string {
  return text.replaceAll(/'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?\*\//g, " ");
}

function countParameters(bare: string): number {
  const names = new Set<string>();
  let highest = 0;
  for (const [name] of bare.matchAll(/\?\d*|[:@$]\w+/g)) {
    if (/^\?\d/.test(name)) highest = Math.max(highest, Number(name.slice(1)));
    else if (name === "?" || !names.has(name)) highest++;
    names.add(name);
  }
  return highest;
}
