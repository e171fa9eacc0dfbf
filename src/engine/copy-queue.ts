/**
 * The queue of images for another shard, in the order in which it has to apply them, as rows of its journal.
 *
 * Images come copied: what they were made of changes before they are sent. The last row takes images until it is full, so
 * few rows are written, and billed, where many small commits are copied.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { endRow, ROW_HEADER_BYTES, writeImage } from "./image.ts";
import { UsageWriter } from "./moved-usage.ts";
import type { Records } from "./records.ts";
import type { Segment } from "./segment.ts";
import { SPLIT_ROW_BYTES, SPLIT_ROW_IMAGES } from "./sizes.ts";

/** A row for the journal of the other shard. */
export interface CopiedRow {
  readonly row: Uint8Array<ArrayBuffer>;
  /** Format: `moved-usage.ts`. Empty where usage is not counted. */
  readonly usage: Uint8Array<ArrayBuffer>;
}

export class CopyQueue {
  readonly #records: Records;
  readonly #full: CopiedRow[] = [];
  #fullBytes = 0;
  /** The row that takes images. */
  readonly #open = new ByteWriter(64 * 1024);
  /** Images that it has. */
  #images = 0;
  readonly #usage: UsageWriter;
  /**
   * No row was ended yet: the first one may be empty. Where a range has no records, it still has to come, as it is the other
   * shard's beginning.
   */
  #isFirst = true;

  constructor(records: Records) {
    this.#records = records;
    this.#usage = new UsageWriter(records);
    this.#open.reserve(ROW_HEADER_BYTES);
  }

  /** Bytes of images that were not taken. */
  get bytes(): number {
    return this.#fullBytes + this.#open.length - ROW_HEADER_BYTES;
  }

  /** Every row was taken, the first one among them. */
  get isEmpty(): boolean {
    return this.bytes === 0 && !this.#isFirst;
  }

  /** Adds the image of the record in a slot, of `bytes` bytes. */
  addRecord(segment: Segment, slot: number, bytes: number): void {
    this.#makeRoom(bytes);
    writeImage(this.#open, segment, slot);
    this.#usage.add(segment, slot);
  }

  /** Adds the image `row[at, at + bytes)` of a commit, with the usage of its record in a slot; -1 where it has none. */
  addImage(row: Uint8Array, at: number, bytes: number, segment: Segment, slot: number): void {
    this.#makeRoom(bytes);
    this.#open.copy(row, at, at + bytes);
    this.#usage.add(segment, slot);
  }

  /**
   * Takes the first row; null when there is none.
   *
   * @param isPartTaken takes a row that has room left, too
   */
  take(isPartTaken: boolean): CopiedRow | null {
    if (this.#full.length === 0 && isPartTaken) this.#endRow();
    const first = this.#full.shift() ?? null;
    if (first !== null) this.#fullBytes -= first.row.length;
    return first;
  }

  #makeRoom(bytes: number): void {
    const { length } = this.#open;
    const isFull = length + bytes > SPLIT_ROW_BYTES || this.#images === SPLIT_ROW_IMAGES;
    if (length > ROW_HEADER_BYTES && isFull) this.#endRow();
    this.#images++;
  }

  /** A row has the time of its end, by which the other shard's clock is never behind an image. */
  #endRow(): void {
    const out = this.#open;
    if (out.length === ROW_HEADER_BYTES && !this.#isFirst) return;
    this.#isFirst = false;
    endRow(out, this.#records.clock);
    const row = out.take();
    this.#full.push({ row, usage: this.#usage.take() });
    this.#fullBytes += row.length;
    out.reset();
    this.#images = 0;
    out.reserve(ROW_HEADER_BYTES);
  }
}
