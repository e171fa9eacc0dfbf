/**
 * Recovery: rows of snapshots and journals make the records again that they were written of.
 *
 * Rows hold after-images, so a row may be applied twice, and what a row says does not depend on the release that
 * wrote it. Rows of a commit must come in the order in which they were taken.
 */
import { Keyspace } from "../wire/keyspace.ts";
import {
  imageBytes,
  imageKind,
  ImageKind,
  Mark,
  readClockMark,
  readCountsMark,
  readRowHeader,
  RecordImage,
  ROW_HEADER_BYTES,
} from "./image.ts";
import type { Records } from "./records.ts";
import type { Reservations } from "./reservations.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { setBackRecords } from "./set-back.ts";
import type { StoredCounts } from "./stored-counts.ts";

/** What is made of records, or stands among them. */
export interface RecoveryParts {
  readonly semaphores: Semaphores;
  readonly reservations: Reservations;
  readonly counts: StoredCounts;
}

export class Recovery {
  readonly #records: Records;
  readonly #semaphores: Semaphores;
  readonly #reservations: Reservations;
  readonly #counts: StoredCounts;
  readonly #image = new RecordImage();
  /** When the latest of the rows was written, ms by the shard's clock. */
  #writtenMs = 0;

  constructor(records: Records, { semaphores, reservations, counts }: RecoveryParts) {
    this.#records = records;
    this.#semaphores = semaphores;
    this.#reservations = reservations;
    this.#counts = counts;
  }

  /**
   * Applies a row of a snapshot or a journal.
   *
   * @throws RangeError for a row that this release can't read
   */
  restore(row: Uint8Array): void {
    const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
    const writtenMs = readRowHeader(view);
    this.#restoreClock(writtenMs, writtenMs);
    for (let at = ROW_HEADER_BYTES, length = 0; at < row.length; at += length) {
      length = imageBytes(view, at);
      if (at + length > row.length) throw new RangeError("row: cut short");
      if (imageKind(row, at) !== ImageKind.superseded) this.#restoreRecord(row, view, at);
      else if (row[at + 1] === Mark.counts) this.#counts.restore(readCountsMark(row, at, length));
      else this.#restoreClockMark(row[at + 1]!, readClockMark(view, at), writtenMs);
    }
  }

  #restoreRecord(row: Uint8Array, view: DataView, at: number): void {
    const image = this.#image.read(row, view, at);
    if (image.keyspace === Keyspace.semaphores || image.keyspace === Keyspace.holdings) {
      this.#semaphores.noteRestored();
    }
    if (image.keyspace === Keyspace.reservations) this.#reservations.noteRestored();
    this.#records.restore(image);
  }

  #restoreClockMark(mark: number, ms: number, writtenMs: number): void {
    if (mark === Mark.lagging) this.#restoreClock(writtenMs, ms);
    if (mark !== Mark.setBack) return;
    setBackRecords(this.#records, ms);
    this.#writtenMs = writtenMs;
    this.#restoreClock(writtenMs, writtenMs);
  }

  /** Rows of a snapshot are older or newer than those of its journal: the latest one sets the clock. */
  #restoreClock(writtenMs: number, realMs: number): void {
    if (writtenMs < this.#writtenMs) return;
    this.#writtenMs = writtenMs;
    this.#records.restoreClock(writtenMs, realMs);
  }
}
