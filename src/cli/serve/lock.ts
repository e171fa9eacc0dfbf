/**
 * A lock on a folder, held by this process: the kernel releases it however the process ends.
 *
 * It is the lock of a SQLite database, the only lock on files that Node offers.
 */
import type { DatabaseSync } from "node:sqlite";
import { sqlite } from "./sqlite.ts";

/** A lock that is held. */
export interface Lock {
  release(): void;
}

/** The result code of SQLite when another connection holds the lock. */
const SQLITE_BUSY = 5;
/** Those of a file that is not a database, or that is no longer one. */
const DAMAGED: ReadonlySet<number | undefined> = new Set([11, 26]);

/**
 * Acquires the lock; null when another process holds it.
 *
 * @param path file of the lock; created if it is missing
 * @throws UsageError `node_old` before Node 22.13; an Error that names the file when it is damaged, or the system refuses
 */
export async function tryLock(path: string): Promise<Lock | null> {
  const { DatabaseSync } = await sqlite();
  try {
    return lockOf(new DatabaseSync(path));
  } catch (error) {
    const { errcode, message } = error as Error & { errcode?: number };
    if (errcode === SQLITE_BUSY) return null;
    const wayOut = DAMAGED.has(errcode) ? "; it may be removed while no server runs" : "";
    throw new Error(`${path}: ${message}${wayOut}`, { cause: error });
  }
}

/** Locks a database, or closes it. */
function lockOf(database: DatabaseSync): Lock {
  try {
    // Nothing is ever written, so no journal is needed beside the file.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    throw error;
  }
}
