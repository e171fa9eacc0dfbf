/**
 * The usage of records on their way from one shard to another.
 *
 *     usage = minute u32, (14 bytes as in `usage.ts`)*         one for each image of a row, in order; zeros for a tombstone
 *
 * Rows of a journal have no usage, as it is lost with the object. It goes beside them, in memory only.
 */
import { ByteWriter, copyBytes } from "../wire/bytes.ts";
import { MINUTE_MS } from "./minute-counts.ts";
import type { Records } from "./records.ts";
import { META, type Segment } from "./segment.ts";
import { turnMinute, USAGE_BYTES } from "./usage.ts";

const HEADER_BYTES = 4;

/** Minutes since the epoch, by the shard's clock. */
const minuteOf = ({ nowMs }: Records): number => Math.floor(nowMs / MINUTE_MS);

/** Gathers the usage of the images of a row; nothing where it is not counted. */
export class UsageWriter {
  readonly #records: Records;
  readonly #out = new ByteWriter(4096);
  #minute = 0;

  constructor(records: Records) {
    this.#records = records;
  }

  /** Adds the usage of the record in a slot; zeros for slot -1, a tombstone's. */
  add(segment: Segment, slot: number): void {
    if (segment.usageBytes === 0) return;
    const minute = minuteOf(this.#records);
    if (this.#out.length === 0) this.#begin(minute);
    else if (minute > this.#minute) this.#turn(minute);
    const at = this.#out.reserve(USAGE_BYTES);
    if (slot < 0) {
      this.#out.bytes.fill(0, at, at + USAGE_BYTES);
      return;
    }
    if (segment.minute !== minute) segment.turnMinute(minute);
    copyBytes(segment.arena, segment.usageAt(slot), this.#out.bytes, at, USAGE_BYTES);
  }

  #begin(minute: number): void {
    this.#out.u32(minute);
    this.#minute = minute;
  }

  /** All usage of a row is of one minute. */
  #turn(minute: number): void {
    const { bytes, view, length } = this.#out;
    for (let at = HEADER_BYTES; at < length; at += USAGE_BYTES) {
      turnMinute(bytes, at, minute > this.#minute + 1);
    }
    view.setUint32(0, minute, true);
    this.#minute = minute;
  }

  take(): Uint8Array<ArrayBuffer> {
    const usage = this.#out.take();
    this.#out.reset();
    return usage;
  }
}

/** Gives the restored records of a row their usage. */
export class UsageReader {
  readonly #records: Records;
  readonly #bytes: Uint8Array;
  readonly #minute: number;
  #at = HEADER_BYTES;

  constructor(records: Records, bytes: Uint8Array) {
    this.#records = records;
    this.#bytes = bytes;
    const { buffer, byteOffset, byteLength } = bytes;
    this.#minute = byteLength === 0 ? 0 : new DataView(buffer, byteOffset).getUint32(0, true);
  }

  /** After each image was restored, in their order: the current record, if there is one, is its record. */
  setNext(): void {
    const at = this.#at;
    this.#at += USAGE_BYTES;
    const { segment, slot } = this.#records;
    if (slot < 0 || segment.usageBytes === 0 || this.#at > this.#bytes.length) return;
    if (segment.slots[slot + META] === 0) return;
    const minute = minuteOf(this.#records);
    if (segment.minute !== minute) segment.turnMinute(minute);
    const to = segment.usageAt(slot);
    copyBytes(this.#bytes, at, segment.arena, to, USAGE_BYTES);
    if (minute > this.#minute) turnMinute(segment.arena, to, minute > this.#minute + 1);
  }
}
