/**
 * Shard: the object that owns a part of a namespace's records.
 *
 * State lives in memory, in the `Engine`; SQLite holds the `Journal`. A call applies its batch at once, before its first
 * `await`, so calls are applied in the order in which they arrive. Then it waits, unless it is relaxed, for the one row
 * with all that was applied by then (`GroupCommit`). Reads wait, too: a crash before the row may undo what they saw. The
 * platform's output gate holds the answers until the row is on disk, so they can be returned as soon as it is written.
 */
import { DurableObject } from "cloudflare:workers";
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { Engine } from "../../engine/engine.ts";
import { readPlacement, type Placement } from "../../wire/batch.ts";
import type {
  YrmcdsFigures,
  ShardCalls,
  ShardDump,
  ShardFigures,
  ShardLimitFigures,
  ShardPlan,
  ShardRemoval,
  ShardRows,
  ShardSummary,
} from "../../base/calls/shard.ts";
import type {
  AdoptOutcome,
  FirstShard,
  ShardState,
  SplitFigures,
  Verdict,
} from "../../base/calls/splits.ts";
import { shardName } from "../../base/names.ts";
import { Adoption } from "./adoption.ts";
import { readSettings, type Settings } from "../../base/settings.ts";
import { FullLog } from "./full-log.ts";
import { Gate } from "./gate.ts";
import { GroupCommit } from "./group-commit.ts";
import { Journal } from "./journal.ts";
import { randomHashKey, readHashKey } from "./shard-row.ts";
import { seedOf } from "../../dispatch/placement.ts";
import { AlarmClock } from "../../base/alarm-clock.ts";
import { refusalOf } from "../../base/failure.ts";
import { logError } from "../../base/log.ts";
import { OwnRange } from "./own-range.ts";
import { SemaphoreWork } from "./semaphore-work.ts";
import { ShardClaim } from "./shard-claim.ts";
import { ShardCounts } from "./shard-counts.ts";
import { ShardTime } from "./shard-time.ts";
import { isLarge } from "./split-pace.ts";
import { Splitting } from "./splitting.ts";
import { TableOrder } from "./table-order.ts";
import { Walks } from "./walks.ts";
import { timersOf } from "../../base/timers.ts";
import { turn } from "../../base/turn.ts";
import { hexOf } from "../../wire/bytes.ts";
import { writeMoved, type ShardRanges } from "../../wire/moved.ts";
import { SWEEP_STEPS } from "../../engine/sizes.ts";

/** What a method of `ShardCalls` is called with. */
type Asked<Method extends keyof ShardCalls> = Parameters<ShardCalls[Method]>;

/** Key of what the witness of a namespace knows. */
const WITNESSED = "witnessed";

