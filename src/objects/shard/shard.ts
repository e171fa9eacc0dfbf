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
import { hashKeyName } from "../../engine/hash.ts";
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
import { readSettings, type Settings } from "../../base/settings.ts";
import { FullLog } from "./full-log.ts";
import { GroupCommit } from "./group-commit.ts";
import { Journal, randomHashKey, readHashKey } from "./journal.ts";
import { AlarmClock } from "../../base/alarm-clock.ts";
import { refusalOf } from "../../base/failure.ts";
import { logError } from "../../base/log.ts";
import { assertSamePlacement } from "./same-placement.ts";
import { SemaphoreWork } from "./semaphore-work.ts";
import { ShardClaim } from "./shard-claim.ts";
import { ShardCounts } from "./shard-counts.ts";
import { ShardTime } from "./shard-time.ts";
import { timersOf } from "../../base/timers.ts";
import { inTurns, turn } from "../../base/turn.ts";
import { hexOf } from "../../wire/bytes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { SWEEP_STEPS } from "../../engine/sizes.ts";

/** Changes with the meaning of hashes, plans and cursors: those of another version are refused. */
const ORDER_VERSION = 1;

/** What a method of `ShardCalls` is called with: the methods below need not say its types again. */
type Asked<Method extends keyof ShardCalls> = Parameters<ShardCalls[Method]>;

