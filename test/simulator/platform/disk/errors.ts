/** Errors of storage in the platform's words. SQLite's own text is kept; Node doesn't tell the offset that the platform adds to some. */

/** Primary result codes that statements can end with. */
const NAMES: Readonly<Record<number, string>> = {
  1: "SQLITE_ERROR",
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  13: "SQLITE_FULL",
  18: "SQLITE_TOOBIG",
  19: "SQLITE_CONSTRAINT",
  20: "SQLITE_MISMATCH",
  23: "SQLITE_AUTH",
};

/** Extended result codes of constraints, which the platform names, too. */
const CONSTRAINTS: Readonly<Record<number, string>> = {
  275: "SQLITE_CONSTRAINT_CHECK",
  787: "SQLITE_CONSTRAINT_FOREIGNKEY",
  1299: "SQLITE_CONSTRAINT_NOTNULL",
  1555: "SQLITE_CONSTRAINT_PRIMARYKEY",
  2067: "SQLITE_CONSTRAINT_UNIQUE",
  2579: "SQLITE_CONSTRAINT_ROWID",
  3091: "SQLITE_CONSTRAINT_DATATYPE",
};

export const TRANSACTION_REFUSED =
  "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript API is safer because it will automatically roll back on exceptions, and because it interacts correctly with Durable Objects' automatic atomic write coalescing.";
/** Callers see it, too, when SQLite has given up the turn for it. */
export const FULL = "database or disk is full: SQLITE_FULL";
export const LOCKED = "database table is locked: SQLITE_LOCKED";
export const WRONG_BINDINGS = "Wrong number of parameter bindings for SQL query.";

/** Callers see it when a commit has failed for reasons of the platform. */
export const COMMIT_FAILED = "Internal error in Durable Object storage caused object to be reset.";
/** Callers see it when a turn has ended with a foreign key that leads nowhere. */
export const FOREIGN_KEY_VIOLATED =
  "Durable Object was reset and rolled back to its last known good state because the application left the database in a state where constraints were violated: FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)";
/** What Node throws for a statement, in the platform's words; other errors stay as they are. */
export function sqlError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code, errcode } = error as { code?: string; errcode?: number };
  if (code !== "ERR_SQLITE_ERROR" || errcode === undefined) return error;
  const extended = CONSTRAINTS[errcode];
  const suffix = extended === undefined ? "" : ` (extended: ${extended})`;
  return new Error(`${error.message}: ${NAMES[errcode & 0xff] ?? "SQLITE_ERROR"}${suffix}`);
}
