/**
 * Removes files of objects that hold nothing.
 *
 * workerd creates a database for each object that reads its storage, and never removes it. Release 0.4 had an object for
 * each channel name, and called Hubs of ids that were made up, so strangers could create any number of such files. They are
 * removed before workerd runs: no process may have them open.
 *
 *     objects/<unique key of the class>/<id>.sqlite, -wal, -shm    an object
 *     objects/<unique key of the class>/metadata.sqlite            alarms of the class, by id
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { UNIQUE_KEYS } from "./configuration.ts";
import { sqlite } from "./sqlite.ts";

/** Classes whose empty objects may go. The file of a shard counts even when empty: it shows how many shards there are. */
const CLASSES = ["Channel", "Hub"];
/** Ends the names of all databases of workerd. */
const SUFFIX = ".sqlite";
/** The database of a class, beside those of its objects. */
const METADATA = "metadata";
/** Tables of workerd. The second has the alarm, as a value that is null when there is none. */
const ALARMS = "_cf_ALARM";
const OWN_METADATA = "_cf_METADATA";

/**
 * Removes the files of objects that hold nothing and have no alarm.
 *
 * @returns how many objects there were
 */
export async function removeEmptyObjects(objectsFolder: string): Promise<number> {
  let removed = 0;
  for (const name of CLASSES) {
    const folder = join(objectsFolder, UNIQUE_KEYS[name]!);
    if (!existsSync(folder)) continue;
    // The database decides: a log without one is left from a crash, and is no object.
    const ids = readdirSync(folder)
      .filter((file) => file.endsWith(SUFFIX))
      .map((file) => file.slice(0, -SUFFIX.length))
      .filter((id) => id !== METADATA);
    if (ids.length > 0) removed += await removeEmpty(folder, ids);
  }
  return removed;
}

/**
 * Removes the empty objects of one class. If the alarms can't be read none is removed: an object
 * with an alarm must stay.
 */
async function removeEmpty(folder: string, ids: readonly string[]): Promise<number> {
  const { DatabaseSync } = await sqlite();
  const open: Open = (path) => new DatabaseSync(path, { readOnly: true });
  const metadata = join(folder, METADATA + SUFFIX);
  const alarms = existsSync(metadata) ? look(open, metadata, alarmsIn) : new Set<string>();
  if (alarms === null) return 0;
  let removed = 0;
  for (const id of ids) {
    const path = join(folder, id + SUFFIX);
    if (alarms.has(id) || look(open, path, isEmpty) !== true) continue;
    // A log without its database is not read; a database without its log may hold what was deleted.
    for (const file of [path, `${path}-wal`, `${path}-shm`]) rmSync(file, { force: true });
    removed++;
  }
  return removed;
}

/** Opens a database for reading only. */
type Open = (path: string) => DatabaseSync;

/**
 * Asks a database; null when it can't be read: such a file is left alone.
 *
 * A database with a log gets 32 KiB of shared memory when it is read, and keeps them: on a full disk many of them would take
 * the space that workerd needs. So they go where they were not there before, and so does the log, which is empty then.
 */
function look<T>(open: Open, path: string, ask: (database: DatabaseSync) => T): T | null {
  const added = [`${path}-wal`, `${path}-shm`].filter((file) => !existsSync(file));
  let database: DatabaseSync | null = null;
  try {
    database = open(path);
    return ask(database);
  } catch {
    return null;
  } finally {
    database?.close();
    for (const file of added) rmSync(file, { force: true });
  }
}

/** Names of all tables, those of workerd included. */
function tablesOf(database: DatabaseSync): string[] {
  const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  return rows.map(({ name }) => String(name));
}

/** Ids of the objects of a class that have an alarm. */
function alarmsIn(database: DatabaseSync): Set<string> {
  if (!tablesOf(database).includes(ALARMS)) return new Set();
  const rows = database.prepare(`SELECT actor_id FROM ${ALARMS}`).all();
  return new Set(rows.map(({ actor_id: id }) => String(id)));
}

/** Whether all tables are empty. */
function isEmpty(database: DatabaseSync): boolean {
  return tablesOf(database).every((table) => {
    const where = table === OWN_METADATA ? "WHERE value IS NOT NULL" : "";
    const name = table.replaceAll('"', '""');
    return database.prepare(`SELECT 1 FROM "${name}" ${where} LIMIT 1`).get() === undefined;
  });
}
