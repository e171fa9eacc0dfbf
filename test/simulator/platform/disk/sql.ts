/** `ctx.storage.sql` of one life. */
import type { SqlStorageCursor, SqlStorageValue } from "@cloudflare/workers-types";
import type { SQLInputValue } from "node:sqlite";
import type { Life } from "../life.ts";
import { Cursor } from "./cursor.ts";
import { hasStatement, type Prepared } from "./database.ts";
import type { Disk } from "./disk.ts";
import { LOCKED } from "./errors.ts";
import { stepOf } from "./steps.ts";

export class Sql {
  readonly #disk: Disk;
  readonly #life: Life;
  /** Cursors with rows that were not read when it was last looked. */
  #unread: Cursor<Record<string, SqlStorageValue>>[] = [];

  constructor(disk: Disk, life: Life) {
    this.#disk = disk;
    this.#life = life;
  }

  get databaseSize(): number {
    this.#life.call("sql.databaseSize");
    return this.#disk.database.bytes;
  }

  /** One crash point, however many statements the text has. */
  exec<T extends Record<string, SqlStorageValue>>(
    query: string,
    ...bindings: unknown[]
  ): SqlStorageCursor<T> {
    this.#life.call(`sql.exec ${stepOf(query)}`);
    const bound = bindings.map(toInput);
    let rest = query;
    for (;;) {
      const prepared = this.#disk.database.prepare(rest);
      rest = rest.slice(prepared.text.length);
      if (rest === "" || !hasStatement(rest)) return this.#run<T>(prepared, bound);
      if (prepared.shape.parameters > 0) {
        throw new Error(
          "When executing multiple SQL statements in a single call, only the last statement can have parameters.",
        );
      }
      this.#run(prepared, []);
    }
  }

  /** The database was deleted: what was not read never is. */
  cancelCursors(): void {
    for (const cursor of this.#unread) {
      cursor.cancel("SQLite query was canceled because the database was deleted.");
    }
    this.#unread = [];
  }

  #run<T extends Record<string, SqlStorageValue>>(
    prepared: Prepared,
    bindings: SQLInputValue[],
  ): Cursor<T> {
    const { kind } = prepared.shape;
    if (kind === "drop") this.#requireAllRead();
    if (kind !== "read") this.#disk.beginWrite(stepOf(prepared.text));
    if (kind === "insert" || kind === "update" || kind === "schema") {
      this.#disk.requireRoom(bytesOf(bindings));
    }
    const cursor = new Cursor<T>(this.#disk.database.run(prepared, bindings));
    if (kind !== "read") this.#disk.noteWritten(cursor.rowsWritten, bytesOf(bindings));
    if (cursor.hasUnread && kind === "read") this.#keep(cursor);
    return cursor;
  }

  #keep(cursor: Cursor<Record<string, SqlStorageValue>>): void {
    // Most have been read since.
    if (this.#unread.length > 0) this.#unread = this.#unread.filter(({ hasUnread }) => hasUnread);
    this.#unread.push(cursor);
  }

  /** SQLite drops nothing while a statement is under way. */
  #requireAllRead(): void {
    if (this.#unread.some(({ hasUnread }) => hasUnread)) throw new Error(LOCKED);
  }
}

/** As the platform takes bindings: what is neither text, number nor bytes becomes its text. */
function toInput(value: unknown): SQLInputValue {
  if (typeof value === "number" || typeof value === "string") return value;
  if (value === null || value === undefined) return null;
  if (ArrayBuffer.isView(value)) return value as Uint8Array;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (typeof value === "bigint") throw new TypeError("Cannot convert a BigInt value to a number");
  return String(value as boolean);
}

function bytesOf(bindings: readonly SQLInputValue[]): number {
  let bytes = 0;
  for (const value of bindings) {
    if (typeof value === "string") bytes += value.length;
    else if (ArrayBuffer.isView(value)) bytes += value.byteLength;
  }
  return bytes;
}
