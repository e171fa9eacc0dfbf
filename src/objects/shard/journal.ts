/**
 * Journal and snapshots of one shard in its SQLite database.
 *
 * A generation is a snapshot and the journal that began with it. Cutting the journal means: open the journal of the next
 * generation, write the next snapshot beside the present one, a step at a time, then name the next generation in the one
 * row that says which is in force, and drop the tables of the old one. Dropping a table writes no rows, where deleting
 * would be billed row by row, and a crash at any point leaves a generation in force that is whole. An object that restarts
 * during a cut continues it. The journal writes, but does not decide when: that is `GroupCommit`.
 *
 * The journal of a shard that adopts a range consists of the rows that it was sent, under the numbers that they were sent
 * with, so it knows which row is next without storing that.
 */
import type { Engine } from "../../engine/engine.ts";
import type { HashKey } from "../../engine/hash.ts";
import { HASH_END } from "../../engine/table.ts";
import type { Placement } from "../../wire/batch.ts";
import type { AdoptOutcome, RangeOffer } from "../../base/calls/splits.ts";
import type { Range } from "../../wire/range.ts";
import { NotedShards } from "./noted-shards.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { JOURNAL_ROW_BYTES_MAX, SNAPSHOT_STEP_BYTES } from "../../engine/sizes.ts";
import { isCutDue, isMostlyDead } from "./cut-due.ts";
import { assertSameSeed } from "./same-placement.ts";
import { hashKeyBytes, hasTable, LATER_COLUMNS, readShardRow, type Sql } from "./shard-row.ts";
import { SPLIT_FORMAT, SplitRows, WHOLE_FORMAT } from "./split-rows.ts";

/** What spreads the keys of the namespace: see `KeyHash`. */
export interface PlacementHash {
  readonly seed: HashKey;
  readonly fingerprint: number;
}

/** Of one shard. All its methods but `load` end within the turn: SQLite of an object is synchronous. */
export class Journal {
  readonly #sql: Sql;
  readonly #engine: Engine;
  /** Of this deployment: says where the records of rows belong. */
  readonly #hash: PlacementHash;
  /** Seed of the order of the table, as it is stored. */
  hashKey: HashKey;
  /** What the row says of splits. */
  readonly split: SplitRows;
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
  /** Of shard 0: the witness knows of data outside of it. A row that is written anyway says so; until then each start tells it again. */
  isWitnessed = false;
  /** Of shard 0: the other shards that have data. */
  readonly noted = new NotedShards();
  /** The row lacks what this instance knows: the next commit writes it. */
  #isRowStale = false;

  /**
   * @param hashKey the seed that the engine has: the stored one, or a new one, which is stored with the next commit
   * @param hash of this deployment
   */
  constructor(sql: Sql, engine: Engine, hashKey: HashKey, hash: PlacementHash) {
    this.#sql = sql;
    this.#engine = engine;
    this.hashKey = hashKey;
    this.#hash = hash;
    this.split = new SplitRows((columns) => {
      this.#addColumns();
      const names = Object.keys(columns);
      const places = names.map((name) => `${name} = ?`).join(", ");
      this.#write(`UPDATE shard SET ${places}`, ...Object.values(columns));
    });
  }

