/**
 * Export and import of all namespaces: a file for each in a folder, by name.
 *
 * Each namespace is transferred as if it were the only one, so that its file can be imported alone, and a transfer that
 * was interrupted can be resumed: files that are complete are kept.
 */
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { namespacePages } from "../commands/namespaces.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { pagesOf } from "../pages.ts";

/** What the name of a namespace's file ends in. A name may be `..`, and is a plain file name with it. */
const ENDING = ".jsonl";
/** Names that a namespace can have. */
const NAME = /^[\w.-]{1,64}$/;

/** Transfers one namespace from or to a file. */
type Transfer = (invocation: Invocation, file: string) => Promise<ExitCode>;

/** Exports all namespaces of the deployment into a folder. The first failure ends it. */
export async function exportEach(
  invocation: Invocation,
  folder: string,
  transfer: Transfer,
): Promise<ExitCode> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw new UsageError("file_unwritable", `${folder}: ${(error as Error).message}`);
  }
  for await (const rows of pagesOf(Infinity, namespacePages(invocation))) {
    for (const { name } of rows) {
      await transfer(invocation.inNamespace(name), join(folder, name + ENDING));
    }
  }
  return ExitCode.done;
}

/** Imports all files of such a folder, each into its namespace. Returns the exit code of the last one that is not 0. */
export async function importEach(
  invocation: Invocation,
  folder: string,
  transfer: Transfer,
): Promise<ExitCode> {
  let exitCode: ExitCode = ExitCode.done;
  for (const name of await namesIn(folder)) {
    const ended = await transfer(invocation.inNamespace(name), join(folder, name + ENDING));
    if (ended !== ExitCode.done) exitCode = ended;
  }
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
    .filter((name) => NAME.test(name));
  if (names.length > 0) return names.toSorted();
  throw new UsageError("file_invalid", `${folder}: expected files such as shop${ENDING}`);
}
