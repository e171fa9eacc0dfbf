/**
 * Reads an export line by line, and checks it as a whole: counts and checksum of the trailer must match.
 *
 * The checksum covers bytes, not records: a file that an editor saved with other line ends is reported as damaged.
 */
import { createHash } from "node:crypto";
import { UsageError } from "../failure.ts";
import {
  countEntry,
  isLease,
  isTrailer,
  LineError,
  noCounts,
  readHeader,
  readLine,
  type Counts,
  type Entry,
  type Header,
  type Trailer,
} from "./format.ts";
import { linesOf, type Line } from "./lines.ts";

/** The line feed, which the checksum covers as well. */
const LINE_END = Uint8Array.of(0x0a);
/** The counts of a trailer, in the order in which a difference is reported. */
const COUNTED = ["records", "counters", "buffers", "pairs", "leases"] as const;

/** The state of reading one file: everything that is needed to check it, or to continue it. */
export class ExportReader {
  readonly counts: Counts = noCounts();
  /** Lines read so far, with the header and the trailer. */
  lines = 0;
  /** Offset of the end of the last line, in bytes. */
  endsAt = 0;
  /** The last record or lease; null before the first. */
  last: Entry | null = null;
  /** The last line of a complete file; null before it, and for a file that was cut short. */
  trailer: Trailer | null = null;
  /** Copied for each answer: a digest would end it. */
  readonly #hash = createHash("sha256");
  #header: Header | null = null;

  /** @throws UsageError `file_invalid` if the file has none */
  get header(): Header {
    if (this.#header === null) throw fileInvalid(1, "expected the header of an export");
    return this.#header;
  }

  /** Whether not even the header was read. */
  get isEmpty(): boolean {
    return this.#header === null;
  }

  /** SHA-256 of all bytes before the trailer, in hexadecimal digits. */
  get sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  /** A hash of the bytes read so far, to which an export that resumes adds its own. */
  get hash(): ReturnType<typeof createHash> {
    return this.#hash.copy();
  }

  /**
   * Reads a line and returns its record or lease; null for the header and the trailer.
   *
   * @throws LineError, which `readExport` reports with the number of the line; UsageError `file_damaged`
   */
  read({ bytes, endsAt }: Line): Entry | null {
    const entry = this.#entryOf(bytes);
    this.lines++;
    this.endsAt = endsAt;
    return entry;
  }

  #entryOf(bytes: Uint8Array): Entry | null {
    if (this.trailer !== null) throw new LineError("unexpected line after the trailer");
    if (this.#header === null) {
      this.#header = readHeader(bytes);
      this.#add(bytes);
      return null;
    }
    const read = readLine(bytes);
    if (isTrailer(read)) {
      this.#assertSame(read);
      this.trailer = read;
      return null;
    }
    if (isLease(read) && !this.#header.hasLeases) {
      throw new LineError("unexpected lease in a file of version 1");
    }
    countEntry(this.counts, read);
    this.last = read;
    this.#add(bytes);
    return read;
  }

  /** Adds a line to the checksum. */
  #add(bytes: Uint8Array): void {
    this.#hash.update(bytes).update(LINE_END);
  }

  /** Compares the trailer with what was read. @throws UsageError `file_damaged` */
  #assertSame(trailer: Trailer): void {
    const counts = this.counts;
    const told = { ...trailer, leases: trailer.leases ?? 0 };
    const other = COUNTED.find((what) => told[what] !== counts[what]);
    if (other !== undefined) {
      throw fileDamaged(`its trailer counts ${told[other]} ${other}, but it has ${counts[other]}`);
    }
    if (trailer.sha256 !== this.sha256) {
      throw fileDamaged("its checksum differs from the one in its trailer");
    }
  }
}

/**
 * Reads an export to its end.
 *
 * @param isTornAllowed whether the file may end anywhere: what follows its last whole line is ignored then
 * @param visit receives each record and lease; a promise makes the reader wait
 * @throws UsageError `file_invalid`, `file_damaged`
 */
export async function readExport(
  chunks: AsyncIterable<Uint8Array>,
  isTornAllowed: boolean,
  visit: (entry: Entry, line: number, endsAt: number) => Promise<void> | null = () => null,
): Promise<ExportReader> {
  const reader = new ExportReader();
  try {
    for await (const lines of linesOf(chunks)) {
      for (const line of lines) {
        if (!line.isWhole && isTornAllowed) return reader;
        const entry = line.isWhole ? reader.read(line) : cutShort(reader);
        const visited = entry === null ? null : visit(entry, reader.lines, line.endsAt);
        if (visited !== null) await visited;
      }
    }
  } catch (error) {
    if (error instanceof LineError) throw fileInvalid(reader.lines + 1, error.message);
    throw error;
  }
  if (reader.trailer === null && !isTornAllowed) return cutShort(reader);
  return reader;
}

/** Fails for a file without its end; for an empty one the missing header is the better reason. */
function cutShort({ isEmpty, counts }: ExportReader): never {
  if (isEmpty) throw fileInvalid(1, "expected the header of an export");
  throw new UsageError(
    "file_truncated",
    `the file ends after ${counts.records} records, before its trailer; continue it with export --resume, or import what it has with import --partial`,
  );
}

/** An error that names the line, counted from 1 as editors do. */
function fileInvalid(line: number, detail: string): UsageError {
  return new UsageError("file_invalid", `line ${line}: ${detail}`);
}

/** An error for a file that is well-formed and still not what was written. */
function fileDamaged(detail: string): UsageError {
  return new UsageError("file_damaged", `the file was changed after it was written: ${detail}`);
}
