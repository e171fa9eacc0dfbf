/**
 * Journal and snapshots of one shard in its SQLite database.
 *
 * A generation is a snapshot and the journal that began with it. Cutting the journal means: open the journal of the next
 * generation, write the next snapshot beside the present one, a step at a time, then name the next generation in the one
 * row that says which is in force, and drop the tables of the old one. Dropping a table writes no rows, where deleting
 * would be billed row by row, and a crash at any point leaves a generation in force that is whole. An object that restarts
 * during a cut continues it. The journal writes, but does not decide when: that is `GroupCommit`.
 */
import type { Engine } from "../../engine/engine.ts";
import type { HashKey } from "../../engine/hash.ts";
import { HASH_END } from "../../engine/table.ts";
import type { Placement } from "../../wire/batch.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import {
  COMMITS_PER_CUT_ROW,
  JOURNAL_BYTES_MAX,
  JOURNAL_BYTES_MIN,
  JOURNAL_ROWS_MIN,
  JOURNAL_ROW_BYTES_MAX,
  SNAPSHOT_STEP_BYTES,
} from "../../engine/sizes.ts";

// A newer format is refused, not guessed at: the release that wrote it can still read it.
const FORMAT_VERSION = 1;
// Two u32, little-endian.
const HASH_KEY_BYTES = 8;
/** Rows that a cut writes beside the snapshot's: two for each of two new tables, and the one that names the generation. */
const CUT_ROWS = 5;

/** The one row of the table `shard`. Data of releases before 0.5.0 lacks the columns that may be absent. */
type ShardRow = {
  format: number;
  shards: number;
  fingerprint: number;
  generation: number;
  /** Seed of the hash that orders the table, so that places in that order outlive a restart. */
  hash_key?: ArrayBuffer | null;
  /** 1 when shard 0 has a note of this shard's data. */
  is_noted?: number | null;
  /** Of shard 0: a bit for each shard that has data. */
  noted_shards?: ArrayBuffer | null;
  /** Of shard 0: 1 when the deployment lists the namespace. */
  is_registered?: number | null;
  /** `StoredCounts` of the journals that were cut. */
  counts?: ArrayBuffer | null;
};

/** Later columns: SQL that adds them to data of releases before 0.5.0. */
const LATER_COLUMNS = [
  "hash_key BLOB",
  "is_noted INTEGER",
  "noted_shards BLOB",
  "is_registered INTEGER",
  "counts BLOB",
];

/** Reads the seed that a shard's data is stored with; null when it has none yet. */
export function readHashKey(sql: SqlStorage): HashKey | null {
  const bytes = readShardRow(sql)?.hash_key;
  if (!(bytes instanceof ArrayBuffer) || bytes.byteLength !== HASH_KEY_BYTES) return null;
  const view = new DataView(bytes);
  return { low: view.getUint32(0, true), high: view.getUint32(4, true) };
}

/** Null before first use. */
function readShardRow(sql: SqlStorage): ShardRow | null {
  if (!hasTable(sql, "shard")) return null;
  return sql.exec<ShardRow>("SELECT * FROM shard").one();
}

function hasTable(sql: SqlStorage, name: string): boolean {
  const found = sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name);
  return found.toArray().length > 0;
}

/** Of one shard. All its methods but `load` end within the turn: SQLite of an object is synchronous. */
export class Journal {
  readonly #sql: SqlStorage;
  readonly #engine: Engine;
  readonly #hashKey: HashKey;
  /** What the data was written under; null before first use. */
  placement: Placement | null = null;
  /** The one in force: the row `shard` names it. */
  #generation = 0;
  /** Generation that commits go to: the one in force, or the next while a snapshot is being written. */
  #open = 0;
  /** Rows and bytes of the journal since it was last cut, or since the cut under way began. */
  rows = 0;
  bytes = 0;
  /** Where the snapshot under way goes on; null when none is. */
  #cursor: number | null = null;
  /** Rows of the snapshot in force, or of the one under way. */
  #snapshotRows = 0;
  /** Rows that were written since this object was made, snapshots and tables among them, as they are billed. */
  rowsWritten = 0;
  /** Shard 0 has a note of this shard's data. */
  isNoted = false;
  /** Of shard 0: the deployment lists the namespace. */
  isRegistered = false;
  /** Of shard 0: a bit for each shard that has data, the lowest of a byte first. */
  #notedShards: Uint8Array = new Uint8Array(0);
  /** The row lacks what this instance knows: the next commit writes it. */
  #isRowStale = false;

