/**
 * A lock on a folder, held by this process: the kernel lets go of it however the process ends.
 *
 * It is that of a SQLite database, which is the one lock on files that Node has.
 */
import { sqlite } from "./sqlite.ts";

export interface Lock {
  release(): void;
}

/**
 * Takes the lock; null when another process has it.
 *
 * @param path file of the lock; made where it isn't there
 * @throws UsageError `node_old` before Node 22.13
 */
export async function tryLock(path: string): Promise<Lock | null> {
  const { DatabaseSync } = await sqlite();
  const database = new DatabaseSync(path);
  try {
    // Nothing is ever written, so there need not be a journal beside the file.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return null;
    throw error;
  }
}

const SQLITE_BUSY = 5;
