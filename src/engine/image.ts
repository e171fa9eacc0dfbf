/**
 * After-images: what the journal and the snapshots consist of.
 *
 *     image = tag u8 (kind 2 bits, unit 3 bits), keyspace u8, key length u16,
 *             expires at u64 (ns since the epoch), value u64, key, bytes
 *
 * Little-endian. A counter's value is its quota; any other image's value is the count of bytes behind
 * the key. An image is the whole state of a record, so applying it twice, or applying several images of
 * one record in order, always ends in the state of the last one.
 *
 *     row = version u8, reserved 3, written at u64 (ms since the epoch, by the shard's clock), image*
 *
 * Marks stand among the images, as images of kind 3 without a key. `lagging` has the time of the platform's clock when the
 * row was written, if it was not the shard's. `setBack` has the time by which the clock and the times of all records
 * before it were set back. Both are in ms, in place of the expiry. `counts` has bytes of `StoredCounts` behind it. A
 * release that does not know a mark passes over it; 0.4.0 reads marks as images of records that have long expired.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  HIGH,
  KEY_AT,
  keyLengthOf,
  keyspaceOf,
  Kind,
  kindOf,
  LOW,
  META,
  unitOf,
  type Segment,
} from "./segment.ts";
import { U64 } from "./time.ts";
import { ThrottrError } from "../wire/edge/error.ts";

export const ROW_VERSION = 1;
export const ROW_HEADER_BYTES = 12;
export const IMAGE_HEADER_BYTES = 20;

/** Kinds of image beside the kinds of record. */
export const ImageKind = { ...Kind, tombstone: 0, superseded: 3 } as const;

/** In place of the keyspace of a mark. */
export const Mark = { lagging: 0xf, setBack: 0xe, counts: 0xd } as const;

export const IMAGE_EXPIRES = 4;
export const IMAGE_VALUE = 12;

export function writeRowHeader(row: DataView, nowMs: number): void {
  row.setUint32(0, ROW_VERSION, true);
  row.setUint32(4, nowMs >>> 0, true);
  row.setUint32(8, Math.floor(nowMs / 2 ** 32), true);
}

/**
 * Milliseconds since the epoch at which a row was written.
 *
 * @throws ThrottrError for a row of a version that this release does not know
 */
export function readRowHeader(row: DataView): number {
  const version = row.getUint8(0);
  if (version !== ROW_VERSION)
    throw new ThrottrError("row_version", `${version} is not ${ROW_VERSION}`);
  return row.getUint32(4, true) + row.getUint32(8, true) * 2 ** 32;
}

/** Appends the image of the record in a slot and returns where it begins. */
export function writeImage(out: ByteWriter, segment: Segment, slot: number): number {
  const { slots, arena } = segment;
  const meta = slots[slot + META]!;
  const isBuffer = kindOf(meta) === Kind.buffer;
  const valueBytes = isBuffer ? slots[slot + LOW]! : 0;
  const at = writeKey(out, segment, slot, kindOf(meta) | (unitOf(meta) << 2), valueBytes);
  patchImage(out.view, at, segment, slot, isBuffer);
  if (valueBytes > 0) {
    const valueAt = segment.valueAt(slot);
    const to = at + IMAGE_HEADER_BYTES + keyLengthOf(meta);
    out.bytes.set(arena.subarray(valueAt, valueAt + valueBytes), to);
  }
  return at;
}

/** Appends the tombstone of the record in a slot, which has no value. */
export function writeTombstone(out: ByteWriter, segment: Segment, slot: number): void {
  const at = writeKey(out, segment, slot, ImageKind.tombstone, 0);
  patchImage(out.view, at, segment, slot, true);
  out.view.setUint32(at + IMAGE_VALUE, 0, true);
}

/** Appends tag, keyspace and key of an image, with room for its other fields and its value; returns where it begins. */
function writeKey(
  out: ByteWriter,
  { slots, arena }: Segment,
  slot: number,
  tag: number,
  valueBytes: number,
): number {
  const meta = slots[slot + META]!;
  const keyLength = keyLengthOf(meta);
  const at = out.reserve(IMAGE_HEADER_BYTES + keyLength + valueBytes);
  const { view } = out;
  view.setUint8(at, tag);
  view.setUint8(at + 1, keyspaceOf(meta));
  view.setUint16(at + 2, keyLength, true);
  const keyAt = slots[slot + KEY_AT]!;
  const target = out.bytes;
  const from = at + IMAGE_HEADER_BYTES;
  for (let i = 0; i < keyLength; i++) target[from + i] = arena[keyAt + i]!;
  return at;
}

/** Writes the fields of an image that change while the record lives: expiry and value. */
export function patchImage(
  view: DataView,
  at: number,
  { slots }: Segment,
  slot: number,
  isBuffer: boolean,
): void {
  view.setUint32(at + IMAGE_EXPIRES, slots[slot + EXPIRES_LOW]!, true);
  view.setUint32(at + IMAGE_EXPIRES + 4, slots[slot + EXPIRES_HIGH]!, true);
  view.setUint32(at + IMAGE_VALUE, slots[slot + LOW]!, true);
  view.setUint32(at + IMAGE_VALUE + 4, isBuffer ? 0 : slots[slot + HIGH]!, true);
}

