/**
 * The SQLite database of one object, in memory. Each turn that is not durable yet is a savepoint within those before it, so that
 * a crash can keep any number of the first ones; when all are durable, none is left. Statements are prepared once for each text.
 */
import {
  DatabaseSync,
  type SQLInputValue,
  type SQLOutputValue,
  type StatementSync,
} from "node:sqlite";
import { WRONG_BINDINGS, sqlError } from "./errors.ts";
import { shapeOf, withoutQuotes, type Kind, type Shape } from "./shape.ts";

/** The platform's limits. A value or row of 2 MB is the documented one: workerd on a developer's machine takes more. */
const LIMITS = {
  length: 2_000_000,
  sqlLength: 100_000,
  column: 100,
  exprDepth: 100,
  compoundSelect: 5,
  functionArg: 32,
  attach: 0,
  likePatternLength: 50,
  variableNumber: 100,
  triggerDepth: 10,
};
/** Statements of one text each; more are few workloads' own. */
const STATEMENTS_MAX = 128;

export type Row = readonly SQLOutputValue[];

export interface Prepared {
  readonly statement: StatementSync;
  readonly text: string;
  readonly shape: Shape;
  /** Empty for what returns no rows. */
  readonly columnNames: string[];
  /** Rows that are billed for each that changes; found with the first change. */
  rowsPerChange: number | null;
}

export interface Outcome {
  readonly columnNames: string[];
  readonly rows: Row[];
  readonly rowsWritten: number;
}

/** What Node 24.21 has, and its types of now lack. */
type Copyable = DatabaseSync & {
  serialize(): Uint8Array;
  deserialize(image: Uint8Array): void;
};

const NO_ROWS: Row[] = [];

export class Database {
  readonly #sqlite = new DatabaseSync(":memory:", { limits: LIMITS } as object);
  readonly #statements = new Map<string, Prepared>();
  readonly #own = new Map<string, StatementSync>();
  /** Savepoints that are open. */
  depth = 0;
  /** The tables have foreign keys, which a commit may violate. */
  hasReferences = false;