/** What a shard can be asked for is described in `ShardCalls`. */
export class Shard extends DurableObject<Environment> implements ShardCalls {
  readonly #settings: Settings;
  /** All records, in memory: a read touches no storage. */
  readonly #engine: Engine;
  /** What makes them durable: SQLite, which is synchronous here, so a write is part of the turn it is made in. */
  readonly #journal: Journal;
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
  /** Names the order of the table: plans and cursors are of use while it stays, also after a restart. */
  readonly #hashes: string;
  /** Why the data can't be read by this release: every batch is refused with it. */
  #unreadable: Error | null = null;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#settings = readSettings(env);
    const hashKey = readHashKey(ctx.storage.sql) ?? randomHashKey();
    this.#hashes = `${ORDER_VERSION}-${hashKeyName(hashKey).toString(16)}`;
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
    this.#journal = new Journal(ctx.storage.sql, this.#engine, hashKey);
    const timers = timersOf(ctx, scheduler);
    this.#claim = new ShardClaim(env, ctx.id.name!, this.#journal, {
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
      this.#semaphoreWork.start(await this.#alarm.load());
      await this.#alarm.resume();
    });
  }

  /** The hot path: up to a thousand calls a second, each of many callers' frames. Positions instead of an object. */
  async apply(batch: Uint8Array, doorMs?: number): Promise<Uint8Array> {
    const placement = readPlacement(new DataView(batch.buffer, batch.byteOffset, batch.byteLength));
    return await this.#write(placement, doorMs, (nowMs) => this.#engine.apply(batch, nowMs));
  }

  async limitAll(...asked: Asked<"limitAll">): Promise<Uint8Array> {
    const [placement, body, id, doorMs] = asked;
    return await this.#write(placement, doorMs, (nowMs) =>
      this.#engine.limitAll(body, id === null ? null : hexOf(id), nowMs),
    );
  }

  async cancelLimits(...asked: Asked<"cancelLimits">): Promise<void> {
    const [placement, body, id] = asked;
    await this.#write(placement, undefined, (nowMs) => {
      this.#engine.cancelLimits(body, hexOf(id), nowMs);
    });
  }

  /** A walk takes turns: sockets and timers of this isolate wait while a step runs. */
  async page(...asked: Asked<"page">): Promise<Uint8Array> {
    const [placement, query, after, bytesMax, recordsMax] = asked;
    const { listing } = this.#engine;
    return await this.#read(placement, () =>
      inTurns(listing.page(query, after, bytesMax, recordsMax)),
    );
  }

  async scan(...asked: Asked<"scan">): Promise<Uint8Array> {
    const [placement, query, after, recordsMax, isBounded = false] = asked;
    const { scan } = this.#engine;
    // To find the first keys of very many records takes a walk over all of them, for each page.
    return await this.#read(placement, () =>
      isBounded && !scan.isOrdered
        ? scan.unorderedPage()
        : inTurns(scan.page(query, after, recordsMax)),
    );
  }

  /** @throws ThrottrError `listing_lost` when the table has another order than the cursor's */
  async rows(...asked: Asked<"rows">): Promise<ShardRows> {
    const [placement, query, hashes, place, recordsMax] = asked;
    return await this.#read(placement, () => {
      this.#assertSameHashes(hashes ?? this.#hashes);
      return { hashes: this.#hashes, ...this.#engine.scan.rowsFrom(query, place, recordsMax) };
    });
  }

  async exportPage(...asked: Asked<"exportPage">): Promise<Uint8Array> {
    const [placement, query, after, recordsMax, bytesMax] = asked;
    const { exporting } = this.#engine;
    return await this.#read(placement, () =>
      inTurns(exporting.page(query, after, recordsMax, bytesMax)),
    );
  }

  /** One step; a restart begins again, which removes nothing twice. */
  async remove(...asked: Asked<"remove">): Promise<ShardRemoval> {
    const [placement, query, hashes, cursor] = asked;
    // A removal of millions of records is one call after the other: others have a turn between two.
    if (cursor > 0) await turn();
    return await this.#read(placement, () => {
      const from = hashes === this.#hashes ? cursor : 0;
      return { hashes: this.#hashes, ...this.#engine.scan.remove(query, from) };
    });
  }

  /** Steps through the whole table, a call for each, so that others come between. */
  async plan(...asked: Asked<"plan">): Promise<ShardPlan & { cursor: number | null }> {
    const [placement, hashes, query, cursor] = asked;
    if (cursor > 0) await turn();
    await this.#prepareRead(placement);
    this.#assertSameHashes(hashes ?? this.#hashes);
    // No flush: a plan says where fragments begin, and none of what is in them.
    return { hashes: this.#hashes, ...this.#engine.listing.plan(query, cursor) };
  }

  /** @throws ThrottrError `listing_lost` when the table has another order than the plan was made in */
  async fragments(...asked: Asked<"fragments">): Promise<Uint8Array> {
    const [placement, hashes, query, parts, to, firstIndex] = asked;
    return await this.#read(placement, () => {
      this.#assertSameHashes(hashes);
      return inTurns(this.#engine.listing.fragments(query, parts, to, firstIndex));
    });
  }

  /** Sweeps before it counts, and takes turns meanwhile. */
  async summary(placement: Placement, isKept: boolean = false): Promise<ShardSummary> {
    // Totals count records that have expired until they are collected.
    await this.#prepareRead(placement);
    await this.#sweep();
    const { totals } = this.#engine;
    const semaphores = this.#engine.semaphores.figures(presentMs());
    await this.#commits.flush();
    if (isKept) this.#counts.store();
    const figures = this.figures();
    const counted = this.#counts.summary();
    return { totals, startedAtMs: this.#startedAtMs, figures, semaphores, ...counted };
  }

  async limitFigures(placement: Placement): Promise<ShardLimitFigures> {
    await this.#prepareRead(placement);
    return this.#counts.limitFigures();
  }

  async counterFigures(placement: Placement): Promise<YrmcdsFigures> {
    return await this.#read(placement, () => ({
      semaphores: this.#engine.semaphores.figures(presentMs()),
      requests: this.#engine.semaphoreRequests.counts,
    }));
  }

  /**
   * Begins again where the object has restarted, as the order of its table has changed: clients may see a name twice.
   */
  async dump(...asked: Asked<"dump">): Promise<ShardDump> {
    const [placement, hashes, cursor, bytesMax] = asked;
    return await this.#read(placement, () => {
      const from = hashes === this.#hashes ? cursor : 0;
      const page = this.#engine.semaphorePages.dump(from, bytesMax, presentMs());
      return { hashes: this.#hashes, ...page };
    });
  }

  /** Asked of shard 0 alone. */
  async claim(placement: Placement, index: number | null = null): Promise<Placement> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#claim.placementFor(placement, index);
  }

  /** Asked of shard 0 alone, which keeps a bit for each shard with data. */
  note(index: number): void {
    if (this.#unreadable !== null) throw this.#unreadable;
    this.#claim.note(index);
  }

  hasNoted(index: number): boolean {
    if (this.#unreadable !== null) throw this.#unreadable;
    return this.#journal.hasNoted(index);
  }

  /** Data that can't be read is data all the same: shard 0 must not take the namespace for a new one. */
  hasData(): boolean {
    return this.#unreadable !== null || this.#journal.hasData;
  }

  /** Changes records at once, and answers when what was changed is durable. */
  async #write<T>(
    placement: Placement,
    doorMs: number | undefined,
    write: (nowMs: number) => T,
  ): Promise<T> {
    if (this.#unreadable !== null) throw this.#unreadable;
    if (this.#claim.isOpen) await this.#claim.claim(placement);
    assertSamePlacement(this.#journal.placement!, placement);
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
    const answer = await read();
    await this.#commits.flush();
    return answer;
  }

  /** Before records are read: moves the clock, and refuses data of another placement, and data that is missing. */
  async #prepareRead(placement: Placement): Promise<void> {
    if (this.#unreadable !== null) throw this.#unreadable;
    if (this.#journal.placement === null) await this.#claim.assertNew(placement);
    else assertSamePlacement(this.#journal.placement, placement);
    this.#advance();
  }

  /** Moves the engine's clock, which decides what has expired. */
  #advance(): void {
    this.#engine.advance(presentMs());
    this.#time.note();
  }

  /** Data of releases before 0.5.0 gets its seed with its first commit: until then an instance has its own. */
  #assertSameHashes(hashes: string): void {
    if (hashes !== this.#hashes) {
      throw new ThrottrError(
        "listing_lost",
        "a shard reordered its records during the listing: list them again",
      );
    }
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
    this.#advance();
    await this.#sweep();
    await this.#semaphoreWork.run();
    await this.#commits.flush();
    // A shard that is only read has no commits, which would cut its journal: when its records have expired, and when scrapes
    // have stored its counts thousands of times.
    if (this.#journal.isMostlyDead || this.#journal.isCutDue) {
      this.#mustWrite(() => this.#journal.beginCut());
      while (this.#journal.isCutting) {
        this.#mustWrite(() => this.#journal.append());
        await turn();
      }
    }
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
    const lagMs = await this.#time.setBack(() => this.#advance());
    if (lagMs > 0) {
      this.#semaphoreWork.noteSetBack();
      await this.#alarm.setForNext();
    }
    return lagMs;
  }

  /** When the alarm has something to do, in the platform's time; Infinity for never. */
  #findDeadlineMs(): number {
    return Math.min(this.#engine.findDeadline() ?? Infinity, this.#semaphoreWork.findDeadlineMs());
  }

  /** Writes what was applied, and asks for the alarm in the same turn, so that both are committed together. */
  async #commit(): Promise<void> {
    this.#mustWrite(() => this.#journal.append());
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