/** What a shard can be asked for is described in `ShardCalls`. */
export class Shard extends DurableObject<Environment> implements ShardCalls {
  readonly #settings: Settings;
  /** All records, in memory: a read touches no storage. */
  readonly #engine: Engine;
  /** What makes them durable: SQLite, which is synchronous here, so a write is part of the turn it is made in. */
  readonly #journal: Journal;
  /** Which part of the circle of hashes is this shard's. */
  readonly #own: OwnRange;
  /** Keeps a shard whose database has vanished from starting as a new one. */
  readonly #claim: ShardClaim;
  /** Requests by type and bytes, and where they are stored and told. */
  readonly #counts: ShardCounts;
  /** What is due for semaphores whenever the alarm rings. */
  readonly #semaphoreWork: SemaphoreWork;
  /** The one alarm that the platform gives an object; each time that it is set is billed as a row. */
  readonly #alarm: AlarmClock;
  /** Decides when a row is written, for all calls that wait for one. */
  readonly #commits: GroupCommit;
  /** Logs refusals for want of room, once a minute at most. */
  readonly #fullLog: FullLog;
  /** What follows when the platform's clock goes back, or stands still. */
  readonly #time: ShardTime;
  readonly #startedAtMs = presentMs();
  /** Holds calls back while a part of the range is handed over. */
  readonly #gate = new Gate();
  /** Gives a part of the range to a new shard. */
  readonly #splitting: Splitting;
  /** Takes a part of another shard's range. */
  readonly #adoption: Adoption;
  /** Listings and other requests about all records. */
  readonly #walks: Walks;
  /** Why the data can't be read by this release: every batch is refused with it. */
  #unreadable: Error | null = null;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#settings = readSettings(env);
    const hashKey = readHashKey(ctx.storage.sql) ?? randomHashKey();
    this.#engine = new Engine({
      hashKey,
      // Which slots a hash leads to changes with every start, so keys that collide can't be collected over time.
      homeSalt: crypto.getRandomValues(new Uint32Array(1))[0]!,
      drawSalt: crypto.getRandomValues(new Uint32Array(1))[0]! >>> 12,
      bytesMax: this.#settings.SHARD_BYTES_MAX,
      isCounting: this.#settings.METRICS === "on",
      answerTtlMs: this.#settings.IDEMPOTENCY_TTL_MS,
      semaphoreIntervalMs: this.#settings.YRMCDS_STATS_INTERVAL_MS,
    });
    const { namespace } = shardName.parse(ctx.id.name!);
    const seed = seedOf(namespace, this.#settings.SHARD_SECRET);
    this.#journal = new Journal(ctx.storage.sql, this.#engine, hashKey, seed);
    const timers = timersOf(ctx, scheduler);
    this.#own = new OwnRange(shardName.parse(ctx.id.name!).place, this.#journal);
    this.#walks = new Walks(new TableOrder(hashKey), {
      engine: this.#engine,
      own: this.#own,
      read: async (placement, read) => await this.#read(placement, read),
      prepareRead: async (placement) => await this.#prepareRead(placement),
    });
    const data = { journal: this.#journal, own: this.#own };
    this.#claim = new ShardClaim(env, ctx.id.name!, data, {
      write: (write) => this.#mustWrite(write),
      ...timers,
    });
    this.#semaphoreWork = new SemaphoreWork(env, ctx.id.name!, this.#engine.semaphores);
    this.#fullLog = new FullLog(ctx.id.name!, this.#settings.SHARD_BYTES_MAX);
    const { storage } = ctx;
    this.#alarm = new AlarmClock({
      findDeadlineMs: () => this.#findDeadlineMs(),
      storage,
      ...timers,
    });
    const records = {
      name: ctx.id.name!,
      engine: this.#engine,
      journal: this.#journal,
      write: (write: () => void) => this.#mustWrite(write),
    };
    this.#splitting = new Splitting(env, {
      ...records,
      ...timers,
      seed,
      gate: this.#gate,
      own: this.#own,
      shardsMax: this.#settings.SHARDS_MAX,
      noteSplit: async (...noted) => await this.#claim.noteSplit(...noted),
      listedAtMs: () => this.#walks.listedAtMs,
      setAlarm: async () => await this.#alarm.setForNext(),
    });
    this.#adoption = new Adoption(env, {
      ...records,
      sync: async () => await storage.sync(),
      onBegin: ({ hashKey: order }) => (this.#walks.order = new TableOrder(order)),
      onActive: async () => await this.#goOn(),
      setAlarm: async () => await this.#alarm.setForNext(),
    });
    const commitHost = {
      hasChanges: () => this.#engine.isDirty,
      write: async () => await this.#commit(),
      sync: async () => await storage.sync(),
      ...timers,
    };
    this.#commits = new GroupCommit(commitHost, this.#settings.DURABILITY === "strict");
    this.#time = new ShardTime({
      name: ctx.id.name!,
      engine: this.#engine,
      journal: this.#journal,
      alarm: this.#alarm,
      write: (write) => this.#mustWrite(write),
      sync: async () => await storage.sync(),
      abort: (reason) => ctx.abort(reason),
      waitUntil: (work) => ctx.waitUntil(work),
    });
    this.#counts = new ShardCounts(env, {
      name: ctx.id.name!,
      engine: this.#engine,
      journal: this.#journal,
      waitUntil: (work) => ctx.waitUntil(work),
      figures: () => this.figures(),
    });
    // The platform delivers no event before this has ended, so no call ever meets a table that is half loaded.
    void ctx.blockConcurrencyWhile(async () => {
      this.#load();
      this.#counts.begin();
      this.#time.note();
      this.#claim.tell();
      if (!this.#adoption.isPending) this.#semaphoreWork.start(await this.#alarm.load());
      await this.#alarm.resume();
      if (this.#unreadable === null) this.#splitting.resume();
    });
  }

  /** The hot path: up to a thousand calls a second. Positions instead of an object. */
  async apply(batch: Uint8Array, doorMs?: number): Promise<Uint8Array> {
    const placement = readPlacement(new DataView(batch.buffer, batch.byteOffset, batch.byteLength));
    const admitted = this.#beforeWrite(placement);
    if (admitted !== null) await admitted;
    if (!this.#own.has(placement)) return writeMoved(await this.#claim.ranges(placement));
    return await this.#write(doorMs, (nowMs) => this.#engine.apply(batch, nowMs));
  }

  async limitAll(...asked: Asked<"limitAll">): Promise<Uint8Array> {
    const [placement, body, id, doorMs] = asked;
    await this.#beforeWrite(placement);
    this.#own.assert(placement);
    return await this.#write(doorMs, (nowMs) =>
      this.#engine.limitAll(body, id === null ? null : hexOf(id), nowMs),
    );
  }

  async cancelLimits(...asked: Asked<"cancelLimits">): Promise<void> {
    const [placement, body, id] = asked;
    await this.#beforeWrite(placement);
    this.#own.assert(placement);
    await this.#write(undefined, (nowMs) => this.#engine.cancelLimits(body, hexOf(id), nowMs));
  }

  async page(...asked: Asked<"page">): Promise<Uint8Array> {
    return await this.#walks.page(...asked);
  }

  async scan(...asked: Asked<"scan">): Promise<Uint8Array> {
    return await this.#walks.scan(...asked);
  }

  async rows(...asked: Asked<"rows">): Promise<ShardRows> {
    return await this.#walks.rows(...asked);
  }

  async exportPage(...asked: Asked<"exportPage">): Promise<Uint8Array> {
    return await this.#walks.exportPage(...asked);
  }

  async remove(...asked: Asked<"remove">): Promise<ShardRemoval> {
    return await this.#walks.remove(...asked);
  }

  async plan(...asked: Asked<"plan">): Promise<ShardPlan & { cursor: number | null }> {
    return await this.#walks.plan(...asked);
  }

  async fragments(...asked: Asked<"fragments">): Promise<Uint8Array> {
    return await this.#walks.fragments(...asked);
  }

  async dump(...asked: Asked<"dump">): Promise<ShardDump> {
    return await this.#walks.dump(...asked);
  }

  /** Sweeps before it counts, and takes turns meanwhile. */
  async summary(placement: Placement, isKept: boolean = false): Promise<ShardSummary> {
    // Totals count records that have expired until they are collected.
    await this.#prepareRead(placement);
    await this.#sweep();
    this.#own.assertStill(placement);
    const { totals } = this.#engine;
    const semaphores = this.#engine.semaphores.figures(presentMs());
    await this.#commits.flush();
    if (isKept) this.#counts.store();
    const figures = this.figures();
    const counted = this.#counts.summary();
    return { totals, startedAtMs: this.#startedAtMs, figures, semaphores, ...counted };
  }

  async limitFigures(placement: Placement): Promise<ShardLimitFigures> {
    return await this.#read(placement, () => this.#counts.limitFigures());
  }

  async counterFigures(placement: Placement): Promise<YrmcdsFigures> {
    return await this.#read(placement, () => ({
      semaphores: this.#engine.semaphores.figures(presentMs()),
      requests: this.#engine.semaphoreRequests.counts,
    }));
  }

  /** Asked of shard 0 alone. */
  async claim(placement: Placement, index: number | null = null): Promise<Placement> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#claim.placementFor(placement, index);
  }

  async ranges(placement: Placement): Promise<ShardRanges> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#claim.ranges(placement);
  }

  /** Asked of shard 0 alone. */
  note(index: number): void {
    if (this.#unreadable !== null) throw this.#unreadable;
    this.#claim.note(index);
  }

  hasNoted(index: number): boolean {
    if (this.#unreadable !== null) throw this.#unreadable;
    return this.#journal.hasNoted(index);
  }

  async split(...asked: Asked<"split">): Promise<SplitFigures> {
    const [placement, at] = asked;
    await this.#prepareRead(placement);
    return await this.#splitting.begin(at);
  }

  shardState(): ShardState | null {
    if (this.#journal.placement === null) return null;
    return {
      range: this.#own.ranges.range,
      isActive: this.#journal.split.isActive,
      split: this.#splitting.figures,
      isForgetting: this.#engine.ownership.isForgetting,
    };
  }

  async adopt(...asked: Asked<"adopt">): Promise<AdoptOutcome> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#adoption.adopt(...asked);
  }

  async given(...asked: Asked<"given">): Promise<boolean> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#adoption.activate(...asked);
  }

  verdictOn(...asked: Asked<"verdictOn">): { verdict: Verdict; nowMs: number } {
    if (this.#unreadable !== null) throw this.#unreadable;
    this.#advance();
    return { verdict: this.#journal.split.verdictOn(...asked), nowMs: this.#engine.nowMs };
  }

  noteSplit(...asked: Asked<"noteSplit">): void {
    if (this.#unreadable !== null) throw this.#unreadable;
    this.#splitting.noteSplit(...asked);
  }

  witness(first: FirstShard): void {
    this.ctx.storage.kv.put(WITNESSED, first);
  }

  witnessed(): FirstShard | null {
    return this.ctx.storage.kv.get<FirstShard>(WITNESSED) ?? null;
  }

  /** Data that can't be read is data all the same: shard 0 must not take the namespace for a new one. */
  hasData(): boolean {
    return this.#unreadable !== null || this.#journal.hasData;
  }

  /**
   * Before records are changed. The first call makes the shard have data, if it may.
   *
   * @returns null where there is nothing to wait for: a call must be applied in the turn of its arrival
   */
  #beforeWrite(placement: Placement): Promise<void> | null {
    if (this.#unreadable !== null) throw this.#unreadable;
    const isServing = this.#journal.split.isActive && this.#gate.opened === null;
    return isServing && !this.#claim.isOpen ? null : this.#admit(placement);
  }

  /** Whoever has waited here has to look at the range again. */
  async #admit(placement: Placement): Promise<void> {
    if (this.#adoption.isPending) await this.#adoption.ask();
    else if (this.#claim.isOpen) await this.#claim.claim(placement);
    for (let opened = this.#gate.opened; opened !== null; opened = this.#gate.opened) await opened;
  }

  /** Changes records at once, and answers when what was changed is durable. */
  async #write<T>(doorMs: number | undefined, write: (nowMs: number) => T): Promise<T> {
    // No `await` between here and the flush: a call is applied as a whole, and in the order of arrival.
    const nowMs = presentMs();
    const answer = write(nowMs);
    this.#time.noteCall(nowMs, doorMs);
    this.#counts.note();
    this.#noteRefusals();
    await this.#commits.flush(this.#engine.isRelaxed);
    return answer;
  }

  /**
   * Reads records, and answers once what was read is durable: a crash before its row would take it back, and a caller
   * who has seen it would have seen what never was.
   */
  async #read<T>(placement: Placement, read: () => T | Promise<T>): Promise<T> {
    await this.#prepareRead(placement);
    // In the turn of the read: a shard that has split leaves out what it has given away.
    this.#own.assertStill(placement);
    const answer = await read();
    await this.#commits.flush();
    return answer;
  }

  /** Before records are read: moves the clock, and refuses data of another placement, and data that is missing. */
  async #prepareRead(placement: Placement): Promise<void> {
    if (this.#unreadable !== null) throw this.#unreadable;
    if (this.#adoption.isPending) await this.#adoption.ask();
    if (this.#journal.placement === null) await this.#claim.assertNew(placement);
    else this.#own.assert(placement);
    this.#advance();
  }

  /** Moves the engine's clock, which decides what has expired. */
  #advance(): void {
    this.#engine.advance(presentMs());
    this.#time.note();
  }

  /** Reads snapshot and journal. No call is delivered meanwhile (`blockConcurrencyWhile`). */
  #load(): void {
    this.#engine.advance(presentMs());
    try {
      this.#journal.load();
    } catch (error) {
      // Data that this release can't read stays as it is: an older or newer release may be deployed for it.
      this.#unreadable = refusalOf(error);
      if (this.#unreadable === null) throw error;
    }
  }

  /** The size of the shard; of memory alone, so it needs no flush. */
  figures(): ShardFigures {
    const { rows, bytes, rowsWritten } = this.#journal;
    return {
      ...this.#engine.figures,
      bytesMax: this.#settings.SHARD_BYTES_MAX,
      journalRows: rows,
      journalBytes: bytes,
      rowsWritten: rowsWritten + this.#alarm.timesSet,
      clockLagMs: this.#engine.clockLagMs,
    };
  }

  /** Collects what has expired, a few segments at a time, and gives resources and storage back. */
  override async alarm(): Promise<void> {
    this.#alarm.noteRing();
    if (this.#unreadable !== null) return;
    if (this.#adoption.isPending) {
      await this.#adoption.askByAlarm();
      await this.#alarm.setForNext();
      return;
    }
    this.#advance();
    await this.#sweep();
    await this.#semaphoreWork.run();
    await this.#splitting.runDue();
    await this.#commits.flush();
    // Nobody writes to a shard whose records have all expired, so no commit would ever cut its journal.
    if (this.#journal.isMostlyDead) {
      this.#mustWrite(() => this.#journal.beginCut());
      while (this.#journal.isCutting) {
        this.#mustWrite(() => this.#journal.append());
        await turn();
      }
    }
    await this.#alarm.setForNext();
  }

  /** The range that was adopted is in force: its holders are asked about as after a start. */
  async #goOn(): Promise<void> {
    this.#time.note();
    this.#semaphoreWork.start(Infinity);
    await this.#alarm.setForNext();
  }

  /** Collects what has expired. */
  async #sweep(): Promise<void> {
    let cursor: number | null = 0;
    for (let step = 1; cursor !== null; step++) {
      cursor = this.#engine.sweepStep(cursor, presentMs());
      if (step % SWEEP_STEPS === 0) await turn();
    }
  }

  async setClockBack(placement: Placement): Promise<number> {
    await this.#prepareRead(placement);
    const lagMs = await this.#time.setBack(() => {
      this.#splitting.giveUp("the clock is set back");
      this.#advance();
    });
    if (lagMs > 0) {
      this.#semaphoreWork.noteSetBack();
      await this.#alarm.setForNext();
    }
    return lagMs;
  }

  /** When the alarm has something to do, in the platform's time; Infinity for never. */
  #findDeadlineMs(): number {
    if (this.#adoption.isPending) return this.#adoption.deadlineMs;
    return Math.min(
      this.#engine.findDeadline() ?? Infinity,
      this.#semaphoreWork.findDeadlineMs(),
      this.#splitting.deadlineMs,
    );
  }

  /** Writes what was applied, and asks for the alarm in the same turn, so that both are committed together. */
  async #commit(): Promise<void> {
    for (let room = this.#splitting.room; room !== null; room = this.#splitting.room) await room;
    this.#mustWrite(() => this.#journal.append());
    if (isLarge(this.#engine.figures.bytes, this.#settings.SHARD_BYTES_MAX)) {
      this.#splitting.noteLarge();
    }
    const recordsMs = this.#engine.takeEarlierDeadline() ?? Infinity;
    await this.#alarm.setFor(Math.min(recordsMs, this.#semaphoreWork.findDeadlineMs()));
  }

  /** A write that fails leaves memory ahead of the disk: `abort` restarts the object from the disk, and fails all calls. */
  #mustWrite(write: () => void): void {
    try {
      write();
    } catch (error) {
      logError("journal_failed", { shard: this.ctx.id.name, error: String(error) });
      this.ctx.abort(`journal_failed: ${String(error)}`);
      throw error;
    }
  }

  /**
   * A full shard refuses new records one by one; the log says it once a minute, and semaphores that are not in use
   * make room.
   */
  #noteRefusals(): void {
    const { refusedForSpace, bytes } = this.#engine.figures;
    if (this.#fullLog.note(refusedForSpace, bytes, this.#engine.nowMs)) {
      this.ctx.waitUntil(this.#reclaim());
    }
  }

  /** A record was refused for want of room: collects semaphores that are not in use before their time. */
  async #reclaim(): Promise<void> {
    await this.#semaphoreWork.reclaim();
    await this.#commits.flush();
  }
}
