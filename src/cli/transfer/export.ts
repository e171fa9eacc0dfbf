/** An export: writes the records of a source to a file or a pipe. */
import { open, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { UsageError } from "../failure.ts";
import type { Output } from "../output.ts";
import { base64Of, shownBytes } from "../text.ts";
import { readExport, type ExportReader } from "./export-reader.ts";
import { ExportWriter, type Write } from "./export-writer.ts";
import type { Counts, Header } from "./format.ts";
import { chunksOf } from "./import.ts";
import type { Progress } from "./progress.ts";
import type { RecordSource } from "./source.ts";

/** The outcome of an export. */
export interface Exported extends Counts {
  /** Records and leases that an earlier run had written. */
  readonly resumed: number;
}

/**
 * A file that an export is written to.
 *
 * An export that replaces a file is written beside it first, as `name.partial`, and renamed once it is complete: a
 * crash leaves the old backup, never half of the new one.
 */
export class ExportFile {
  /** The path that is written. */
  readonly name: string;
  /** The path that it replaces once it is complete; null if it is written in place. */
  readonly replaces: string | null;
  /** The part that an earlier run wrote; null for a new file. */
  readonly found: ExportReader | null;
  /** The open file. Its own offset is at its end, as a pipe can't be written at another one. */
  readonly #file: FileHandle;
  /** Bytes of it, those of an earlier run included. */
  #bytes: number;
  /** `close` may be called twice: after the export, and by the command's `finally`. */
  #isClosed = false;

  private constructor(
    name: string,
    replaces: string | null,
    file: FileHandle,
    found: ExportReader | null,
  ) {
    this.name = name;
    this.replaces = replaces;
    this.#file = file;
    this.found = found;
    this.#bytes = found?.endsAt ?? 0;
  }

  /**
   * Creates a file. Forced, it replaces an existing one at the end.
   *
   * @throws UsageError `file_exists`, `file_unwritable`
   */
  static async create(name: string, isForced: boolean): Promise<ExportFile> {
    const { target, draft } = await placesOf(name);
    if (isForced) {
      // A device or a pipe is written in place: renaming a file over it would remove it.
      if (!(await isReplaceable(target))) {
        return new ExportFile(name, null, await opened(name, "w"), null);
      }
      return new ExportFile(draft, target, await opened(draft, "w"), null);
    }
    // The draft of an interrupted export, which `--resume` continues.
    if (await isThere(draft)) throw fileExists(draft);
    return new ExportFile(name, null, await opened(name, "wx"), null);
  }

  /**
   * Opens a file that an earlier export began, and cuts off what follows its last whole line. If there is a
   * `name.partial`, it continues that one, which replaces the file at the end. Without either it creates the file.
   *
   * @param isForced whether a file without a `name.partial` is replaced, rather than continued
   * @throws UsageError `option_invalid`, `file_invalid`, `file_damaged`, `file_unreadable`, `file_unwritable`
   */
  static async resume(name: string, isForced: boolean): Promise<ExportFile> {
    const { target, draft } = await placesOf(name);
    const isDraft = await isThere(draft);
    if (isForced && !isDraft) return await ExportFile.create(name, true);
    const begun = isDraft ? draft : name;
    // What was written to a device or a pipe can't be read again.
    if (!(await isReplaceable(begun))) {
      throw new UsageError("option_invalid", `--resume: ${begun} is not a regular file`);
    }
    // Creates the file if it does not exist; never truncates it.
    await (await opened(begun, "a")).close();
    const found = await readExport(chunksOf(begun), true);
    const file = await opened(begun, "a");
    await file.truncate(found.endsAt);
    return new ExportFile(begun, isDraft ? target : null, file, found.isEmpty ? null : found);
  }

  /** Whether it has its trailer. */
  get isComplete(): boolean {
    return (this.found?.trailer ?? null) !== null;
  }

  /**
   * Writes all bytes. The system may take fewer at once, as on a disk that is nearly full.
   *
   * @throws UsageError `file_unwritable`
   */
  readonly write: Write = async (bytes) => {
    for (let from = 0; from < bytes.length;) {
      const { bytesWritten } = await this.#tried(
        this.#file.write(bytes, from, bytes.length - from),
      );
      from += bytesWritten;
      this.#bytes += bytesWritten;
    }
  };

  /** The result of an operation on the file. @throws UsageError `file_unwritable` */
  async #tried<Result>(operation: Promise<Result>): Promise<Result> {
    try {
      return await operation;
    } catch (error) {
      throw new UsageError("file_unwritable", `${this.name}: ${(error as Error).message}`);
    }
  }

  /** Whether nothing was written. */
  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  /** Whether `close` was called. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Closes the file and moves it over the one that it replaces. @throws UsageError `file_unwritable` */
  async complete(): Promise<void> {
    await this.close();
    if (this.replaces !== null) await this.#tried(rename(this.name, this.replaces));
  }

  /** Syncs the file to disk and closes it. An empty file is removed. @throws UsageError `file_unwritable` */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // A device or a pipe cannot be synced, and must not be removed.
    const isFile = (await this.#file.stat()).isFile();
    try {
      if (isFile) await this.#tried(this.#file.sync());
    } finally {
      await this.#tried(this.#file.close());
    }
    if (isFile && this.isEmpty) await this.remove();
  }

  /** Removes the file, but not the one that it would have replaced. */
  async remove(): Promise<void> {
    await rm(this.name, { force: true });
  }
}