  /** A database with the content of another one, what is not durable included. */
  static copyOf(other: Database): Database {
    const copy = new Database();
    (copy.#sqlite as Copyable).deserialize((other.#sqlite as Copyable).serialize());
    copy.hasReferences = other.hasReferences;
    return copy;
  }

  close(): void {
    this.#sqlite.close();
  }

  /** Pages that are in use, in bytes. */
  get bytes(): number {
    const [row] = this.ownRows(
      "SELECT (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)",
    );
    // The platform counts a page even where there is none.
    return Math.max(1, Number(row![0])) * 4096;
  }

  /** Opens a savepoint. */
  begin(): void {
    this.own("SAVEPOINT turn").run();
    this.depth++;
  }

  /** Merges the innermost savepoint with the one around it. */
  merge(): void {
    this.own("RELEASE turn").run();
    this.depth--;
  }

  /** Undoes what was written since a savepoint was opened, and closes it and all within it. */
  undo(depth: number): void {
    if (this.depth === depth) return;
    while (this.depth > depth) {
      this.own("ROLLBACK TO turn").run();
      this.merge();
    }
    this.#forgetStatements();
  }

  /** Keeps everything that was written. */
  keepAll(): void {
    while (this.depth > 0) this.merge();
  }

  get violatesReferences(): boolean {
    return this.hasReferences && this.ownRows("PRAGMA foreign_key_check").length > 0;
  }

  /** A statement of the platform's own. */
  own(text: string): StatementSync {
    let statement = this.#own.get(text);
    if (statement === undefined) {
      statement = this.#sqlite.prepare(text);
      statement.setReturnArrays(true);
      this.#own.set(text, statement);
    }
    return statement;
  }

  ownRows(text: string, ...bindings: SQLInputValue[]): Row[] {
    return this.own(text).all(...bindings) as unknown as Row[];
  }

  hasTable(name: string): boolean {
    return this.ownRows("SELECT 1 FROM sqlite_master WHERE name = ?", name).length > 0;
  }

  /** Removes all tables, and what belongs to them. */
  clear(): void {
    const tables = this.ownRows(
      "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'table') AND name NOT LIKE 'sqlite_%' ORDER BY type DESC",
    );
    // Tables without their parents are no violation where all go.
    this.#sqlite.exec("PRAGMA defer_foreign_keys = on");
    for (const [type, name] of tables) {
      this.#sqlite.exec(`DROP ${String(type)} IF EXISTS "${String(name).replaceAll('"', '""')}"`);
    }
    this.hasReferences = false;
    this.#forgetStatements();
  }

  /**
   * The first statement of a text.
   *
   * @throws Error for what can't be prepared, as the platform words it
   */
  prepare(text: string): Prepared {
    return this.#statements.get(text) ?? this.#prepareNew(text);
  }

  #prepareNew(text: string): Prepared {
    if (!hasStatement(text)) throw new Error("SQL code did not contain a statement.");
    let prepared: Prepared;
    try {
      const statement = this.#sqlite.prepare(text);
      const shape = shapeOf(this.#sqlite, statement.sourceSQL);
      statement.setReturnArrays(true);
      const columnNames = statement.columns().map(({ name }) => name);
      prepared = { statement, text: statement.sourceSQL, shape, columnNames, rowsPerChange: null };
    } catch (error) {
      throw sqlError(error);
    }
    // A text of more than one statement stands for none of them; a statement that changes the schema rarely comes again.
    if (!isSchema(prepared.shape.kind) && !hasStatement(text.slice(prepared.text.length))) {
      if (this.#statements.size >= STATEMENTS_MAX) this.#statements.clear();
      this.#statements.set(text, prepared);
    }
    return prepared;
  }

  /** @throws Error as the platform words it; what the statement wrote is undone then */
  run(prepared: Prepared, bindings: readonly SQLInputValue[]): Outcome {
    const { shape, columnNames } = prepared;
    if (bindings.length !== shape.parameters) throw new Error(WRONG_BINDINGS);
    try {
      if (isSchema(shape.kind)) return this.#changeSchema(prepared, bindings);
      if (columnNames.length === 0) {
        const { changes } = prepared.statement.run(...bindings);
        return { columnNames, rows: NO_ROWS, rowsWritten: this.#billed(prepared, Number(changes)) };
      }
      const rows = allRows(prepared.statement, bindings);
      const changes = shape.kind === "read" ? 0 : rows.length;
      return { columnNames, rows, rowsWritten: this.#billed(prepared, changes) };
    } catch (error) {
      throw sqlError(error);
    }
  }

  #changeSchema({ statement, shape, text }: Prepared, bindings: readonly SQLInputValue[]): Outcome {
    const entries = this.#schemaEntries();
    const rows = allRows(statement, bindings);
    this.hasReferences ||= shape.hasReference;
    // Prepared statements would be prepared again, and `SELECT *` has other columns.
    this.#forgetStatements();
    const added = this.#schemaEntries() - entries;
    return { columnNames: [], rows, rowsWritten: this.#billedForSchema(text, added) };
  }

  #schemaEntries(): number {
    return Number(this.ownRows("SELECT COUNT(*) FROM sqlite_master")[0]![0]);
  }

  /** As workerd counts: a row for each entry of the schema, and one more; an index also has a row for each of its table. */
  #billedForSchema(text: string, added: number): number {
    if (added < 0) return 0;
    if (added === 0) return /^\s*alter\b/i.test(text) ? 1 : 0;
    const indexed = /^\s*create\s+(?:unique\s+)?index\b[^(]*\bon\s+(\S+?)\s*\(/i.exec(text)?.[1];
    if (indexed === undefined) return added + 1;
    return 1 + Number(this.#sqlite.prepare(`SELECT COUNT(*) AS n FROM ${indexed}`).get()!.n);
  }

  /** As workerd counts: a row for each that changes, and one for each entry of an index that is written. */
  #billed(prepared: Prepared, changes: number): number {
    if (changes === 0) return 0;
    prepared.rowsPerChange ??= 1 + this.#indexesOf(prepared.shape);
    return changes * prepared.rowsPerChange;
  }

  #indexesOf({ kind, table, columns }: Shape): number {
    if (table === null) return 0;
    // A table without row ids is itself the index of its primary key.
    const all =
      "FROM pragma_index_list(?1) AS i WHERE NOT (i.origin = 'pk' AND (SELECT wr FROM pragma_table_list(?1)))";
    if (kind === "insert") return Number(this.ownRows(`SELECT COUNT(*) ${all}`, table)[0]![0]);
    const written =
      "EXISTS (SELECT 1 FROM pragma_index_info(i.name) WHERE name IN (SELECT value FROM json_each(?2)))";
    const [row] = this.ownRows(
      `SELECT COUNT(*) ${all} AND ${written}`,
      table,
      JSON.stringify(columns),
    );
    return Number(row![0]);
  }

  #forgetStatements(): void {
    this.#statements.clear();
  }
}

/** Whether there is more than blanks and comments. */
export const hasStatement = (text: string): boolean => /[^\s;]/.test(withoutQuotes(text));

export const isSchema = (kind: Kind): boolean => kind === "schema" || kind === "drop";

function allRows(statement: StatementSync, bindings: readonly SQLInputValue[]): Row[] {
  try {
    return statement.all(...bindings) as unknown as Row[];
  } catch (error) {
    if ((error as { code?: string }).code !== "ERR_OUT_OF_RANGE") throw error;
    return roundedRows(statement, bindings);
  }
}

/** INTEGERs beyond 2^53, which Node refuses, and the platform rounds. */
function roundedRows(statement: StatementSync, bindings: readonly SQLInputValue[]): Row[] {
  statement.setReadBigInts(true);
  const rows = statement.all(...bindings) as unknown as Row[];
  statement.setReadBigInts(false);
  return rows.map((row) => row.map((value) => (typeof value === "bigint" ? Number(value) : value)));
}
