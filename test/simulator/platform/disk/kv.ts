/** `ctx.storage.kv` of one life: values by structured clone, in a table that SQL of the object can't reach. */
import type { SyncKvListOptions } from "@cloudflare/workers-types";
import { deserialize, serialize } from "node:v8";
import type { Life } from "../life.ts";
import type { Row } from "./database.ts";
import type { Disk } from "./disk.ts";

const TABLE = "_cf_KV";
/** The documented limit; workerd on a developer's machine takes longer ones. */
const KEY_BYTES_MAX = 2048;
/** Of key and value together, as documented. */
const ROW_BYTES_MAX = 2_000_000;
const LIST_ENDED =
  "kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.";

export class Kv {
  readonly #disk: Disk;
  readonly #life: Life;
  /** Calls of `list` so far: the last one's iterator alone goes on. */
  #lists = 0;

  constructor(disk: Disk, life: Life) {
    this.#disk = disk;
    this.#life = life;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as in the platform's types
  get<T = unknown>(key: string): T | undefined {
    this.#life.call("kv.get");
    if (!this.#disk.database.hasTable(TABLE)) return undefined;
    const [row] = this.#disk.database.ownRows(`SELECT value FROM ${TABLE} WHERE key = ?`, key);
    return row === undefined ? undefined : (valueOf(row[0]) as T);
  }

  put(key: string, value: unknown): void {
    this.#life.call("kv.put");
    const bytes = serialize(value);
    requireFit(key, bytes.length);
    this.#disk.beginWrite("kv.put");
    this.#disk.requireRoom(key.length + bytes.length);
    const { database } = this.#disk;
    database
      .own(`CREATE TABLE IF NOT EXISTS ${TABLE} (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID`)
      .run();
    database.own(`INSERT OR REPLACE INTO ${TABLE} VALUES (?, ?)`).run(key, bytes);
  }

  /** True when there was a value. */
  delete(key: string): boolean {
    this.#life.call("kv.delete");
    if (!this.#disk.database.hasTable(TABLE)) return false;
    this.#disk.beginWrite("kv.delete");
    return this.#disk.database.own(`DELETE FROM ${TABLE} WHERE key = ?`).run(key).changes !== 0;
  }

  /** In the order of the keys' UTF-8 bytes. */
  list<T = unknown>(options: SyncKvListOptions = {}): Generator<[string, T], undefined> {
    this.#life.call("kv.list");
    requireValid(options);
    return this.#iterate<T>(this.#rows(options), ++this.#lists);
  }

  *#iterate<T>(rows: readonly Row[], list: number): Generator<[string, T], undefined> {
    for (const [key, value] of rows) {
      if (list !== this.#lists) throw new Error(LIST_ENDED);
      yield [key as string, valueOf(value) as T];
    }
  }

  #rows({ start, startAfter, end, prefix, reverse, limit }: SyncKvListOptions): Row[] {
    if (!this.#disk.database.hasTable(TABLE)) return [];
    const order = reverse === true ? "DESC" : "ASC";
    return this.#disk.database.ownRows(
      `SELECT key, value FROM ${TABLE}
       WHERE (?1 IS NULL OR key >= ?1) AND (?2 IS NULL OR key > ?2) AND (?3 IS NULL OR key < ?3)
         AND substr(key, 1, length(?4)) = ?4
       ORDER BY key ${order} LIMIT ?5`,
      start ?? null,
      startAfter ?? null,
      end ?? null,
      prefix ?? "",
      limit ?? -1,
    );
  }
}

function valueOf(bytes: Row[number] | undefined): unknown {
  return deserialize(bytes as Uint8Array);
}

function requireFit(key: string, valueBytes: number): void {
  const keyBytes = Buffer.byteLength(key);
  if (keyBytes > KEY_BYTES_MAX) {
    throw new RangeError(`Keys cannot be larger than ${KEY_BYTES_MAX} bytes.`);
  }
  if (keyBytes + valueBytes > ROW_BYTES_MAX) {
    throw new Error("string or blob too big: SQLITE_TOOBIG");
  }
}

function requireValid({ start, startAfter, limit }: SyncKvListOptions): void {
  if (start !== undefined && startAfter !== undefined) {
    throw new TypeError("list() cannot be called with both start and startAfter values.");
  }
  if (limit !== undefined && !(limit > 0)) throw new TypeError("List limit must be positive.");
}