  /**
   * Loads snapshot and journal into the engine.
   *
   * @throws Error when the data is of a format that this release does not know, or was written with another seed: a split would give
   * the wrong records away, and a start behind it leave the wrong ones out
   */
  load(): void {
    const state = readShardRow(this.#sql);
    if (state === null) return;
    // A newer format is refused, not guessed at: the release that wrote it can still read it.
    if (state.format !== WHOLE_FORMAT && state.format !== SPLIT_FORMAT) {
      throw new ThrottrError(
        "format_unknown",
        `the data has format ${state.format}, and this release reads formats ${WHOLE_FORMAT} and ${SPLIT_FORMAT}: run the release that wrote it`,
      );
    }
    const placement = { shards: state.shards, fingerprint: state.fingerprint };
    this.assertSeed(placement);
    this.placement = placement;
    this.#generation = this.#open = state.generation;
    this.split.load(state);
    const isFiltered = this.split.mustFilter(state.generation);
    if (isFiltered) this.#engine.ownership.restoreOnly(this.split.range!, this.#hash.seed);
    // Without a stored seed the order of the table would change with each start, and cursors would not outlive one.
    this.#isRowStale = (state.hash_key ?? null) === null;
    this.isNoted = state.is_noted === 1;
    this.isRegistered = state.is_registered === 1;
    this.isWitnessed = state.is_witnessed === 1;
    this.noted.bits = new Uint8Array(state.noted_shards ?? new ArrayBuffer(0));
    this.#engine.storedCounts.restore(new Uint8Array(state.counts ?? new ArrayBuffer(0)));
    if (state.generation === 0 && !hasTable(this.#sql, "journal_0")) this.#createMissing();
    // Rows are after-images: one that is applied twice changes nothing, so an overlap of the two does no harm.
    this.#restore(`snapshot_${this.#generation}`, () => this.#snapshotRows++);
    this.#restoreJournal(this.#generation);
    const next = this.#generation + 1;
    if (hasTable(this.#sql, `journal_${next}`)) this.#resumeCut(next);
    if (isFiltered) this.#engine.ownership.endRestore();
    this.#engine.endRestore();
  }

  /**
   * Checks that data has, or would have, the seed of this deployment. Callers and objects of two deployments may meet.
   *
   * @throws ThrottrError `shards_mismatch`
   */
  assertSeed(placement: Placement): void {
    assertSameSeed(placement, this.#hash);
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

  /**
   * Gives the upper part of a range away: the moment of a split. The copy must be complete, and adopted. One row, in the
   * turn of the last commit.
   *
   * @param range that the shard owns
   */
  give(range: Range): void {
    // A cut under way has records of the upper part in its snapshot already.
    this.split.give(range, this.#open + 1);
    this.#engine.ownership.giveAway(this.#hash.seed);
  }

  /**
   * Writes a row of a range that another shard offers, unless it was written before. It may be acknowledged once it is on
   * disk.
   *
   * @param number of the row in its attempt, from 1 on
   * @param usage of its records
   */
  adopt(offer: RangeOffer, number: number, row: Uint8Array, usage: Uint8Array): AdoptOutcome {
    const isUnborn = this.placement === null;
    if (!isUnborn && this.split.isActive) return "active";
    if (!isUnborn && offer.attempt < this.split.attempt) return "lower";
    const isNew = isUnborn || offer.attempt > this.split.attempt;
    const last = isNew ? 0 : this.rows;
    if (number <= last) return "applied";
    if (number > last + 1) return "gap";
    if (isNew) this.#beginAdopting(offer);
    this.#write("INSERT INTO journal_0 (n, row) VALUES (?, ?)", number, row);
    this.rows++;
    this.bytes += row.length;
    this.#engine.ownership.adopt(row, usage);
    return "applied";
  }

  /** Starts empty, whatever an earlier attempt has left. */
  #beginAdopting({ placement, hashKey, range, parent, attempt }: RangeOffer): void {
    this.#drop();
    this.hashKey = hashKey;
    this.#engine.ownership.clear(hashKey);
    this.create(placement, []);
    const { from, to } = range;
    this.split.adopt({ from, to }, parent, attempt);
  }

  /**
   * The range that was adopted in an attempt is in force. The engine must have read the clock just now.
   *
   * @param parentMs the time of the shard that has given it, by its own clock
   * @returns false, and nothing done, where another attempt is adopted, or none
   */
  activate(attempt: number, parentMs: number): boolean {
    if (!this.#isAdopting(attempt)) return this.placement !== null && this.split.isActive;
    this.#engine.ownership.followClock(parentMs);
    this.#writeRow(this.#engine.takeClockRow());
    this.split.activate();
    return true;
  }

  /**
   * Drops what was adopted in an attempt that was given up.
   *
   * @returns false, and nothing done, where another attempt is adopted by now, or none
   */
  dropAdopted(attempt: number): boolean {
    if (!this.#isAdopting(attempt)) return false;
    this.#drop();
    this.#engine.ownership.clear(this.hashKey);
    return true;
  }

  /** There is data, and it is in force. While it is adopted, a row of the shard's own would have the next one's number. */
  get #isServing(): boolean {
    return this.placement !== null && this.split.isActive;
  }

  #isAdopting(attempt: number): boolean {
    return this.placement !== null && !this.split.isActive && this.split.attempt === attempt;
  }

  /** Drops all that is stored: dropping tables writes no rows. */
  #drop(): void {
    if (this.placement === null) return;
    for (const table of ["shard", "snapshot_0", "journal_0"]) this.#write(`DROP TABLE ${table}`);
    this.placement = null;
    this.rows = 0;
    this.bytes = 0;
    this.split.load({});
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
    return this.noted.has(shard);
  }

  /** In shard 0: writes down that a shard has data. */
  noteShard(shard: number): void {
    this.noted.add(shard);
    this.#updateRow();
  }

  /**
   * Records what the data is written under, at first use.
   *
   * @param noted in shard 0: the other shards that have data
   */
  create(placement: Placement, noted: readonly number[]): void {
    for (const shard of noted) this.noted.add(shard);
    const later = LATER_COLUMNS.join(", ");
    // One without its row, of release 0.4.0.
    this.#write("DROP TABLE IF EXISTS shard");
    this.#write(
      `CREATE TABLE shard (format INTEGER, shards INTEGER, fingerprint INTEGER, generation INTEGER, ${later})`,
    );
    this.#write(
      "INSERT INTO shard (format, shards, fingerprint, generation, hash_key, noted_shards) VALUES (?, ?, ?, 0, ?, ?)",
      WHOLE_FORMAT,
      placement.shards,
      placement.fingerprint,
      hashKeyBytes(this.hashKey),
      this.noted.bits,
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

  /** Stores the time of the shard, where there is data: one row, so where it fails nothing has changed. */
  storeClock(): void {
    if (this.#isServing) this.#writeRow(this.#engine.takeClockRow());
  }

  /**
   * Writes the counts that no row has, where there is data: a row of their own, for those who must not see less later. Where it
   * fails nothing has changed.
   */
  storeCounts(): void {
    const row = this.#isServing ? this.#engine.takeCountsRow() : null;
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
    return isMostlyDead(this, this.#snapshotRows, this.#engine.figures);
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
    const isFilterOver =
      this.split.mustFilter(this.#generation) && !this.split.mustFilter(this.#open);
    // The journal that is dropped had the counts. In the one row that is written anyway they cost none of their own.
    const counts = this.#engine.storedCounts.takeAll(this.#engine.nowMs);
    this.#write(
      "UPDATE shard SET generation = ?, counts = ?, is_witnessed = ?",
      this.#open,
      counts,
      this.isWitnessed ? 1 : 0,
    );
    this.#write(`DROP TABLE snapshot_${this.#generation}`);
    this.#write(`DROP TABLE journal_${this.#generation}`);
    this.#generation = this.#open;
    if (isFilterOver) this.#engine.ownership.noteNoneStored();
  }

  /** Weighs the rows of a cut against the start that a long journal would slow down. */
  get isCutDue(): boolean {
    return this.split.mustFilter(this.#generation) || isCutDue(this, this.#engine.figures.bytes);
  }

  /** Writes what the row lacks, beside a commit: reads alone never write, so a full disk still serves them. */
  #updateRow(): void {
    this.#addColumns();
    this.#write(
      "UPDATE shard SET hash_key = ?, is_noted = ?, noted_shards = ?, is_registered = ?, is_witnessed = ?",
      hashKeyBytes(this.hashKey),
      this.isNoted ? 1 : 0,
      this.noted.bits,
      this.isRegistered ? 1 : 0,
      this.isWitnessed ? 1 : 0,
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

  /** Its journal begins with its snapshot: commits go there while the snapshot is being written. */
  #createGeneration(generation: number): void {
    this.#createTable(`snapshot_${generation}`);
    this.#createTable(`journal_${generation}`);
  }

  /** On a full disk release 0.4.0 could write the row of a new shard without its tables, of which the journal is the last. */
  #createMissing(): void {
    if (!hasTable(this.#sql, "snapshot_0")) this.#createTable("snapshot_0");
    this.#createTable("journal_0");
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
