/**
 * The copy of a part of a shard's range, for the shard that is to own it.
 *
 * A walk of the table copies the records that are there, a bounded step at a time, and from the beginning on every commit
 * copies the images of what it has changed. Both go into one queue. An image is the record as it was, and a change after it
 * comes with a later commit, so the images in their order end in the right records, wherever the walk was meanwhile. The
 * walk may copy what no commit has yet: the copy is of use only behind a last commit of everything.
 *
 * Each record that moves is marked in its slot, so that the shard knows at once, when it has given the range away, which
 * records are absent, and how many they are.
 */
import { CopyQueue, type CopiedRow } from "./copy-queue.ts";
import {
  IMAGE_HEADER_BYTES,
  imageBytes,
  imageKind,
  ImageKind,
  RecordImage,
  ROW_HEADER_BYTES,
} from "./image.ts";
import type { RecordPlace } from "./record-place.ts";
import type { Records } from "./records.ts";
import {
  hasExpired,
  keyLengthOf,
  Kind,
  kindOf,
  LOW,
  META,
  SLOT_WORDS,
  type Segment,
} from "./segment.ts";
import { placeOfRecord } from "./segment-place.ts";
import type { SemaphoreRecords } from "./semaphores/semaphore-records.ts";
import { HOLDING_NUMBER, readU32 } from "./semaphores/stored.ts";
import { HASH_END } from "./table.ts";
import { Walk } from "./walk.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { isIn, type Range } from "../wire/range.ts";
import { SPLIT_QUEUE_BYTES, SPLIT_STEP_BYTES } from "./sizes.ts";

export class RangeCopy {
  /** What is copied: the upper part of the shard's range. */
  readonly range: Range;
  readonly #records: Records;
  readonly #semaphores: SemaphoreRecords;
  readonly #place: RecordPlace;
  readonly #queue: CopyQueue;
  readonly #image = new RecordImage();
  /** Where the walk goes on. */
  #cursor = 0;

  constructor(records: Records, semaphores: SemaphoreRecords, place: RecordPlace, range: Range) {
    this.range = range;
    this.#records = records;
    this.#semaphores = semaphores;
    this.#place = place;
    this.#queue = new CopyQueue(records);
  }

  /** The walk has visited all records. */
  get isWalked(): boolean {
    return this.#cursor === HASH_END;
  }

  /** Bytes of images that wait to be taken. */
  get queuedBytes(): number {
    return this.#queue.bytes;
  }

  /** All that is to be adopted was taken: the walk is over, and no image has come since. */
  get isTaken(): boolean {
    return this.isWalked && this.#queue.isEmpty;
  }

  /** There is room for nothing more: the walk stops, and commits must wait until rows are taken. */
  get isFull(): boolean {
    return this.queuedBytes >= SPLIT_QUEUE_BYTES;
  }

  /** Commits have added more than the other shard takes: the copy must end, or the memory would. */
  get isOverfull(): boolean {
    return this.queuedBytes >= 2 * SPLIT_QUEUE_BYTES;
  }

  /**
   * Takes the first row, which goes to the other shard before the next one is sent. While the walk goes on, and there is
   * room for what it copies, only full rows are taken.
   *
   * @returns null when there is none
   */
  next(): CopiedRow | null {
    return this.#queue.take(this.isWalked || this.isFull);
  }

  /**
   * Walks on by a bounded number of slots and bytes.
   *
   * @returns false, and nothing done, when the queue is full or all records were visited
   */
  step(): boolean {
    if (this.isWalked || this.isFull) return false;
    const { table } = this.#records;
    const walk = new Walk(table);
    const endBytes = this.queuedBytes + SPLIT_STEP_BYTES;
    while (this.#cursor < HASH_END && this.queuedBytes < endBytes) {
      const segment = table.segmentAt(this.#cursor);
      if (!walk.take(segment)) break;
      this.#visit(segment);
      this.#cursor = table.hashAfter(this.#cursor);
    }
    return true;
  }

  #visit(segment: Segment): void {
    const { table, now } = this.#records;
    const { slots } = segment;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      const meta = slots[slot + META]!;
      if (meta === 0) continue;
      const isMoving = this.#isIn(placeOfRecord(segment, slot, this.#place, this.#semaphores));
      table.setMoving(segment, slot, isMoving);
      if (!isMoving || hasExpired(slots, slot, now)) continue;
      const valueBytes = kindOf(meta) === Kind.buffer ? slots[slot + LOW]! : 0;
      this.#queue.addRecord(segment, slot, IMAGE_HEADER_BYTES + keyLengthOf(meta) + valueBytes);
    }
  }

  /** Copies the images of a commit that are of the range: all of them, whatever the queue has. */
  noteCommit(rows: readonly Uint8Array[]): void {
    for (const row of rows) {
      const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
      for (let at = ROW_HEADER_BYTES, length = 0; at < row.length; at += length) {
        length = imageBytes(view, at);
        // Marks of the clock and of counts are of this shard alone.
        if (imageKind(row, at) === ImageKind.superseded) continue;
        this.#noteImage(this.#image.read(row, view, at), at, length);
      }
    }
  }

  #noteImage(image: RecordImage, at: number, length: number): void {
    const { keyspace, bytes, keyAt, keyBytes, kind } = image;
    if (!this.#isOfRange(image)) return;
    const { table } = this.#records;
    const isThere = kind !== 0 && table.find(keyspace, bytes, keyAt, keyBytes);
    if (isThere) table.setMoving(table.segment, table.slot, true);
    this.#queue.addImage(bytes, at, length, table.segment, isThere ? table.slot : -1);
  }

  /**
   * The number in the tombstone of a holding may be another semaphore's by now, so such a tombstone is always copied: it
   * comes before all images of holdings that have the number since, and removes nothing that is there.
   */
  #isOfRange({ keyspace, bytes, keyAt, keyBytes, kind }: RecordImage): boolean {
    if (keyspace !== Keyspace.holdings) {
      return this.#isIn(this.#place.hashOf(keyspace, bytes, keyAt, keyBytes));
    }
    const number = readU32(bytes, keyAt + HOLDING_NUMBER);
    return kind === 0 || this.#isIn(this.#semaphores.placeOf(number, this.#place));
  }

  #isIn(hash: number): boolean {
    return isIn(this.range, hash);
  }
}
