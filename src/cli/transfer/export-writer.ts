/** Writes an export: header, records and trailer, with a checksum over all bytes before the trailer. */
import { createHash, type Hash } from "node:crypto";
import {
  countEntry,
  entryLine,
  headerLine,
  noCounts,
  trailerLine,
  type Counts,
  type Entry,
  type Header,
} from "./format.ts";

/** Lines are gathered up to this many characters, so that a small record does not cost a system call. */
const CHUNK_LENGTH = 256 << 10;

/** Writes bytes; resolves when more may follow. */
export type Write = (bytes: Uint8Array) => Promise<void>;

/** State of an export that is continued. */
export interface Begun {
  readonly header: Header;
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
  #hasLeases: boolean;
  /** Lines that are not written yet. */
  #lines = "";

  /** @param begun the export to continue; null for a new one */
  constructor(write: Write, begun: Begun | null = null) {
    this.#write = write;
    this.counts = begun?.counts ?? noCounts();
    this.#hash = begun?.hash ?? createHash("sha256");
    this.#hasLeases = begun?.header.hasLeases ?? false;
  }

  /** Writes the header at once: a file without one is not recognized as an export. */
  async header(header: Header): Promise<void> {
    this.#hasLeases = header.hasLeases;
    this.#lines += headerLine(header);
    await this.#flush();
  }

  /** Writes a page of records or leases. The page is complete on disk or in the pipe when this resolves. */
  async entries(entries: readonly Entry[]): Promise<void> {
    for (const entry of entries) {
      countEntry(this.counts, entry);
      this.#lines += entryLine(entry);
      if (this.#lines.length >= CHUNK_LENGTH) await this.#flush();
    }
    await this.#flush();
  }

  /** Writes the trailer. It is not part of its own checksum. */
  async trailer(finishedAtMs: number): Promise<void> {
    const sha256 = this.#hash.copy().digest("hex");
    const { leases, ...counts } = this.counts;
    const counted = this.#hasLeases ? { ...counts, leases } : counts;
    this.#lines += trailerLine({ ...counted, finishedAtMs, sha256 });
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
