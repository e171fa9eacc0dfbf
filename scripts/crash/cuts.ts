/**
 * Cuts of the shards' journals, seen in the files that a killed server has left.
 *
 * Only a copy is opened: opening repairs a database, and that is the part of the server that is tested.
 */
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const DATABASE_SUFFIX = ".sqlite";
/** The platform's own. */
const METADATA = "metadata.sqlite";

export interface Cuts {
  /** Cuts that were completed since the files were new, all shards together. */
  readonly completed: number;
  /** Shards whose cut was under way. */
  readonly underWay: number;
  /** Shards that have data. */
  readonly shards: number;
}

/**
 * @param shardsFolder databases that no server works on at present
 * @param copyFolder where there is room for a copy; removed afterwards
 */
export function inspectCuts(shardsFolder: string, copyFolder: string): Cuts {
  cpSync(shardsFolder, copyFolder, { recursive: true });
  try {
    const shards = readdirSync(copyFolder)
      .filter((name) => name.endsWith(DATABASE_SUFFIX) && name !== METADATA)
      .map((name) => inspectShard(join(copyFolder, name)));
    return {
      completed: shards.reduce((sum, { generation }) => sum + (generation ?? 0), 0),
      underWay: shards.filter(({ isUnderWay }) => isUnderWay).length,
      shards: shards.filter(({ generation }) => generation !== null).length,
    };
  } finally {
    rmSync(copyFolder, { recursive: true });
  }
}

/** A cut opens the journal of the next generation, and ends by naming that one; the first is 0. */
function inspectShard(path: string): { generation: number | null; isUnderWay: boolean } {
  const database = new DatabaseSync(path);
  try {
    // Of a shard that was killed before its first row, or that was offered a range in vain.
    const hasData = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'shard'").get();
    if (hasData === undefined) return { generation: null, isUnderWay: false };
    const generation = Number(database.prepare("SELECT generation FROM shard").get()?.generation);
    const next = database.prepare("SELECT 1 FROM sqlite_master WHERE name = ?");
    return { generation, isUnderWay: next.get(`journal_${generation + 1}`) !== undefined };
  } finally {
    database.close();
  }
}
