/**
 * The storage of one object, over all its lives.
 *
 * All that a life writes within one event is a turn, which is durable as a whole or lost as a whole. The life sees its writes at
 * once. When the event has ended, the turn's commit begins; commits end in the order of their turns. What is not durable yet may
 * be lost: a crash keeps any number of the first turns of it.
 */
import type { Random } from "../../kernel/random.ts";
import type { Trace } from "../../kernel/trace.ts";
import type { VirtualTime } from "../../kernel/virtual-time.ts";
import { LifeOver, type Life } from "../life.ts";
import { Database } from "./database.ts";
import { COMMIT_FAILED, FOREIGN_KEY_VIOLATED, FULL } from "./errors.ts";
import { Storage } from "./storage.ts";

type CommitFate = "durable" | "failed" | "durable, and reported as failed";

/** What a disk needs of a run. */
export interface DiskSite {
  readonly time: Pick<VirtualTime, "at" | "nowMs">;
  readonly trace: Pick<Trace, "note">;
  readonly faults: {
    /** How long a commit takes, in ms. */
    commitMs(): number;
    /** What becomes of a turn's commit; the step is what the turn wrote last, but for an alarm that it set as well. */
    commitFate(object: string, step: string): CommitFate;
  };
}

/** What an object has written in all its lives, also what was lost again: as the platform bills it. */
export interface Written {
  rows: number;
  /** Of bindings. */
  bytes: number;
  /** Of the turn that wrote most of them. */
  turnBytesMost: number;
  /** Times that an alarm was set: a row each. */
  alarms: number;
}

/** The writes of one event. */
interface Turn {
  /** What it has written last, but for an alarm that it has set as well. */
  step: string;
  /** The event is over: the commit is under way. */
  hasEnded: boolean;
  isDurable: boolean;
  /** Why it can't be committed, so that the object will be reset. */
  doom: string | null;
  /** Of its commit, once that is under way. */
  fate: CommitFate;
  /** Keeps its commit from ending. */
  cancel: () => void;
}

/** Turns that have a savepoint each; beyond that, turns share the last one's commit. */
const TURNS_MAX = 64;
const ALARM_TABLE = "_cf_METADATA";
const ALARM_STEP = "alarm";

export class Disk {
  readonly name: string;
  readonly #site: DiskSite;
  database: Database;
  readonly written: Written;
  /** Called when the stored alarm may have changed. */
  onAlarmChanged: () => void = () => {};
  /** Of the running life. */
  #life: Life | null = null;
  /** Turns since all was durable, durable ones first. */
  #turns: Turn[] = [];
  /** The last of them, while its event goes on. */
  #open: Turn | null = null;
  #waiting: { readonly turn: Turn; readonly run: () => void }[] = [];
  #lastCommitAtMs = 0;
  /** As stored; undefined when it has to be read. */
  #alarmMs: number | null | undefined;
  /** The alarm is ringing: the object sees none until it sets the next one. */
  #isRinging = false;
  #bytesMax = Infinity;
  /** What the present event has written. */
  #turnBytes = 0;
  #resetsWhenFull: () => boolean = () => true;
  /** Another disk has what is durable: every commit fails. */
  #isStale = false;

  /** @param name of the object */
  constructor(
    site: DiskSite,
    name: string,
    database = new Database(),
    written: Written = { rows: 0, bytes: 0, turnBytesMost: 0, alarms: 0 },
  ) {
    this.#site = site;
    this.name = name;
    this.database = database;
    this.written = written;
  }

  /** The storage of a new life. There is one at a time. */
  open(life: Life): Storage {
    this.#life = life;
    return new Storage(this, life);
  }

