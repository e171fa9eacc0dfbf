/** SQLite as Node has it: for the lock of the data folder, and to look into the files of objects. */
import type * as Sqlite from "node:sqlite";
import { UsageError } from "../failure.ts";

/**
 * The module. Node 22 warns with its first use that it may change, which is no news for users of `serve`.
 *
 * @throws UsageError `node_old` before Node 22.13
 */
export async function sqlite(): Promise<typeof Sqlite> {
  const emitWarning = process.emitWarning.bind(process);
  // The warning comes while the module loads, and no option of Node silences it for one module.
  process.emitWarning = () => {};
  try {
    return await import("node:sqlite");
  } catch {
    throw new UsageError(
      "node_old",
      `serve needs Node 22.13 or newer, which has node:sqlite; this is ${process.version}: \`npm install node@24\` gives npx a newer one in its folder`,
    );
  } finally {
    process.emitWarning = emitWarning;
  }
}
