/** The one row of the table `shard`, which says what generation is in force, and what the data was written under. */
import type { HashKey } from "../../engine/hash.ts";
import { SPLIT_COLUMNS, type SplitColumns } from "./split-rows.ts";

// Two u32, little-endian.
const HASH_KEY_BYTES = 8;
/** What a cell of a row can have. */
export type SqlValue = ArrayBuffer | string | number | null;

/** The rows that a statement gives, which are read while they are iterated. */
export interface SqlRows<Row> extends Iterable<Row> {
  /** The only row. */
  one(): Row;
  toArray(): Row[];
  /** Rows that the statement has written, as they are billed. */
  readonly rowsWritten: number;
}

/** SQLite of the object, as the journal uses it: tests have one without the platform. */
export interface Sql {
  exec<Row extends Record<string, SqlValue>>(query: string, ...bindings: unknown[]): SqlRows<Row>;
}

/** The one row of the table `shard`. Data of releases before 0.5.0 lacks the columns that may be absent. */
export type ShardRow = SplitColumns & {
  format: number;
  shards: number;
  fingerprint: number;
  generation: number;
  /** Seed of the hash that orders the table, so that places in that order outlive a restart. */
  hash_key?: ArrayBuffer | null;
  /** 1 when shard 0 has a note of this shard's data. */
  is_noted?: number | null;
  /** Of shard 0: a bit for each shard that has data. */
  noted_shards?: ArrayBuffer | null;
  /** Of shard 0: 1 when the deployment lists the namespace. */
  is_registered?: number | null;
  /** Of shard 0: 1 when the witness knows of data outside of it. */
  is_witnessed?: number | null;
  /** `StoredCounts` of the journals that were cut. */
  counts?: ArrayBuffer | null;
};

/** Later columns: SQL that adds them to data of releases before 0.5.0. */
export const LATER_COLUMNS = [
  "hash_key BLOB",
  "is_noted INTEGER",
  "noted_shards BLOB",
  "is_registered INTEGER",
  "is_witnessed INTEGER",
  "counts BLOB",
  ...SPLIT_COLUMNS,
];

/** Reads the seed that a shard's data is stored with; null when it has none yet. */
export function readHashKey(sql: Sql): HashKey | null {
  const bytes = readShardRow(sql)?.hash_key;
  if (!(bytes instanceof ArrayBuffer) || bytes.byteLength !== HASH_KEY_BYTES) return null;
  const view = new DataView(bytes);
  return { low: view.getUint32(0, true), high: view.getUint32(4, true) };
}

/** Null before first use: on a full disk release 0.4.0 could create the table of a new shard without its row. */
export function readShardRow(sql: Sql): ShardRow | null {
  if (!hasTable(sql, "shard")) return null;
  return sql.exec<ShardRow>("SELECT * FROM shard").toArray()[0] ?? null;
}

export function hasTable(sql: Sql, name: string): boolean {
  const found = sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name);
  return found.toArray().length > 0;
}

/** A seed as it is stored. */
export function hashKeyBytes({ low, high }: HashKey): ArrayBuffer {
  const bytes = new ArrayBuffer(HASH_KEY_BYTES);
  const view = new DataView(bytes);
  view.setUint32(0, low, true);
  view.setUint32(4, high, true);
  return bytes;
}

/** A seed that no caller knows: names can't be chosen so that they all collide. */
export function randomHashKey(): HashKey {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return { low: low!, high: high! };
}
