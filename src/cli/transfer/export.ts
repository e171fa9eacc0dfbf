/** An export: the records of a source, into a file or a pipe. */
import { createReadStream } from "node:fs";
import { open, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import type { RecordKey } from "../../wire/edge/transfer.ts";
import { UsageError } from "../failure.ts";
import type { Output } from "../output.ts";
import { base64Of, shownBytes } from "../text.ts";
import { readExport, type ExportReader } from "./export-reader.ts";
import { ExportWriter, type Begun, type Write } from "./export-writer.ts";
import type { Counts, Header } from "./format.ts";
import type { Progress } from "./progress.ts";
import type { RecordSource } from "./source.ts";

/** What an export has come to. */
export interface Exported extends Counts {
  /** Of them, those that were there before. */
  readonly resumed: number;
}

/**
 * A file that an export is written to.
 *
 * What is to take the place of a file is written beside it first, as `name.partial`: until the export is
 * complete, the file stays as it is.
 */
export class ExportFile {
  /** Where it is written. */
  readonly name: string;
  /** What it replaces once it is complete; null where it is written in its own place. */
  readonly replaces: string | null;
  readonly #file: FileHandle;
  readonly #found: ExportReader | null;
  #at: number;
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
    this.#found = found;
    this.#at = found?.endsAt ?? 0;
  }

  /**
   * A file that is not there yet; forced, one that takes the place of what is there.
   *
   * @throws UsageError `file_exists`, `file_unwritable`
   */
  static async create(name: string, isForced: boolean): Promise<ExportFile> {
    const { target, draft } = await placesOf(name);
    if (isForced) {
      // A device or a pipe is written to; it is never replaced.
      if (!(await isReplaceable(target))) {
        return new ExportFile(name, null, await opened(name, "w"), null);
      }
      return new ExportFile(draft, target, await opened(draft, "w"), null);
    }
    // `--resume` would go on with it.
    if (await isThere(draft)) throw fileExists(draft);
    return new ExportFile(name, null, await opened(name, "wx"), null);
  }

  /**
   * A file that an earlier export has begun: what it has behind its last whole line is cut off. One that
   * is not there is begun. Where there is a `name.partial`, that is the one, and replaces the file once it
   * is complete.
   *
   * @throws UsageError `file_invalid`, `file_damaged`, `file_unwritable`
   */
  static async resume(name: string): Promise<ExportFile> {
    const { target, draft } = await placesOf(name);
    const isDraft = await isThere(draft);
    const begun = isDraft ? draft : name;
    // One that is not there is begun.
    await (await opened(begun, "a")).close();
    const found = await readExport(createReadStream(begun), true);
    const file = await opened(begun, "r+");
    await file.truncate(found.endsAt);
    return new ExportFile(begun, isDraft ? target : null, file, found.isEmpty ? null : found);
  }

  /** What was there; null where there was nothing. */
  get found(): ExportReader | null {
    return this.#found;
  }

  /** It has its trailer. */
  get isComplete(): boolean {
    return this.#found !== null && this.#found.trailer !== null;
  }

  /** Where to go on; null at the start. */
  get after(): RecordKey | null {
    return this.#found?.lastKey ?? null;
  }

  readonly write: Write = async (bytes) => {
    for (let from = 0; from < bytes.length;) {
      const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, this.#at);
      from += bytesWritten;
      this.#at += bytesWritten;
    }
  };

  /** Nothing has been written. */
  get isEmpty(): boolean {
    return this.#at === 0;
  }

  /** Closes it, and puts it in the place of what it replaces. @throws UsageError `file_unwritable` */
  async complete(): Promise<void> {
    await this.close();
    if (this.replaces === null) return;
    try {
      await rename(this.name, this.replaces);
    } catch (error) {
      throw new UsageError("file_unwritable", (error as Error).message);
    }
  }

  /** Sees to it that what was written is there after a crash, and closes it; an empty file is removed. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // A device or a pipe has nothing to keep, and is not for us to remove.
    const isFile = (await this.#file.stat()).isFile();
    if (isFile) await this.#file.sync();
    await this.#file.close();
    if (isFile && this.isEmpty) await this.remove();
  }

  /** Removes what was written; what it was to replace stays. */
  async remove(): Promise<void> {
    await rm(this.name, { force: true });
  }
}

/**
 * Writes all records of a source, and ends the file in order.
 *
 * @param found what there is of the file; null begins it
 * @throws UsageError `resume_mismatch` when the file is of another export
 */
export async function exportAll(
  source: RecordSource,
  prefix: Uint8Array,
  write: Write,
  found: ExportReader | null,
  progress: Progress,
): Promise<Exported> {
  const header: Header = { startedAtMs: Date.now(), source: source.name, prefix };
  if (found !== null) assertSameExport(found.header, header);
  const begun: Begun | null = found === null ? null : { counts: found.counts, hash: found.hash };
  const writer = new ExportWriter(write, begun);
  const resumed = writer.counts.records;
  // Nothing is written before the source has answered.
  let hasHeader = begun !== null;
  for await (const records of source.pages()) {
    if (!hasHeader) await writer.header(header);
    hasHeader = true;
    await writer.records(records);
    progress.update(writer.counts.records, writer.counts.records);
  }
  if (!hasHeader) await writer.header(header);
  await writer.trailer(Date.now());
  return { ...writer.counts, resumed };
}

/** Writes to standard output. */
export const writeTo =
  (output: Output): Write =>
  async (bytes) =>
    await output.write(bytes);

function assertSameExport(found: Header, asked: Header): void {
  if (found.source !== asked.source) {
    throw new UsageError(
      "resume_mismatch",
      `the file is an export of ${found.source}, not of ${asked.source}`,
    );
  }
  if (base64Of(found.prefix) !== base64Of(asked.prefix)) {
    throw new UsageError(
      "resume_mismatch",
      `the file is an export of the prefix "${shownBytes(found.prefix)}", not of "${shownBytes(asked.prefix)}"`,
    );
  }
}

/** Where a file is, behind links, and where what is to replace it is written. */
async function placesOf(name: string): Promise<{ target: string; draft: string }> {
  const target = await realpath(name).catch(() => name);
  return { target, draft: `${target}.partial` };
}

async function isThere(name: string): Promise<boolean> {
  return (await stat(name).catch(() => null)) !== null;
}

/** Only a file is, or what is not there yet. */
async function isReplaceable(name: string): Promise<boolean> {
  return (await stat(name).catch(() => null))?.isFile() ?? true;
}

function fileExists(name: string): UsageError {
  return new UsageError(
    "file_exists",
    `${name} is there already: --resume goes on with it, --force writes over it`,
  );
}

async function opened(name: string, flags: string): Promise<FileHandle> {
  try {
    return await open(name, flags, 0o600);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw fileExists(name);
    throw new UsageError("file_unwritable", message);
  }
}