/**
 * Writes all records of a source, and the trailer.
 *
 * @param found the part that an earlier run wrote; null for a new file
 * @throws UsageError `resume_mismatch` if that part belongs to another export
 */
export async function exportAll(
  source: RecordSource,
  write: Write,
  found: ExportReader | null,
  progress: Progress,
): Promise<Exported> {
  const startedAtMs = Date.now();
  if (found !== null) await assertSameExport(found.header, source);
  const writer = new ExportWriter(write, found);
  const resumed = entriesOf(writer.counts);
  // The header waits for the source's first answer, so that a failed call leaves no file behind.
  let hasHeader = found !== null;
  // Each page is written before the next is used, so a slow disk slows the source down.
  for await (const entries of source.pages()) {
    if (!hasHeader) await writer.header(await headerOf(source, startedAtMs));
    hasHeader = true;
    await writer.entries(entries);
    const count = entriesOf(writer.counts);
    progress.update(count, count);
  }
  if (!hasHeader) await writer.header(await headerOf(source, startedAtMs));
  await writer.trailer(Date.now());
  return { ...writer.counts, resumed };
}

/** Records and leases. */
export const entriesOf = ({ records, leases }: Counts): number => records + leases;

/** Writes to standard output. */
export const writeTo =
  (output: Output): Write =>
  async (bytes) =>
    await output.write(bytes);

/** The header of an export of a source. */
async function headerOf(source: RecordSource, startedAtMs: number): Promise<Header> {
  const { name, prefix, hasLeases } = source;
  return { startedAtMs, source: name, namespace: await source.namespace(), prefix, hasLeases };
}

/**
 * Refuses a file with records of another server, another prefix or another namespace, or with leases where the source has
 * none, or the other way round.
 *
 * @throws UsageError `resume_mismatch`
 */
export async function assertSameExport(found: Header, asked: RecordSource): Promise<void> {
  if (found.source !== asked.name) {
    throw new UsageError(
      "resume_mismatch",
      `the file is an export of ${found.source}, not of ${asked.name}`,
    );
  }
  if (found.hasLeases !== asked.hasLeases) {
    throw new UsageError(
      "resume_mismatch",
      `the file is an export ${found.hasLeases ? "with" : "without"} leases: ${found.hasLeases ? "add" : "leave out"} --leases`,
    );
  }
  if (base64Of(found.prefix) !== base64Of(asked.prefix)) {
    throw new UsageError(
      "resume_mismatch",
      `the file is an export of the prefix "${shownBytes(found.prefix)}", not of "${shownBytes(asked.prefix)}"`,
    );
  }
  // A file of an earlier release does not say it.
  if (found.namespace === null) return;
  const namespace = await asked.namespace();
  if (namespace === null || namespace === found.namespace) return;
  throw new UsageError(
    "resume_mismatch",
    `the file is an export of the namespace ${found.namespace}, not of ${namespace}`,
  );
}

/** The path of a file behind symbolic links, and the path of its draft. */
async function placesOf(name: string): Promise<{ target: string; draft: string }> {
  const target = await realpath(name).catch(() => name);
  return { target, draft: `${target}.partial` };
}

/**
 * Whether a path exists; a file that may not be looked at counts as missing, and fails when it is
 * opened.
 */
async function isThere(name: string): Promise<boolean> {
  return (await stat(name).catch(() => null)) !== null;
}

/** Whether a path is a regular file, or does not exist yet. */
async function isReplaceable(name: string): Promise<boolean> {
  return (await stat(name).catch(() => null))?.isFile() ?? true;
}

/** The error for a file that would be overwritten; names both ways out. */
function fileExists(name: string): UsageError {
  return new UsageError(
    "file_exists",
    `${name} already exists; use --resume to continue it or --force to replace it`,
  );
}

/** Opens a file that only its owner may read: an export has all data. @throws UsageError */
async function opened(name: string, flags: string): Promise<FileHandle> {
  try {
    return await open(name, flags, 0o600);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw fileExists(name);
    throw new UsageError("file_unwritable", message);
  }
}
