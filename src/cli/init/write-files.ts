/** Writes files whole: drafts first, then all of them take their places. */
import { chmodSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../failure.ts";
import { createFolder, projectText } from "../files.ts";

/** A file, as it was read and as it shall be. */
export interface FileChange {
  readonly path: string;
  /** Null for a file that is new. */
  readonly before: string | null;
  readonly after: string;
}

/**
 * Writes files, or none of them. A file that an editor has open sees a new file, never half of one.
 *
 * @throws UsageError `file_changed` when one is no longer as it was read; `file_unreadable`, `file_unwritable` when the system
 *   refuses
 */
export function writeFiles(changes: readonly FileChange[]): void {
  const changed = changes.find(({ path, before }) => projectText(path) !== before);
  if (changed !== undefined) {
    throw new UsageError("file_changed", `${changed.path} changed meanwhile: start again`);
  }
  const drafts: { draft: string; target: string }[] = [];
  try {
    for (const { path, before, after } of changes) {
      createFolder(dirname(path));
      // The file that a link leads to: the link itself stays.
      const target = before === null ? path : realpathSync(path);
      const draft = `${target}.${process.pid}.new`;
      drafts.push({ draft, target });
      writeFileSync(draft, after, { flag: "wx", flush: true });
      if (before !== null) chmodSync(draft, statSync(target).mode);
    }
    for (const { draft, target } of drafts) renameSync(draft, target);
  } catch (error) {
    throw new UsageError("file_unwritable", (error as Error).message);
  } finally {
    for (const { draft } of drafts) rmSync(draft, { force: true });
  }
}
