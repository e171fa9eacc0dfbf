/**
 * The next commit: the after-images of the records that have changed since the last one was taken.
 *
 * A record that changes again before the commit is written has its image overwritten in place, so a
 * thousand updates of one counter are one image. To find it, the record's slot remembers where in the
 * stream of all images its last one lies; a position before the commit's start is an old one.
 *
 * Some changes follow from what is stored, and from the time: a lease ends. A restart makes them again, so they need no row of their
 * own, and go with the next one.
 */
import { ByteWriter, copyBytes } from "../wire/bytes.ts";
import {
  IMAGE_HEADER_BYTES,
  IMAGE_VALUE,
  imageBytes,
  imageKind,
  ImageKind,
  Mark,
  patchImage,
  ROW_HEADER_BYTES,
  writeClockMark,
  writeCountsMark,
  writeImage,
  writeRowHeader,
  writeTombstone,
} from "./image.ts";
import type { ShardClock } from "./shard-clock.ts";
import { IMAGE_AT, keyLengthOf, Kind, kindOf, LOW, META, type Segment } from "./segment.ts";
import { COMMIT_POSITION_MAX } from "./sizes.ts";

export class Commit {
  readonly #out = new ByteWriter(64 * 1024);
  /** It has a change that a restart would not make again. */
  needsRow = false;
  /** Position in the stream of the first byte of `#out`. Position 0 stands for "no image". */
  #start = 1;
  #deadBytes = 0;

  constructor() {
    this.#out.reserve(ROW_HEADER_BYTES);
  }

  get isEmpty(): boolean {
    return this.#out.length === ROW_HEADER_BYTES;
  }

  /** Bytes of the images gathered so far. */
  get bytes(): number {
    return this.#out.length - ROW_HEADER_BYTES;
  }

  /** Takes changes that follow from what is stored, and from the time. */
  noteImplied(change: () => void): void {
    const { needsRow } = this;
    change();
    this.needsRow = needsRow;
  }

  /** A counter changed, or a record's expiry. */
  changed(segment: Segment, slot: number): void {
    this.needsRow = true;
    const at = this.#imageOf(segment, slot);
    if (at < 0) this.#append(segment, slot);
    else
      patchImage(
        this.#out.view,
        at,
        segment,
        slot,
        kindOf(segment.slots[slot + META]!) === Kind.buffer,
      );
  }

  /** A buffer is new, or its value changed, perhaps its length and unit too; or a counter was reset. */
  replaced(segment: Segment, slot: number): void {
    this.needsRow = true;
    const at = this.#imageOf(segment, slot);
    if (at >= 0) this.#kill(at);
    this.#append(segment, slot);
  }