/** The fields of a record's image. One object is reused: each `read` overwrites them. */
export class RecordImage {
  keyspace: Keyspace = Keyspace.throttr;
  /** The row that key and value lie in. */
  bytes: Uint8Array = new Uint8Array(0);
  keyAt = 0;
  keyBytes = 0;
  /** 0 for a tombstone. */
  kind: Kind | 0 = 0;
  unit = 0;
  /** Of a buffer. */
  valueAt = 0;
  valueBytes = 0;
  /** Of a counter. */
  quotaHigh = 0;
  quotaLow = 0;
  readonly expires = new U64();

  /** Reads the image at `at`; `view` is of the same bytes. */
  read(bytes: Uint8Array, view: DataView, at: number): this {
    const low = view.getUint32(at + IMAGE_VALUE, true);
    this.keyspace = bytes[at + 1]! as Keyspace;
    this.bytes = bytes;
    this.keyAt = at + IMAGE_HEADER_BYTES;
    this.keyBytes = view.getUint16(at + 2, true);
    this.kind = imageKind(bytes, at) as Kind | 0;
    this.unit = bytes[at]! >>> 2;
    this.valueAt = this.keyAt + this.keyBytes;
    this.valueBytes = this.kind === ImageKind.counter ? 0 : low;
    this.quotaHigh = view.getUint32(at + IMAGE_VALUE + 4, true);
    this.quotaLow = low;
    this.expires.set(
      view.getUint32(at + IMAGE_EXPIRES + 4, true),
      view.getUint32(at + IMAGE_EXPIRES, true),
    );
    return this;
  }
}

/** A row with a mark of the clock alone. */
export function clockRow(mark: number, ms: number, nowMs: number): Uint8Array {
  const out = new ByteWriter(ROW_HEADER_BYTES + IMAGE_HEADER_BYTES);
  out.reserve(ROW_HEADER_BYTES);
  writeClockMark(out, mark, ms);
  writeRowHeader(out.view, nowMs);
  return out.take();
}

/** A row with a mark of counts, and without images of records. */
export function countsRow(counts: Uint8Array, time: RowTime): Uint8Array {
  const out = new ByteWriter(ROW_HEADER_BYTES + 2 * IMAGE_HEADER_BYTES + counts.length);
  out.reserve(ROW_HEADER_BYTES);
  writeCountsMark(out, counts);
  endRow(out, time);
  return out.take();
}

/** When a row is written: the shard's time, and the reading of the machine's clock that it was made of. */
export interface RowTime {
  readonly nowMs: number;
  readonly realMs: number;
}

/** Ends a row with its time. A restart continues from the time of the latest row, so each row says when the clock lags. */
export function endRow(out: ByteWriter, { nowMs, realMs }: RowTime): void {
  if (realMs !== nowMs) writeClockMark(out, Mark.lagging, realMs);
  writeRowHeader(out.view, nowMs);
}

/** Appends a mark whose other fields are zero, and returns where it begins. */
function writeMark(out: ByteWriter, mark: number): number {
  const at = out.reserve(IMAGE_HEADER_BYTES);
  out.bytes.fill(0, at, at + IMAGE_HEADER_BYTES);
  out.view.setUint8(at, ImageKind.superseded);
  out.view.setUint8(at + 1, mark);
  return at;
}

/** Appends a mark of counts, as `StoredCounts` takes them. */
export function writeCountsMark(out: ByteWriter, counts: Uint8Array): void {
  const at = writeMark(out, Mark.counts);
  out.view.setUint32(at + IMAGE_VALUE, counts.length, true);
  out.copy(counts);
}

/** The counts of the mark at `at`, which is `length` bytes long. */
export function readCountsMark(row: Uint8Array, at: number, length: number): Uint8Array {
  return row.subarray(at + IMAGE_HEADER_BYTES, at + length);
}

/** Appends a mark of the clock, and its milliseconds. */
export function writeClockMark(out: ByteWriter, mark: number, ms: number): void {
  const at = writeMark(out, mark);
  const { view } = out;
  view.setUint32(at + IMAGE_EXPIRES, ms >>> 0, true);
  view.setUint32(at + IMAGE_EXPIRES + 4, Math.floor(ms / 2 ** 32), true);
}

/** Milliseconds of the mark at `at`. */
export function readClockMark(view: DataView, at: number): number {
  return (
    view.getUint32(at + IMAGE_EXPIRES, true) +
    view.getUint32(at + IMAGE_EXPIRES + 4, true) * 2 ** 32
  );
}

/** Kind of the image at `at`. */
export function imageKind(bytes: Uint8Array, at: number): number {
  return bytes[at]! & 0x3;
}

/** Bytes that the image at `at` takes. */
export function imageBytes(view: DataView, at: number): number {
  const isCounter = (view.getUint8(at) & 0x3) === ImageKind.counter;
  const valueBytes = isCounter ? 0 : view.getUint32(at + IMAGE_VALUE, true);
  return IMAGE_HEADER_BYTES + view.getUint16(at + 2, true) + valueBytes;
}
