/** What a shard's database holds, kept in arrays: the protocol of `objects/journal.ts`. */
import { Engine } from "../../src/engine/engine.ts";
import { IMAGE_HEADER_BYTES, imageBytes, ROW_HEADER_BYTES } from "../../src/engine/image.ts";
import { hex } from "./frames.ts";

export interface DiskOptions {
  readonly rowBytesMax: number;
  readonly answerTtlMs: number;
  readonly bytesMax: number;
}

export class CommandDisk {
  readonly #options: DiskOptions;
  #snapshot: Uint8Array[] = [];
  #journal: Uint8Array[] = [];
  #next: { snapshot: Uint8Array[]; journal: Uint8Array[]; cursor: number } | null = null;
  #starts = 0;

  constructor(options: DiskOptions) {
    this.#options = options;
  }

  commit(engine: Engine): void {
    if (!engine.isDirty) return;
    const journal = this.#next?.journal ?? this.#journal;
    for (const row of engine.takeCommit(this.#options.rowBytesMax)) journal.push(row.slice());
  }

  snapshotStep(engine: Engine): void {
    this.#next ??= { snapshot: [], journal: [], cursor: 0 };
    const { rows, cursor } = engine.snapshotStep(this.#next.cursor, 500, this.#options.rowBytesMax);
    this.#next.snapshot.push(...rows);
    if (cursor !== null) {
      this.#next.cursor = cursor;
      return;
    }
    this.#snapshot = this.#next.snapshot;
    this.#journal = this.#next.journal;
    this.#next = null;
  }

  /** An engine with what was written. */
  load(seed: number, nowMs: number): Engine {
    const { bytesMax, answerTtlMs } = this.#options;
    const hashKey = { low: seed, high: this.#starts++ };
    const engine = new Engine({ hashKey, bytesMax, answerTtlMs, isCounting: true });
    engine.advance(nowMs);
    for (const row of [...this.#snapshot, ...this.#journal, ...(this.#next?.journal ?? [])]) {
      engine.restore(row);
    }
    if (this.#next !== null) this.#next = { ...this.#next, snapshot: [], cursor: 0 };
    return engine;
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
