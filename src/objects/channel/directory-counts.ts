/**
 * What the Directory keeps of counts: the last hour of the namespace, and totals of all that no shard counts.
 *
 * It is one value under one key, so it is one row, written with the first report of a minute. What comes later in the minute goes
 * with the next row, unless the Directory has a rest before: without calls it sleeps after ten seconds, and what only it knows
 * would be lost. That is what doors and Hubs have counted, as a Hub that sleeps begins to count at 0. Shards report sums of
 * what they store themselves, so their reports alone cause no second row.
 */
import { presentMs } from "../../base/clock.ts";
import { logWarning } from "../../base/log.ts";
import type { HubReport, KeptHub } from "../../base/calls/channel.ts";
import { History, type StoredHistory } from "../../engine/history.ts";
import { MINUTE_MS } from "../../engine/minute-counts.ts";
import { MinuteReporter, type MinuteReport } from "../../engine/minute-report.ts";
import { StoredCounts } from "../../engine/stored-counts.ts";
import { sumFigures, Tally, type TallyFigures } from "../../engine/tally.ts";
import type { HistoryMinute } from "../../wire/history.ts";
import { HISTORY_GATHER_MS, HISTORY_OBJECTS_MAX, HISTORY_REST_MS } from "../../engine/sizes.ts";

const KEY = "counts";
const VERSION = 1;
/** Lives of a Hub that are kept. */
const LIVES_MAX = 2;
/** Ended lives that are stored. Their late reports come within seconds. */
const ENDED_STORED_MAX = 64;
/** In place of the name of an object: what doors have counted. */
const DOORS = "";

/** What is stored. A later release may add fields. */
interface Stored {
  readonly version: number;
  readonly history: StoredHistory;
  /** `StoredCounts`. */
  readonly doors: Uint8Array;
  readonly retired: Uint8Array;
  readonly hubs: readonly (readonly [hub: string, sinceMs: number, counts: Uint8Array])[];
  /** See `#ended`: the last ones. */
  readonly ended?: readonly string[];
}

/** What the Directory's object gives: its storage, and a way to go on after an answer. */
type State = Pick<DurableObjectState, "storage" | "waitUntil">;

export class DirectoryCounts {
  readonly #state: State;
  readonly #namespace: string;
  /** `HISTORY` and `METRICS`: else counts are in memory only, and nothing is reported. */
  readonly #isKept: boolean;
  /** Counts of callers over HTTP and service bindings. */
  readonly #doors = new Tally();
  /** Counts of Hubs that have no connections any more, or were started again. */
  readonly #retired = new Tally();
  readonly #storedDoors = new StoredCounts(this.#doors, null, true);
  readonly #storedRetired = new StoredCounts(this.#retired, null, true);
  readonly #reporter = new MinuteReporter(this.#doors, null);
  /** What the row had of `#doors` when the object started. */
  #doorsAtStart = new Tally().totals;
  /** Counts of Hubs that were taken over, by `endedKey`: what comes of them later is a report that was on its way. */
  #ended = new Set<string>();
  /**
   * What Hubs have reported, by the time since which they count: each start of a Hub is a life of its own. Two lives are kept, as
   * the last report of one may come behind the first of the next, and times do not say which is later: a clock may go back.
   */
  readonly #hubs = new Map<string, Map<number, Uint8Array>>();
  #history = new History();
  #isLoaded = false;
  /** The minute of the last row. */
  #writtenMinute = 0;
  /** Calls of doors and Hubs, and how many of them the last row has. */
  #calls = 0;
  #storedCalls = 0;
  #isWaitingForRest = false;

  constructor(state: State, namespace: string, isKept: boolean) {
    this.#state = state;
    this.#namespace = namespace;
    this.#isKept = isKept;
  }

