/**
 * A lock on a folder, held by this process: the kernel releases it however the process ends.
 *
 * It is the lock of a SQLite database, the only lock on files that Node offers.
 */
import { sqlite } from "./sqlite.ts";

/** A lock that is held. */
export interface Lock {
  release(): void;
}

/**
 * Acquires the lock; null when another process holds it.
 *
 * @param path file of the lock; created if it is missing
 * @throws UsageError `node_old` before Node 22.13
 */
export async function tryLock(path: string): Promise<Lock | null> {
  const { DatabaseSync } = await sqlite();
  const database = new DatabaseSync(path);
  try {
    // Nothing is ever written, so no journal is needed beside the file.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null;
    throw error;
  }
}

/** The result code of SQLite when another connection holds the lock. */
const SQLITE_BUSY = 5;
