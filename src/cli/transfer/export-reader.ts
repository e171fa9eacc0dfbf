/** Reads an export line by line, and checks it as a whole. */
import { createHash } from "node:crypto";
import type { RecordKey, StoredRecord } from "../../wire/edge/transfer.ts";
import { UsageError } from "../failure.ts";
import {
  countRecord,
  isTrailer,
  LineError,
  noCounts,
  readHeader,
  readLine,
  type Counts,
  type Header,
  type Trailer,
} from "./format.ts";
import { LineTooLong, linesOf, type Line } from "./lines.ts";

const LINE_END = Uint8Array.of(0x0a);
const COUNTED = ["records", "counters", "buffers", "pairs"] as const;

export class ExportReader {
  readonly counts: Counts = noCounts();
  /** Lines that were read, the header and the trailer included. */
  lines = 0;
  /** Where the last of them ends. */
  endsAt = 0;
  /** Of the last record. */
  lastKey: RecordKey | null = null;
  trailer: Trailer | null = null;
  readonly #hash = createHash("sha256");
  #header: Header | null = null;

  /** @throws UsageError `file_invalid` where there is none */
  get header(): Header {
    if (this.#header === null) throw fileInvalid(1, "the header of an export is expected");
    return this.#header;
  }

  get isEmpty(): boolean {
    return this.#header === null;
  }

  /** Of all that was read before the trailer, in hexadecimal digits. */
  get sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  /** Goes on with a checksum: what was read is all that there is. */
  get hash(): ReturnType<typeof createHash> {
    return this.#hash.copy();
  }

  /**
   * Reads a line; gives its record, if it is that of one.
   *
   * @throws UsageError `file_invalid`, `file_damaged`
   */
  read({ bytes, endsAt }: Line): StoredRecord | null {
    const record = this.#recordOf(bytes);
    this.lines++;
    this.endsAt = endsAt;
    return record;
  }

  #recordOf(bytes: Uint8Array): StoredRecord | null {
    const at = this.lines + 1;
    if (this.trailer !== null) throw fileInvalid(at, "there is a line behind the trailer");
    if (this.#header === null) {
      this.#header = of(at, () => readHeader(bytes));
    } else {
      const read = of(at, () => readLine(bytes));
      if (isTrailer(read)) {
        this.#assertSame(read);
        this.trailer = read;
        return null;
      }
      countRecord(this.counts, read);
      this.lastKey = read.key;
      this.#add(bytes);
      return read;
    }
    this.#add(bytes);
    return null;
  }

  #add(bytes: Uint8Array): void {
    this.#hash.update(bytes).update(LINE_END);
  }

  #assertSame(trailer: Trailer): void {
    const counts = this.counts;
    const other = COUNTED.find((what) => trailer[what] !== counts[what]);
    if (other !== undefined) {
      throw fileDamaged(
        `its trailer speaks of ${trailer[other]} ${other}, there are ${counts[other]}`,
      );
    }
    if (trailer.sha256 !== this.sha256) {
      throw fileDamaged("its bytes do not give the checksum of its trailer");
    }
  }
}

/**
 * Reads an export, as far as it goes.
 *
 * @param isTornAllowed what follows the last whole line that can be read does not matter
 * @param visit gets the records
 * @throws UsageError `file_invalid`, `file_damaged`
 */
export async function readExport(
  chunks: AsyncIterable<Uint8Array>,
  isTornAllowed: boolean,
  visit: (record: StoredRecord, line: number, endsAt: number) => Promise<void> | null = () => null,
): Promise<ExportReader> {
  const reader = new ExportReader();
  try {
    for await (const lines of linesOf(chunks)) {
      for (const line of lines) {
        if (!line.isWhole && isTornAllowed) return reader;
        const record = line.isWhole ? reader.read(line) : cutShort(reader);
        const visited = record === null ? null : visit(record, reader.lines, line.endsAt);
        if (visited !== null) await visited;
      }
    }
  } catch (error) {
    if (error instanceof LineTooLong) throw fileInvalid(reader.lines + 1, error.message);
    throw error;
  }
  if (reader.trailer === null && !isTornAllowed) return cutShort(reader);
  return reader;
}

function cutShort({ isEmpty, counts }: ExportReader): never {
  if (isEmpty) throw fileInvalid(1, "the header of an export is expected");
  throw new UsageError(
    "file_truncated",
    `the file ends before its trailer, behind ${counts.records} records: export --resume goes on with it, import --partial takes what is there`,
  );
}

function of<Read>(line: number, read: () => Read): Read {
  try {
    return read();
  } catch (error) {
    if (error instanceof LineError) throw fileInvalid(line, error.message);
    throw error;
  }
}

function fileInvalid(line: number, detail: string): UsageError {
  return new UsageError("file_invalid", `line ${line}: ${detail}`);
}

function fileDamaged(detail: string): UsageError {
  return new UsageError("file_damaged", `the file is not as it was written: ${detail}`);
}
