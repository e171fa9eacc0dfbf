/** The disk of tests of commands, and what its engines hold. */
import type { Engine } from "../../../src/engine/engine.ts";
import { IMAGE_HEADER_BYTES, imageBytes, ROW_HEADER_BYTES } from "../../../src/engine/image.ts";
import { Disk } from "../engine/disk.ts";
import { hex } from "../frames/index.ts";

export interface DiskOptions {
  readonly rowBytesMax: number;
  readonly answerTtlMs: number;
  readonly bytesMax: number;
}

/** A disk whose engines have the same options each time, but for their hashes. */
export class CommandDisk extends Disk {
  readonly #options: DiskOptions;
  #starts = 0;

  constructor(options: DiskOptions) {
    super(options.rowBytesMax);
    this.#options = options;
  }

  /** An engine with what was written. */
  start(seed: number, nowMs: number): Engine {
    const { bytesMax, answerTtlMs } = this.#options;
    const hashKey = { low: seed, high: this.#starts++ };
    return this.load({ hashKey, bytesMax, answerTtlMs, isCounting: true }, nowMs);
  }
}

/** The images of all live records of an engine, answers too, in an order of their own. */
export function imagesOf(engine: Engine): string[] {
  const images: string[] = [];
  for (let cursor: number | null = 0; cursor !== null;) {
    const step = engine.snapshotStep(cursor, 1 << 20, 1 << 30);
    for (const row of step.rows) images.push(...imagesOfRow(row));
    cursor = step.cursor;
  }
  return images.toSorted();
}

/** The images of a row, as hex. */
export function imagesOfRow(row: Uint8Array): string[] {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  const images: string[] = [];
  for (let at = ROW_HEADER_BYTES, length = 0; at < row.length; at += length) {
    length = imageBytes(view, at);
    if (length < IMAGE_HEADER_BYTES) throw new Error("an image is too short");
    images.push(hex(row.subarray(at, at + length)));
  }
  return images;
}
