/**
 * The rows that a statement has returned. Unlike the platform's, which steps the statement as rows are read, all rows are there
 * from the start, so a write meanwhile changes none of them. Rows that are left unread lock the schema, as they do there.
 */
import type { SqlStorageCursor, SqlStorageValue } from "@cloudflare/workers-types";
import type { Outcome, Row } from "./database.ts";

type Values = Record<string, SqlStorageValue>;

export class Cursor<T extends Values> implements SqlStorageCursor<T> {
  readonly columnNames: string[];
  readonly rowsWritten: number;
  readonly #rows: readonly Row[];
  #at = 0;
  #canceled: string | null = null;

  constructor({ columnNames, rows, rowsWritten }: Outcome) {
    this.columnNames = columnNames;
    this.rowsWritten = rowsWritten;
    this.#rows = rows;
  }

  /** Rows that were read by the caller. The platform counts those that SQLite has looked at, which Node doesn't tell. */
  get rowsRead(): number {
    return this.#at;
  }

  get hasUnread(): boolean {
    return this.#at < this.#rows.length;
  }

  /** Its next row is an error. */
  cancel(reason: string): void {
    this.#canceled = reason;
  }

  next(): IteratorResult<T, undefined> {
    const row = this.#take();
    return row === undefined
      ? { done: true, value: undefined }
      : { done: false, value: this.#named(row) };
  }

  toArray(): T[] {
    const rows: T[] = [];
    for (let row = this.#take(); row !== undefined; row = this.#take()) rows.push(this.#named(row));
    return rows;
  }

  one(): T {
    const row = this.#take();
    const expected = "Expected exactly one result from SQL query, but got";
    if (row === undefined) throw new Error(`${expected} no results.`);
    if (this.hasUnread) {
      this.#at = this.#rows.length;
      throw new Error(`${expected} multiple results.`);
    }
    return this.#named(row);
  }

  *raw<U extends SqlStorageValue[]>(): Generator<U, undefined> {
    for (let row = this.#take(); row !== undefined; row = this.#take()) yield row.map(valueOf) as U;
  }

  *[Symbol.iterator](): Generator<T, undefined> {
    for (let row = this.#take(); row !== undefined; row = this.#take()) yield this.#named(row);
  }

  #take(): Row | undefined {
    if (this.#canceled !== null) throw new Error(this.#canceled);
    const row = this.#rows[this.#at];
    if (row !== undefined) this.#at++;
    return row;
  }

  #named(row: Row): T {
    const named: Values = {};
    for (let i = 0; i < row.length; i++) named[this.columnNames[i]!] = valueOf(row[i]!);
    return named as T;
  }
}

/** Blobs come as buffers of their own. */
function valueOf(value: Row[number]): SqlStorageValue {
  if (!(value instanceof Uint8Array)) return value as SqlStorageValue;
  const { buffer, byteLength } = value;
  return buffer.byteLength === byteLength ? buffer : value.slice().buffer;
}
