/**
 * Recovery: rows of snapshots and journals make the records again that they were written of.
 *
 * Rows hold after-images, so a row may be applied twice, and what a row says does not depend on the release that
 * wrote it. Rows of a commit must come in the order in which they were taken.
 */
import { Keyspace } from "../wire/keyspace.ts";
import { isIn, type Range } from "../wire/range.ts";
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
import { UsageReader } from "./moved-usage.ts";
import type { RecordPlace } from "./record-place.ts";
import { NUMBER, readU32 } from "./semaphores/stored.ts";
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
  /** Records of other places are left out; null for none. */
  #only: { readonly own: Range; readonly place: RecordPlace } | null = null;
  /** When the latest of the rows was written, ms by the shard's clock. */
  #writtenMs = 0;

  constructor(records: Records, { semaphores, reservations, counts }: RecoveryParts) {
    this.#records = records;
    this.#semaphores = semaphores;
    this.#reservations = reservations;
    this.#counts = counts;
  }

  /**
   * Leaves out records whose place another shard owns. Holdings are restored, whatever their semaphore's place: see
   * `SemaphoreRecords.dropOrphans`.
   */
  restoreOnly(own: Range, place: RecordPlace): void {
    this.#only = { own, place };
  }

  /**
   * Applies a row of a snapshot or a journal.
   *
   * @param usage of its records: see `moved-usage.ts`; null where it is not known
   * @throws RangeError for a row that this release can't read
   */
  restore(row: Uint8Array, usage: Uint8Array | null = null): void {
    const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
    const writtenMs = readRowHeader(view);
    this.#restoreClock(writtenMs, writtenMs);
    const usages = usage === null ? null : new UsageReader(this.#records, usage);
    for (let at = ROW_HEADER_BYTES, length = 0; at < row.length; at += length) {
      length = imageBytes(view, at);
      if (at + length > row.length) throw new RangeError("row: cut short");
      if (imageKind(row, at) !== ImageKind.superseded) {
        this.#restoreRecord(row, view, at);
        usages?.setNext();
      } else if (row[at + 1] === Mark.counts) this.#counts.restore(readCountsMark(row, at, length));
      else this.#restoreClockMark(row[at + 1]!, readClockMark(view, at), writtenMs);
    }
  }

  /** All records were dropped: rows that come now may be older than those of before. */
  forgetRows(): void {
    this.#writtenMs = 0;
  }

  #restoreRecord(row: Uint8Array, view: DataView, at: number): void {
    const image = this.#image.read(row, view, at);
    if (this.#isLeftOut(image)) return;
    if (image.keyspace === Keyspace.semaphores || image.keyspace === Keyspace.holdings) {
      this.#semaphores.noteRestored();
    }
    if (image.keyspace === Keyspace.reservations) this.#reservations.noteRestored();
    this.#records.restore(image);
  }

  #isLeftOut({ keyspace, bytes, keyAt, keyBytes, kind, valueAt }: RecordImage): boolean {
    if (this.#only === null || keyspace === Keyspace.holdings) return false;
    const { own, place } = this.#only;
    if (isIn(own, place.hashOf(keyspace, bytes, keyAt, keyBytes))) return false;
    if (keyspace === Keyspace.semaphores && kind !== 0) {
      this.#semaphores.stored.retireNumber(readU32(bytes, valueAt + NUMBER));
    }
    return true;
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