  close(): void {
    for (const turn of this.#turns) turn.cancel();
    this.database.close();
  }

  /** Whether nothing is lost in a crash of now, and nothing waits for that. */
  get isDurable(): boolean {
    return this.#turns.length === 0 && this.#waiting.length === 0;
  }

  /** Runs something when all that was written so far is durable: at once if it is, never if any of it is lost. */
  onDurable(run: () => void): void {
    // What waits already goes first, also where its time has come.
    const turn = this.#turns.at(-1) ?? this.#waiting.at(-1)?.turn;
    if (turn === undefined) run();
    else this.#waiting.push({ turn, run });
  }

  /** The object has written some rows. */
  noteWritten(rows: number, bytes: number): void {
    const { written } = this;
    written.rows += rows;
    written.bytes += bytes;
    this.#turnBytes += bytes;
    written.turnBytesMost = Math.max(written.turnBytesMost, this.#turnBytes);
  }

  /**
   * The event that may have written is over.
   *
   * @returns the step whose commit begins; null where none does
   */
  endTurn(): string | null {
    const turn = this.#open;
    this.#turnBytes = 0;
    if (turn === null) return null;
    const doom = turn.doom ?? (this.database.violatesReferences ? FOREIGN_KEY_VIOLATED : null);
    if (doom !== null) {
      this.dropTurn();
      this.#break(doom);
      return null;
    }
    this.#open = null;
    if (turn.hasEnded) return null;
    turn.hasEnded = true;
    const { time, faults } = this.#site;
    turn.fate = this.#isStale ? "failed" : faults.commitFate(this.name, turn.step);
    this.#lastCommitAtMs = Math.max(this.#lastCommitAtMs, time.nowMs + faults.commitMs());
    turn.cancel = time.at(this.#lastCommitAtMs, () => this.#endCommit(turn));
    return turn.step;
  }

  /** Undoes what the present event has written: the object was aborted in it. */
  dropTurn(): void {
    if (this.#open !== null) this.#keepTurns(this.#turns.length - 1);
  }

  /** The process has died. Some of the turns that have ended are on disk, the first ones; the present one is not. */
  crash(random: Pick<Random, "int">): void {
    const kept = this.#randomPrefix(random);
    this.#site.trace.note("disk.crash", this.name, kept, this.#turns.length);
    this.#keepTurns(kept);
    this.#forgetAllButDurable();
  }

  /**
   * Between events, the object moves elsewhere, while its life here does not know: it reads what it has, and commits of it fail.
   *
   * @returns the disk of the next life, with what a crash of now would keep
   */
  handOver(random: Pick<Random, "int">): Disk {
    const seen = Database.copyOf(this.database);
    const kept = this.#randomPrefix(random);
    this.database.undo(kept);
    this.database.keepAll();
    const successor = new Disk(this.#site, this.name, this.database, this.written);
    this.database = seen;
    this.#isStale = true;
    for (const turn of this.#turns.slice(kept)) turn.fate = "failed";
    return successor;
  }

  /** The disk that a life finds where this one is not mounted. What is written there counts as written to this one. */
  emptyTwin(): Disk {
    return new Disk(this.#site, this.name, new Database(), this.written);
  }

  /**
   * Fills the disk: whatever needs room fails from now on. Reads, deletions and the alarm go on.
   *
   * @param options.freeBytes room that is left
   * @param options.isReset whether SQLite then gives up the whole turn, after which the platform resets the object, as workerd
   *   does where its disk is full; else the statement fails alone
   */
  fillUp({
    freeBytes = 0,
    isReset = () => true,
  }: { freeBytes?: number; isReset?: () => boolean } = {}): void {
    this.#bytesMax = this.database.bytes + freeBytes;
    this.#resetsWhenFull = isReset;
  }

  /** There is room again. */
  makeRoom(): void {
    this.#bytesMax = Infinity;
  }

  /** When the alarm rings, as stored; null when none is set. */
  get alarmMs(): number | null {
    if (this.#alarmMs === undefined) this.#alarmMs = this.#readAlarm();
    return this.#alarmMs;
  }

  /** The alarm begins to ring. It stays stored until it has ended well, and the object does not see it. */
  beginAlarm(): void {
    this.#isRinging = this.alarmMs !== null;
  }

  /** The alarm has ended, in an event of the object. One that has failed, or whose writes are lost, is seen again. */
  endAlarm(hasSucceeded = true): void {
    const isOver = this.#isRinging && hasSucceeded && !this.#isDoomed;
    this.#isRinging = false;
    if (isOver) this.setAlarm(null);
  }

  /** The platform gives the alarm up, in an event of the object or between two. */
  dropAlarm(): void {
    if (this.#isDoomed) return;
    const isBetween = this.#open === null;
    this.setAlarm(null);
    if (isBetween) this.endTurn();
  }

  // For the storage of a life.

  /** What the object sees of the alarm. */
  get shownAlarmMs(): number | null {
    return this.#isRinging ? null : this.alarmMs;
  }

  setAlarm(atMs: number | null): void {
    this.#isRinging = false;
    if (atMs !== null) this.written.alarms++;
    this.beginWrite(ALARM_STEP);
    this.database
      .own(`CREATE TABLE IF NOT EXISTS ${ALARM_TABLE} (key INTEGER PRIMARY KEY, value)`)
      .run();
    this.database.own(`INSERT OR REPLACE INTO ${ALARM_TABLE} VALUES (1, ?)`).run(atMs);
    this.#alarmMs = atMs;
    this.onAlarmChanged();
  }

  deleteAll(): void {
    this.beginWrite("storage.deleteAll");
    this.database.clear();
    this.#isRinging = false;
    this.#noteAlarm();
  }

  /**
   * What follows belongs to the turn of the present event.
   *
   * @param step what is about to be written
   * @throws Error when the turn is lost already
   */
  beginWrite(step: string): void {
    if (this.#open !== null) {
      this.#requireNoDoom();
      if (step !== ALARM_STEP) this.#open.step = step;
      return;
    }
    const last = this.#turns.at(-1);
    if (last !== undefined && this.#turns.length >= TURNS_MAX && !last.isDurable) {
      this.#open = last;
      return;
    }
    this.#open = {
      step,
      hasEnded: false,
      isDurable: false,
      doom: null,
      fate: "durable",
      cancel: () => {},
    };
    this.#turns.push(this.#open);
    this.database.begin();
  }

  /** @throws Error when the disk is full */
  requireRoom(bytes: number): void {
    if (this.#bytesMax === Infinity || this.database.bytes + bytes < this.#bytesMax) return;
    if (this.#resetsWhenFull()) this.#undoWhenFull(this.#open!);
    throw new Error(FULL);
  }

  /** SQLite gives up the transaction. Reads of the event go on, and the platform resets the object when it is over. */
  #undoWhenFull(turn: Turn): void {
    turn.doom = FULL;
    this.database.undo(this.#turns.length - 1);
    this.database.begin();
    this.#noteAlarm();
  }

  /** The object is reset when the present event is over. */
  get #isDoomed(): boolean {
    return (this.#open?.doom ?? null) !== null;
  }

  #requireNoDoom(): void {
    if (this.#isDoomed) throw new Error(this.#open!.doom!);
  }

  /** Runs a transaction within the turn. */
  transact<T>(life: Life, closure: () => T): T {
    this.beginWrite("storage.transactionSync");
    const { depth } = this.database;
    const wasRinging = this.#isRinging;
    this.database.begin();
    try {
      const result = closure();
      if (life.isOver) throw new LifeOver(life.name);
      this.#requireNoDoom();
      this.database.merge();
      return result;
    } catch (error) {
      // The end of a life has undone all of the turn.
      if (!life.isOver) {
        this.database.undo(depth);
        this.#isRinging = wasRinging;
        this.#noteAlarm();
      }
      throw error;
    }
  }

  // Commits.

  get #durableTurns(): number {
    const first = this.#turns.findIndex(({ isDurable }) => !isDurable);
    return first === -1 ? this.#turns.length : first;
  }

  /** How many of the first turns a crash keeps: those that are durable, and any number of those that have ended. */
  #randomPrefix(random: Pick<Random, "int">): number {
    const durable = this.#durableTurns;
    const ended = this.#turns.length - (this.#open === null ? 0 : 1);
    return durable + random.int(Math.max(0, ended - durable) + 1);
  }

  #endCommit(turn: Turn): void {
    if (turn.fate === "durable") this.#settle(turn);
    else this.#fail(turn, turn.fate !== "failed");
  }

  #settle(turn: Turn): void {
    turn.isDurable = true;
    this.#site.trace.note("disk.commit", this.name);
    if (turn === this.#turns.at(-1)) {
      this.#turns = [];
      this.database.keepAll();
    }
    while (this.#waiting[0]?.turn.isDurable === true) this.#waiting.shift()!.run();
  }

  /** The platform resets the object. What comes after a commit that has failed is lost with it. */
  #fail(turn: Turn, isDurable: boolean): void {
    const at = this.#turns.indexOf(turn);
    this.#site.trace.note("disk.commit failed", this.name, isDurable);
    this.#keepTurns(at + (isDurable ? 1 : 0));
    this.#forgetAllButDurable();
    this.#break(COMMIT_FAILED);
  }

  #break(reason: string): void {
    this.#life?.break(reason);
  }

  /** Undoes all turns but the first ones. */
  #keepTurns(count: number): void {
    for (const turn of this.#turns.slice(count)) turn.cancel();
    this.#turns.length = count;
    this.#open = null;
    this.#waiting = this.#waiting.filter(({ turn }) => this.#turns.includes(turn));
    this.database.undo(Math.min(count, this.database.depth));
    this.#isRinging = false;
    this.#noteAlarm();
  }

  /** What is there is durable. */
  #forgetAllButDurable(): void {
    for (const turn of this.#turns) turn.cancel();
    this.#turns = [];
    this.#waiting = [];
    this.database.keepAll();
  }

  #noteAlarm(): void {
    this.#alarmMs = undefined;
    this.onAlarmChanged();
  }

  #readAlarm(): number | null {
    if (!this.database.hasTable(ALARM_TABLE)) return null;
    const [row] = this.database.ownRows(`SELECT value FROM ${ALARM_TABLE}`);
    return (row?.[0] as number | null | undefined) ?? null;
  }
}