  /** @param hashKey the seed that the engine has: the stored one, or a new one, which is stored with the next commit */
  constructor(sql: SqlStorage, engine: Engine, hashKey: HashKey) {
    this.#sql = sql;
    this.#engine = engine;
    this.#hashKey = hashKey;
  }

  /**
   * Loads snapshot and journal into the engine.
   *
   * @throws Error when the data is of a format that this release does not know
   */
  load(): void {
    const state = readShardRow(this.#sql);
    if (state === null) return;
    if (state.format !== FORMAT_VERSION) {
      throw new ThrottrError(
        "format_unknown",
        `the data has format ${state.format}, and this release reads format ${FORMAT_VERSION}: run the release that wrote it`,
      );
    }
    this.placement = { shards: state.shards, fingerprint: state.fingerprint };
    this.#generation = this.#open = state.generation;
    // Without a stored seed the order of the table would change with each start, and cursors would not outlive one.
    this.#isRowStale = (state.hash_key ?? null) === null;
    this.isNoted = state.is_noted === 1;
    this.isRegistered = state.is_registered === 1;
    this.#notedShards = new Uint8Array(state.noted_shards ?? new ArrayBuffer(0));
    this.#engine.storedCounts.restore(new Uint8Array(state.counts ?? new ArrayBuffer(0)));
    // Rows are after-images: one that is applied twice changes nothing, so an overlap of the two does no harm.
    this.#restore(`snapshot_${this.#generation}`, () => this.#snapshotRows++);
    this.#restoreJournal(this.#generation);
    const next = this.#generation + 1;
    if (!hasTable(this.#sql, `journal_${next}`)) return;
    this.#resumeCut(next);
  }

  /**
   * Continues a cut that was under way. If each start began it again, a large shard that is put to sleep after each commit would
   * never end one.
   */
  #resumeCut(next: number): void {
    this.#open = next;
    const snapshot = `snapshot_${next}`;
    this.#snapshotRows = this.#sql
      .exec<{ rows: number }>(`SELECT count(*) AS rows FROM ${snapshot}`)
      .one().rows;
    this.#cursor = 0;
    const last = `SELECT n, row FROM ${snapshot} ORDER BY n DESC LIMIT 1`;
    for (const { n, row } of this.#sql.exec<{ n: number; row: ArrayBuffer }>(last)) {
      this.#cursor = n;
      // The time of this row may be later than that of any commit, and records that had ended by then are not in it.
      this.#engine.restore(new Uint8Array(row));
    }
    this.rows = 0;
    this.bytes = 0;
    this.#restoreJournal(next);
  }

  /** Records have been written, though they may be gone. */
  get hasData(): boolean {
    return this.rows > 0 || this.#open > 0;
  }

  /** Says that shard 0 has a note of this shard's data; the next commit writes it down. */
  setNoted(): void {
    this.isNoted = true;
    this.#isRowStale = true;
  }

  /** In shard 0: writes down that the deployment lists the namespace. */
  storeRegistered(): void {
    this.isRegistered = true;
    this.#updateRow();
  }

  /** In shard 0: there is a note of a shard's data. */
  hasNoted(shard: number): boolean {
    return ((this.#notedShards[shard >>> 3] ?? 0) & (1 << (shard & 7))) !== 0;
  }

  /** In shard 0: writes down that a shard has data. */
  noteShard(shard: number): void {
    this.#addNote(shard);
    this.#updateRow();
  }

  /** Grows the bits where needed; the caller writes them. */
  #addNote(shard: number): void {
    const notes = new Uint8Array(Math.max(this.#notedShards.length, (shard >>> 3) + 1));
    notes.set(this.#notedShards);
    notes[shard >>> 3]! |= 1 << (shard & 7);
    this.#notedShards = notes;
  }

  /**
   * Records what the data is written under, at first use.
   *
   * @param noted in shard 0: the other shards that have data
   */
  create(placement: Placement, noted: readonly number[]): void {
    for (const shard of noted) this.#addNote(shard);
    const later = LATER_COLUMNS.join(", ");
    this.#write(
      `CREATE TABLE shard (format INTEGER, shards INTEGER, fingerprint INTEGER, generation INTEGER, ${later})`,
    );
    this.#write(
      "INSERT INTO shard (format, shards, fingerprint, generation, hash_key, noted_shards) VALUES (?, ?, ?, 0, ?, ?)",
      FORMAT_VERSION,
      placement.shards,
      placement.fingerprint,
      this.#hashKeyBytes(),
      this.#notedShards,
    );
    this.#createGeneration(0);
    this.placement = placement;
  }

  /**
   * Writes the engine's commit, as one row if it fits one, and a step of a snapshot if one is due. The
   * commit goes first: a snapshot never knows what no journal does.
   */
  append(): void {
    this.#writeCommit();
    this.#cut();
  }

  /**
   * Sets the clock back, and all times of records: see `Engine.setClockBack`. There must be no cut under way, whose
   * snapshot would have records from before and from after. One row says it, so a crash leaves both or neither.
   */
  setClockBack(): void {
    this.#writeCommit();
    this.#writeRow(this.#engine.setClockBack());
  }

  /** Stores the time of the shard, where there is data. A shard that is only read may write no other rows for a long time. */
  storeClock(): void {
    if (this.placement === null) return;
    this.#writeRow(this.#engine.takeClockRow());
    if (!this.#engine.isDirty) this.#cut();
  }

  /** Writes the counts that no row has, where there is data: a row of their own, for those who must not see less later. */
  storeCounts(): void {
    const row = this.placement === null ? null : this.#engine.takeCountsRow();
    if (row !== null) this.#writeRow(row);
  }

  /** Takes what the engine has changed since the last commit, as after-images of records. */
  #writeCommit(): void {
    if (this.#isRowStale) this.#updateRow();
    if (!this.#engine.isDirty) return;
    // One row, unless the commit is larger than a row may be.
    for (const row of this.#engine.takeCommit(JOURNAL_ROW_BYTES_MAX)) this.#writeRow(row);
  }

  /** One row of the journal: the unit that is billed. */
  #writeRow(row: Uint8Array): void {
    this.#write(`INSERT INTO journal_${this.#open} (row) VALUES (?)`, row);
    this.rows++;
    this.bytes += row.length;
  }

  /** True when most of what is stored is of records that are gone, and it is worth the rows of a cut. */
  get isMostlyDead(): boolean {
    const { records, bytes } = this.#engine.figures;
    if (this.bytes > JOURNAL_BYTES_MIN) return this.bytes > 2 * bytes;
    if (records > 0) return false;
    return this.#snapshotRows > CUT_ROWS || this.rows >= COMMITS_PER_CUT_ROW * CUT_ROWS;
  }

  /** Begins a cut that is due, or takes a step of the one under way. */
  #cut(): void {
    if (this.#cursor === null && this.isCutDue) this.beginCut();
    else this.#stepCut();
  }

  /** Begins a cut, unless one is under way. */
  beginCut(): void {
    if (this.#cursor !== null) return;
    this.#open = this.#generation + 1;
    this.#createGeneration(this.#open);
    this.rows = 0;
    this.bytes = 0;
    this.#snapshotRows = 0;
    this.#cursor = 0;
  }

  /** True while the journal is being cut: every `append` takes a step. */
  get isCutting(): boolean {
    return this.#cursor !== null;
  }

  /**
   * Writes a step of the snapshot; with the last one the new generation is in force. All in one turn, so the platform
   * commits the three statements together.
   */
  #stepCut(): void {
    if (this.#cursor === null) return;
    const step = this.#engine.snapshotStep(
      this.#cursor,
      SNAPSHOT_STEP_BYTES,
      JOURNAL_ROW_BYTES_MAX,
    );
    // The number of a step's last row says where the next step begins. Releases before 0.5.0 count from 1: these are
    // hashes of the first segment, with which a cut begins.
    let n = (step.cursor ?? HASH_END) - step.rows.length;
    for (const row of step.rows) {
      this.#write(`INSERT INTO snapshot_${this.#open} (n, row) VALUES (?, ?)`, ++n, row);
      this.#snapshotRows++;
    }
    this.#cursor = step.cursor;
    if (step.cursor !== null) return;
    this.#addColumns();
    // The journal that is dropped had the counts. In the one row that is written anyway they cost none of their own.
    const counts = this.#engine.storedCounts.takeAll(this.#engine.nowMs);
    this.#write("UPDATE shard SET generation = ?, counts = ?", this.#open, counts);
    this.#write(`DROP TABLE snapshot_${this.#generation}`);
    this.#write(`DROP TABLE journal_${this.#generation}`);
    this.#generation = this.#open;
  }

  /** Weighs the rows of a cut against the start that a long journal would slow down. */
  get isCutDue(): boolean {
    if (this.bytes >= JOURNAL_BYTES_MAX) return true;
    const { bytes } = this.#engine.figures;
    const snapshotRows = Math.ceil(bytes / SNAPSHOT_STEP_BYTES) + 1;
    // A cut is billed by its rows, so it has to be worth them: about one row to ten commits.
    if (this.rows < COMMITS_PER_CUT_ROW * (snapshotRows + CUT_ROWS)) return false;
    return this.rows >= JOURNAL_ROWS_MIN || this.bytes >= Math.max(JOURNAL_BYTES_MIN, bytes / 2);
  }

  /** Writes what the row lacks, beside a commit: reads alone never write, so a full disk still serves them. */
  #updateRow(): void {
    this.#addColumns();
    this.#write(
      "UPDATE shard SET hash_key = ?, is_noted = ?, noted_shards = ?, is_registered = ?",
      this.#hashKeyBytes(),
      this.isNoted ? 1 : 0,
      this.#notedShards,
      this.isRegistered ? 1 : 0,
    );
    this.#isRowStale = false;
  }

  /** Data of an earlier release lacks columns. */
  #addColumns(): void {
    const names = Object.keys(readShardRow(this.#sql)!);
    for (const column of LATER_COLUMNS) {
      if (!names.includes(column.split(" ")[0]!))
        this.#write(`ALTER TABLE shard ADD COLUMN ${column}`);
    }
  }

  #hashKeyBytes(): ArrayBuffer {
    const bytes = new ArrayBuffer(HASH_KEY_BYTES);
    const view = new DataView(bytes);
    view.setUint32(0, this.#hashKey.low, true);
    view.setUint32(4, this.#hashKey.high, true);
    return bytes;
  }

  /** Its journal begins with its snapshot: commits go there while the snapshot is being written. */
  #createGeneration(generation: number): void {
    this.#createTable(`snapshot_${generation}`);
    this.#createTable(`journal_${generation}`);
  }

  #createTable(name: string): void {
    this.#write(`CREATE TABLE ${name} (n INTEGER PRIMARY KEY, row BLOB NOT NULL)`);
  }

  /** Counts what it reads: the journal goes on from there. */
  #restoreJournal(generation: number): void {
    this.#restore(`journal_${generation}`, (bytes) => {
      this.rows++;
      this.bytes += bytes;
    });
  }

  /** Reads row by row: a table may be larger than the memory that is left. */
  #restore(table: string, count: (bytes: number) => void): void {
    const rows = this.#sql.exec<{ row: ArrayBuffer }>(`SELECT row FROM ${table} ORDER BY n`);
    for (const { row } of rows) {
      count(row.byteLength);
      this.#engine.restore(new Uint8Array(row));
    }
  }

  /** Executes what writes, and counts its rows. */
  #write(query: string, ...bindings: readonly unknown[]): void {
    this.rowsWritten += this.#sql.exec(query, ...bindings).rowsWritten;
  }
}

/** A seed that no caller knows: names can't be chosen so that they all collide. */
export function randomHashKey(): HashKey {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return { low: low!, high: high! };
}