  /** Adds what a door has counted. */
  absorb(figures: TallyFigures): void {
    this.#load();
    this.#doors.absorb(figures, presentMs());
    if (!this.#isKept) return;
    const report = this.#reporter.take();
    if (report !== null) this.report(DOORS, report);
    this.#writeBeforeSleep();
  }

  /** Adds what an object has counted since its last report. */
  report(object: string, report: MinuteReport, counts: Uint8Array | null = null): void {
    if (!this.#isKept) return;
    this.#load();
    if (this.#ended.has(endedKey(object, report.sinceMs))) return;
    this.#history.add(object, report, presentMs());
    if (counts !== null) {
      this.#noteLife(object, report.sinceMs, counts);
      this.#writeBeforeSleep();
    }
    this.#writeSoon();
  }

  /** Takes over the counts of a Hub that has no connections any more. */
  retire(hub: string, figures: TallyFigures, last: HubReport | null): void {
    this.#load();
    // A Hub of release 0.4 says no time, and has reported nothing.
    if (last !== null) {
      // Later lives have reported before: what this one had reported was taken over then.
      if (this.#ended.has(endedKey(hub, last.sinceMs))) return;
      this.#endLivesUntil(hub, last.sinceMs);
      if (last.report !== null) this.report(hub, last.report);
      this.#history.forget(hub);
      this.#noteEnded(hub, last.sinceMs);
    }
    this.#retired.absorb(figures, presentMs());
    if (this.#isKept) this.#writeBeforeSleep();
  }

  /**
   * What doors have counted since the Directory started. Prometheus would take a total that lacks the last minute for one
   * that began again at 0: this one does begin again.
   */
  doorsSinceStart(nowMs: number): TallyFigures {
    this.#load();
    const figures = this.#doors.figures(nowMs);
    this.#doorsAtStart.forEach((total, index) => (figures[index]! -= total));
    return figures;
  }

  /** What doors have counted in all, and Hubs that do not count any more. */
  figures(nowMs: number): TallyFigures {
    this.#load();
    return sumFigures([this.#doors.figures(nowMs), this.#retired.figures(nowMs)]);
  }

  /** What Hubs have counted according to their last reports: a Hub that was reset does not know it any more. */
  hubs(): KeptHub[] {
    this.#load();
    return this.#lives().map(([hub, sinceMs, counts]) => {
      const tally = new Tally();
      new StoredCounts(tally, null, true).restore(counts);
      return { hub, sinceMs, tally: tally.figures(presentMs()) };
    });
  }

  minutes(): HistoryMinute[] {
    this.#load();
    return this.#history.list(presentMs());
  }

  /** A row of counts is in the storage, and kept there. */
  get isStored(): boolean {
    return this.#isKept && this.#stored() !== null;
  }

  /** Reads the row, with the first need of it: most calls of a Directory have none. */
  #load(): void {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    const nowMs = presentMs();
    const stored = this.#isKept ? this.#stored() : null;
    if (stored !== null) {
      this.#history = new History(stored.history);
      this.#storedDoors.restore(stored.doors);
      this.#storedRetired.restore(stored.retired);
      this.#ended = new Set(stored.ended);
      for (const life of stored.hubs) this.#noteLife(...life);
      this.#writtenMinute = Math.floor(this.#storedDoors.takenMs / MINUTE_MS);
    }
    this.#doorsAtStart = this.#doors.totals.slice();
    this.#storedDoors.begin(nowMs);
    this.#storedRetired.begin(nowMs);
    this.#doors.turn(nowMs);
    this.#reporter.begin(this.#storedDoors.sinceMs!, this.#storedDoors.takenMs);
  }

  /** What a later release has stored in another way is not read, and is written over: figures are no reason to fail. */
  #stored(): Stored | null {
    const stored = this.#state.storage.kv.get<Stored>(KEY);
    return stored?.version === VERSION ? stored : null;
  }

  #lives(): (readonly [hub: string, sinceMs: number, counts: Uint8Array])[] {
    return [...this.#hubs].flatMap(([hub, lives]) =>
      Array.from(lives, (life) => [hub, ...life] as const),
    );
  }

  /** Notes what a Hub has counted in all since it was started. */
  #noteLife(hub: string, sinceMs: number, counts: Uint8Array): void {
    const lives = this.#hubs.get(hub) ?? new Map<number, Uint8Array>();
    // The life that reported last is at the end.
    lives.delete(sinceMs);
    this.#hubs.set(hub, lives.set(sinceMs, counts));
    if (lives.size <= LIVES_MAX) return;
    const [oldest] = lives;
    lives.delete(oldest![0]);
    this.#endLife(hub, ...oldest!);
  }

  /**
   * A life has ended, and its last figures have what it had reported. Those that had reported before it have ended, too; others stay, as
   * its last words may come behind the first report of the next life.
   */
  #endLivesUntil(hub: string, sinceMs: number): void {
    const lives = this.#hubs.get(hub);
    if (lives?.has(sinceMs) !== true) return;
    for (const [earlierMs, counts] of lives) {
      lives.delete(earlierMs);
      if (earlierMs === sinceMs) break;
      this.#endLife(hub, earlierMs, counts);
    }
  }

  /** Keeps the counts of a life among what no Hub knows any more. A report of it that still comes is dropped. */
  #endLife(hub: string, sinceMs: number, counts: Uint8Array): void {
    const tally = new Tally();
    new StoredCounts(tally, null, true).restore(counts);
    this.#retired.absorb(tally.figures(presentMs()), presentMs());
    this.#noteEnded(hub, sinceMs);
  }

  #noteEnded(hub: string, sinceMs: number): void {
    this.#ended.add(endedKey(hub, sinceMs));
    if (this.#ended.size <= HISTORY_OBJECTS_MAX) return;
    const [oldest] = this.#ended;
    this.#ended.delete(oldest!);
  }

  #writeSoon(): void {
    const minute = Math.floor(presentMs() / MINUTE_MS);
    if (minute === this.#writtenMinute) return;
    this.#writtenMinute = minute;
    this.#state.waitUntil(scheduler.wait(HISTORY_GATHER_MS).then(() => this.#write()));
  }

  /** The same, and again when no door and no Hub has called for a while. */
  #writeBeforeSleep(): void {
    this.#calls++;
    this.#writeSoon();
    if (this.#isWaitingForRest) return;
    this.#isWaitingForRest = true;
    this.#state.waitUntil(this.#writeAtRest());
  }

  async #writeAtRest(): Promise<void> {
    let calls;
    do {
      calls = this.#calls;
      await scheduler.wait(HISTORY_REST_MS);
    } while (calls !== this.#calls);
    this.#isWaitingForRest = false;
    if (calls !== this.#storedCalls) this.#write();
  }

  /** A failure costs figures alone: the next row has them. */
  #write(): void {
    const nowMs = presentMs();
    const row: Stored = {
      version: VERSION,
      history: this.#history.stored,
      doors: this.#storedDoors.takeAll(nowMs),
      retired: this.#storedRetired.takeAll(nowMs),
      hubs: this.#lives(),
      ended: [...this.#ended].slice(-ENDED_STORED_MAX),
    };
    try {
      this.#state.storage.kv.put(KEY, row);
      this.#storedCalls = this.#calls;
    } catch (error) {
      logWarning("history_failed", { namespace: this.#namespace, error: String(error) });
    }
  }
}

const endedKey = (hub: string, sinceMs: number): string => `${hub} ${sinceMs}`;
