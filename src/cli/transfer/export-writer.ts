/** Writes an export: header, records and trailer, with a checksum over all bytes before the trailer. */
import { createHash, type Hash } from "node:crypto";
import type { StoredRecord } from "../../wire/edge/transfer.ts";
import {
  countRecord,
  headerLine,
  noCounts,
  recordLine,
  trailerLine,
  type Counts,
  type Header,
} from "./format.ts";

/** Lines are gathered up to this many characters, so that a small record does not cost a system call. */
const CHUNK_LENGTH = 256 << 10;

/** Writes bytes; resolves when more may follow. */
export type Write = (bytes: Uint8Array) => Promise<void>;

/** State of an export that is continued. */
export interface Begun {
  /** Records so far, those of an earlier run included. */
  readonly counts: Counts;
  readonly hash: Hash;
}

const encoder = new TextEncoder();

export class ExportWriter {
  readonly counts: Counts;
  /** SHA-256 of everything before the trailer. */
  readonly #hash: Hash;
  readonly #write: Write;
  /** Lines that are not written yet. */
  #lines = "";

  /** @param begun the export to continue; null for a new one */
  constructor(write: Write, begun: Begun | null = null) {
    this.#write = write;
    this.counts = begun?.counts ?? noCounts();
    this.#hash = begun?.hash ?? createHash("sha256");
  }

  /** Writes the header at once: a file without one is not recognized as an export. */
  async header(header: Header): Promise<void> {
    this.#lines += headerLine(header);
    await this.#flush();
  }

  /** Writes a page of records. The page is complete on disk or in the pipe when this resolves. */
  async records(records: readonly StoredRecord[]): Promise<void> {
    for (const record of records) {
      countRecord(this.counts, record);
      this.#lines += recordLine(record);
      if (this.#lines.length >= CHUNK_LENGTH) await this.#flush();
    }
    await this.#flush();
  }

  /** Writes the trailer. It is not part of its own checksum. */
  async trailer(finishedAtMs: number): Promise<void> {
    const sha256 = this.#hash.copy().digest("hex");
    this.#lines += trailerLine({ ...this.counts, finishedAtMs, sha256 });
    await this.#flush();
  }

  /** Writes the gathered lines, and adds them to the checksum. */
  async #flush(): Promise<void> {
    if (this.#lines === "") return;
    const bytes = encoder.encode(this.#lines);
    this.#lines = "";
    this.#hash.update(bytes);
    await this.#write(bytes);
  }
}
