/** What a shard's database holds, kept in arrays: the protocol of `objects/shard/journal.ts`. */
import { Engine, type EngineOptions } from "../../../src/engine/engine.ts";

export class Disk {
  readonly #rowBytesMax: number;
  #snapshot: Uint8Array[] = [];
  #journal: Uint8Array[] = [];
  /** The generation that a cut is making. */
  #next: { snapshot: Uint8Array[]; journal: Uint8Array[]; cursor: number } | null = null;

  constructor(rowBytesMax: number) {
    this.#rowBytesMax = rowBytesMax;
  }

  /** Writes what needs a row, as a flush does, and all else with it. */
  flush(engine: Engine): void {
    if (engine.needsRow) this.commit(engine);
  }

  /** Writes all that has changed, as it must be before a step of a snapshot. */
  commit(engine: Engine): void {
    if (!engine.isDirty) return;
    const journal = this.#next?.journal ?? this.#journal;
    for (const row of engine.takeCommit(this.#rowBytesMax)) journal.push(row.slice());
  }

  /** A snapshot is under way. */
  get isCutting(): boolean {
    return this.#next !== null;
  }

  /** Writes some of a snapshot, behind a commit. */
  snapshotStep(engine: Engine): void {
    this.#next ??= { snapshot: [], journal: [], cursor: 0 };
    const { rows, cursor } = engine.snapshotStep(this.#next.cursor, 500, this.#rowBytesMax);
    this.#next.snapshot.push(...rows);
    if (cursor !== null) {
      this.#next.cursor = cursor;
      return;
    }
    this.#snapshot = this.#next.snapshot;
    this.#journal = this.#next.journal;
    this.#next = null;
  }

  /** An engine with what has been committed. */
  load(options: EngineOptions, nowMs: number): Engine {
    const engine = new Engine(options);
    engine.advance(nowMs);
    for (const row of [...this.#snapshot, ...this.#journal]) engine.restore(row);
    // A cut goes on where it was: of its snapshot only the last row is read.
    for (const row of this.#next?.snapshot.slice(-1) ?? []) engine.restore(row);
    for (const row of this.#next?.journal ?? []) engine.restore(row);
    return engine;
  }
}