  /** A buffer is new, or its value changed, but not its length. */
  rewritten(segment: Segment, slot: number): void {
    this.needsRow = true;
    const at = this.#imageOf(segment, slot);
    if (at < 0) {
      this.#append(segment, slot);
      return;
    }
    const { slots, arena } = segment;
    const to = at + IMAGE_HEADER_BYTES + keyLengthOf(slots[slot + META]!);
    copyBytes(arena, segment.valueAt(slot), this.#out.bytes, to, slots[slot + LOW]!);
  }

  /** The record in the slot is about to be removed before its time. */
  removed(segment: Segment, slot: number): void {
    this.needsRow = true;
    const at = this.#imageOf(segment, slot);
    if (at < 0) {
      writeTombstone(this.#out, segment, slot);
      return;
    }
    const { view } = this.#out;
    const valueBytes = imageBytes(view, at) - IMAGE_HEADER_BYTES - view.getUint16(at + 2, true);
    view.setUint8(at, ImageKind.tombstone);
    view.setUint32(at + IMAGE_VALUE, valueBytes, true);
    this.#deadBytes += valueBytes;
  }

  /**
   * Ends the commit: its rows, none of them longer than `rowBytesMax`, and an empty commit after it.
   * The rows are views that stay valid until the next change.
   *
   * @param counts of `StoredCounts`, which the commit takes along; null mostly
   */
  take(
    { nowMs, realMs }: ShardClock,
    rowBytesMax: number,
    counts: Uint8Array | null = null,
  ): Uint8Array[] {
    if (this.#deadBytes > 0) this.#compact();
    if (counts !== null) writeCountsMark(this.#out, counts);
    if (realMs !== nowMs) writeClockMark(this.#out, Mark.lagging, realMs);
    const rows = this.#cut(nowMs, rowBytesMax);
    this.needsRow = false;
    this.#start += this.#out.length;
    this.#out.reset();
    this.#out.reserve(ROW_HEADER_BYTES);
    return rows;
  }

  /** True when positions run out: `restart` must follow before the next change. */
  get isExhausted(): boolean {
    return this.#start > COMMIT_POSITION_MAX;
  }

  /** Starts the stream anew. All slots must have forgotten their positions before. */
  restart(): void {
    this.#start = 1;
  }

  /** Where in `#out` the slot's image of this commit begins, or -1. */
  #imageOf(segment: Segment, slot: number): number {
    return Math.max(-1, segment.slots[slot + IMAGE_AT]! - this.#start);
  }

  #append(segment: Segment, slot: number): number {
    const at = writeImage(this.#out, segment, slot);
    segment.slots[slot + IMAGE_AT] = this.#start + at;
    return at;
  }

  #kill(at: number): void {
    const { view } = this.#out;
    const bytes = imageBytes(view, at);
    // A counter has its quota there; a superseded image has the number of bytes behind the key.
    const valueBytes = bytes - IMAGE_HEADER_BYTES - view.getUint16(at + 2, true);
    view.setUint32(at + IMAGE_VALUE, valueBytes, true);
    view.setUint8(at, ImageKind.superseded);
    this.#deadBytes += bytes;
  }

  /** Drops superseded images and the values behind tombstones. */
  #compact(): void {
    const { bytes, view } = this.#out;
    const end = this.#out.length;
    let to = ROW_HEADER_BYTES;
    for (let at = ROW_HEADER_BYTES, length = 0; at < end; at += length) {
      length = imageBytes(view, at);
      const kind = imageKind(bytes, at);
      if (kind === ImageKind.superseded) continue;
      let kept = length;
      if (kind === ImageKind.tombstone) {
        kept = IMAGE_HEADER_BYTES + view.getUint16(at + 2, true);
        view.setUint32(at + IMAGE_VALUE, 0, true);
      }
      if (to !== at) copyBytes(bytes, at, bytes, to, kept);
      to += kept;
    }
    // The stream moves on by what was written, or an old position could match again.
    this.#start += end - to;
    this.#out.length = to;
    this.#deadBytes = 0;
  }

  #cut(nowMs: number, rowBytesMax: number): Uint8Array[] {
    const { bytes, view } = this.#out;
    const end = this.#out.length;
    if (end <= rowBytesMax) {
      writeRowHeader(view, nowMs);
      return [bytes.subarray(0, end)];
    }
    const rows: Uint8Array[] = [];
    let from = ROW_HEADER_BYTES;
    for (let at = from, length = 0; at < end; at += length) {
      length = imageBytes(view, at);
      if (at + length - from + ROW_HEADER_BYTES > rowBytesMax) {
        rows.push(makeRow(bytes.subarray(from, at), nowMs));
        from = at;
      }
    }
    rows.push(makeRow(bytes.subarray(from, end), nowMs));
    return rows;
  }
}

function makeRow(images: Uint8Array, nowMs: number): Uint8Array {
  const row = new Uint8Array(ROW_HEADER_BYTES + images.length);
  writeRowHeader(new DataView(row.buffer), nowMs);
  row.set(images, ROW_HEADER_BYTES);
  return row;
}
