/**
 * Export and import of all namespaces: a file for each in a folder, by name.
 *
 * Each namespace is transferred as if it were the only one, so that its file can be imported alone, and a transfer that
 * was interrupted can be resumed: files that are complete are kept.
 */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { NAMESPACE } from "../../base/names.ts";
import { namespacePages } from "../commands/namespaces.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { createFolder } from "../files.ts";
import type { Invocation } from "../invocation.ts";
import { pagesOf } from "../pages.ts";
import { ProgressFile } from "./progress-file.ts";

/** What the name of a namespace's file ends in. A name may be `..`, and is a plain file name with it. */
const ENDING = ".jsonl";

/** Transfers one namespace from or to a file. */
type Transfer = (invocation: Invocation, file: string) => Promise<ExitCode>;

/** Which import of a folder it is. */
interface ImportKind {
  readonly resume?: boolean;
  readonly dryRun?: boolean;
}

/** Exports all namespaces of the deployment into a folder. The first failure ends it. */
export async function exportEach(
  invocation: Invocation,
  folder: string,
  transfer: Transfer,
): Promise<ExitCode> {
  try {
    createFolder(folder);
  } catch (error) {
    throw new UsageError("file_unwritable", `${folder}: ${(error as Error).message}`);
  }
  const files = new OwnFiles();
  for await (const rows of pagesOf(Infinity, namespacePages(invocation))) {
    for (const { name } of rows) {
      const file = join(folder, name + ENDING);
      await files.add(name, file);
      await transfer(invocation.inNamespace(name), file);
    }
  }
  return ExitCode.done;
}

/** The files of an export by namespace: `shop` and `Shop` have one file where the file system ignores case. */
export class OwnFiles {
  /** Files by the names of namespaces in lower case. */
  readonly #written = new Map<string, string>();

  /** Refuses a file that another namespace was written to. @throws UsageError `file_exists` */
  async add(namespace: string, file: string): Promise<void> {
    const other = this.#written.get(namespace.toLowerCase());
    this.#written.set(namespace.toLowerCase(), file);
    if (other === undefined || !(await isSameFile(other, file))) return;
    throw new UsageError(
      "file_exists",
      `${file} is also ${other}, as this file system ignores case: export ${namespace} with --namespace and --out`,
    );
  }
}

/** Whether two paths lead to one file. */
async function isSameFile(one: string, other: string): Promise<boolean> {
  const identity = await identityOf(one);
  return identity !== null && identity === (await identityOf(other));
}

/** Device and number of a file; null if it is missing. */
async function identityOf(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found === null ? null : `${found.dev}/${found.ino}`;
}

/**
 * Imports all files of such a folder, each into its namespace. Returns the exit code of the last one that is not 0.
 *
 * The progress of each file stays until the last one is done: a resumed import passes over files that are complete.
 */
export async function importEach(
  invocation: Invocation,
  folder: string,
  transfer: Transfer,
  { resume, dryRun }: ImportKind,
): Promise<ExitCode> {
  const names = await namesIn(folder);
  const forget = async (): Promise<void> => {
    if (dryRun === true) return;
    for (const name of names) {
      const file = join(folder, name + ENDING);
      await new ProgressFile(file, (text) => invocation.output.note(text)).remove();
    }
  };
  // An import that starts over must not leave the progress of an earlier one to the next `--resume`.
  if (resume !== true) await forget();
  let exitCode: ExitCode = ExitCode.done;
  for (const name of names) {
    const ended = await transfer(invocation.inNamespace(name), join(folder, name + ENDING));
    if (ended !== ExitCode.done) exitCode = ended;
  }
  await forget();
  return exitCode;
}

/** The namespaces that have a file in a folder, in their order. */
async function namesIn(folder: string): Promise<string[]> {
  let files: string[];
  try {
    files = await readdir(folder);
  } catch (error) {
    throw new UsageError("file_unreadable", `${folder}: ${(error as Error).message}`);
  }
  const names = files
    .filter((file) => file.endsWith(ENDING))
    .map((file) => file.slice(0, -ENDING.length))
    .filter((name) => NAMESPACE.test(name));
  if (names.length > 0) return names.toSorted();
  throw new UsageError("file_invalid", `${folder}: expected files such as shop${ENDING}`);
}
