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
import type { Engine } from "../../engine/engine.ts";
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
  ShardState,
  SplitFigures,
  Verdict,
  WitnessedShard,
} from "../../base/calls/splits.ts";
import { shardName } from "../../base/names.ts";
import { readSettings, type Settings } from "../../base/settings.ts";
import { shardStub } from "../../base/stubs.ts";
import { Figures } from "./figures.ts";
import { GroupCommit } from "./group-commit.ts";
import { Journal } from "./journal.ts";
import { newEngine } from "./new-engine.ts";
import { randomHashKey, readHashKey } from "./shard-row.ts";
import { KeyHash } from "../../dispatch/placement.ts";
import { AlarmClock } from "../../base/alarm-clock.ts";
import { refusalOf } from "../../base/failure.ts";
import { logError } from "../../base/log.ts";
import { OwnRange } from "./own-range.ts";
import { SemaphoreWork } from "./semaphore-work.ts";
import { ShardClaim } from "./shard-claim.ts";
import { ShardCounts } from "./shard-counts.ts";
import { ShardSplits } from "./shard-splits.ts";
import { ShardTime } from "./shard-time.ts";
import { TableOrder } from "./table-order.ts";
import { Upkeep } from "./upkeep.ts";
import { Walks } from "./walks.ts";
import { timersOf } from "../../base/timers.ts";
import { hexOf } from "../../wire/bytes.ts";
import { writeMoved, type ShardRanges } from "../../wire/moved.ts";

/** What a method of `ShardCalls` is called with. */
type Asked<Method extends keyof ShardCalls> = Parameters<ShardCalls[Method]>;

/** Key of what the witness of a namespace knows of a shard. */
const witnessedKey = (index: number): string => `witnessed/${index}`;

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
  readonly #figures: Figures;
  /** What is due for semaphores whenever the alarm rings. */
  readonly #semaphoreWork: SemaphoreWork;
  /** What is done by the alarm. */
  readonly #upkeep: Upkeep;
  /** The one alarm that the platform gives an object; each time that it is set is billed as a row. */
  readonly #alarm: AlarmClock;
  /** Decides when a row is written, for all calls that wait for one. */
  readonly #commits: GroupCommit;
  /** What follows when the platform's clock goes back, or stands still. */
  readonly #time: ShardTime;
  /** Gives parts of the range away, and adopts parts of others. */
  readonly #splits: ShardSplits;
  /** Listings and other requests about all records. */
  readonly #walks: Walks;
  /** Why the data can't be read by this release: every batch is refused with it. */
  #unreadable: Error | null = null;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#settings = readSettings(env);
    const hashKey = readHashKey(ctx.storage.sql) ?? randomHashKey();
    this.#engine = newEngine(this.#settings, hashKey);
    const { namespace, place } = shardName.parse(ctx.id.name!);
    const hasher = new KeyHash(namespace, this.#settings.SHARD_SECRET);
    this.#journal = new Journal(ctx.storage.sql, this.#engine, hashKey, hasher);
    const timers = timersOf(ctx, scheduler);
    this.#own = new OwnRange(place, this.#journal);
    this.#walks = new Walks(new TableOrder(hashKey), {
      engine: this.#engine,
      own: this.#own,
      read: async (placement, read) => await this.#read(placement, read),
      prepareRead: async (placement) => await this.#prepareRead(placement),
    });
    const write = (write: () => void): void => this.#mustWrite(write);
    const data = { journal: this.#journal, own: this.#own };
    this.#claim = new ShardClaim(env, ctx.id.name!, data, { write, ...timers });
    this.#semaphoreWork = new SemaphoreWork(env, ctx.id.name!, this.#engine.semaphores);
    const { storage } = ctx;
    this.#alarm = new AlarmClock({
      findDeadlineMs: () => this.#upkeep.findDeadlineMs(),
      storage,
      ...timers,
    });
    const records = {
      name: ctx.id.name!,
      engine: this.#engine,
      journal: this.#journal,
      write,
      sync: async () => await storage.sync(),
      ...timers,
    };
    this.#splits = new ShardSplits(env, {
      ...records,
      settings: this.#settings,
      own: this.#own,
      walks: this.#walks,
      claim: this.#claim,
      hasher,
      onActive: async () => await this.#goOn(),
      onChange: () => this.#counts.reportNow(),
      setAlarm: async () => await this.#alarm.setForNext(),
    });
    const commitHost = {
      ...records,
      hasChanges: () => this.#engine.needsRow,
      write: async (isDue: boolean) => await this.#commit(isDue),
    };
    this.#commits = new GroupCommit(commitHost, this.#settings.DURABILITY === "strict");
    this.#time = new ShardTime({
      ...records,
      alarm: this.#alarm,
      probe: async () => await shardStub(env, shardName.witness(namespace)).witnessed(0),
      abort: (reason) => ctx.abort(reason),
    });
    this.#counts = new ShardCounts(env, {
      ...records,
      figures: () => this.figures(),
      report: () => this.#figures.report(),
    });
    this.#figures = new Figures({
      ...records,
      counts: this.#counts,
      alarm: this.#alarm,
      splits: this.#splits,
      bytesMax: this.#settings.SHARD_BYTES_MAX,
    });
    this.#upkeep = new Upkeep({
      ...records,
      bytesMax: this.#settings.SHARD_BYTES_MAX,
      semaphoreWork: this.#semaphoreWork,
      splits: this.#splits,
      advance: () => this.#advance(),
      flush: async () => await this.#commits.flush(),
    });
    // The platform delivers no event before this has ended, so no call ever meets a table that is half loaded.
    void ctx.blockConcurrencyWhile(async () => {
      this.#load();
      this.#counts.begin();
      this.#time.note();
      this.#claim.tell();
      if (!this.#splits.adoption.isPending) this.#semaphoreWork.start(await this.#alarm.load());
      await this.#alarm.resume();
      if (this.#unreadable === null) this.#splits.splitting.resume();
    });
  }

  /** The hot path: up to a thousand calls a second. Positions instead of an object. */
  async apply(batch: Uint8Array, doorMs?: number): Promise<Uint8Array> {
    const placement = readPlacement(new DataView(batch.buffer, batch.byteOffset, batch.byteLength));
    const admitted = this.#beforeWrite(placement);
    if (admitted !== null) await admitted;
    if (!this.#own.has(placement)) return writeMoved(await this.#claim.ranges(placement));
    // A call that has waited comes from a door that is late, whatever the clock here says.
    return await this.#write(admitted === null ? doorMs : undefined, (nowMs) => {
      this.#splits.noteBatch(placement, batch, nowMs);
      return this.#engine.apply(batch, nowMs);
    });
  }

  async limitAll(...asked: Asked<"limitAll">): Promise<Uint8Array> {
    const [placement, body, id, doorMs] = asked;
    const admitted = this.#beforeWrite(placement);
    await admitted;
    this.#own.assert(placement);
    return await this.#write(admitted === null ? doorMs : undefined, (nowMs) => {
      this.#splits.noteLimits(body, nowMs);
      return this.#engine.limitAll(body, id === null ? null : hexOf(id), nowMs);
    });
  }

  async cancelLimits(...asked: Asked<"cancelLimits">): Promise<void> {
    const [placement, body, id] = asked;
    await this.#beforeWrite(placement);
    this.#own.assert(placement);
    const failure = await this.#write(undefined, (nowMs) =>
      this.#engine.cancelLimits(body, hexOf(id), nowMs),
    );
    if (failure !== null) throw failure;
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

  async exportLeases(...asked: Asked<"exportLeases">): Promise<Uint8Array> {
    return await this.#walks.exportLeases(...asked);
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

  /** Sweeps before it counts, as totals count records that have expired until they are collected. */
  async summary(...[placement, ...how]: Asked<"summary">): Promise<ShardSummary> {
    await this.#prepareRead(placement);
    await this.#upkeep.sweep();
    this.#own.assertStill(placement);
    return await this.#figures.summary(async () => await this.#commits.flush(), ...how);
  }

  async limitFigures(placement: Placement): Promise<ShardLimitFigures> {
    return await this.#read(placement, () => this.#figures.limits());
  }

  async counterFigures(placement: Placement): Promise<YrmcdsFigures> {
    return await this.#read(placement, () => this.#figures.counters());
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
  async note(index: number): Promise<void> {
    if (this.#unreadable !== null) throw this.#unreadable;
    await this.#claim.note(index);
  }

  hasNoted(index: number): boolean {
    if (this.#unreadable !== null) throw this.#unreadable;
    return this.#journal.hasNoted(index);
  }

  async split(...asked: Asked<"split">): Promise<SplitFigures> {
    const [placement, at] = asked;
    await this.#prepareRead(placement);
    return await this.#splits.splitting.begin(at);
  }

  async shardState(...[placement, isToReport]: Asked<"shardState">): Promise<ShardState | null> {
    if (placement !== undefined) await this.#prepareRead(placement);
    if (isToReport) this.#counts.reportNow();
    return this.#splits.state;
  }

  async adopt(...asked: Asked<"adopt">): Promise<AdoptOutcome> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#splits.adoption.adopt(...asked);
  }

  async given(...asked: Asked<"given">): Promise<boolean> {
    if (this.#unreadable !== null) throw this.#unreadable;
    return await this.#splits.adoption.activate(...asked);
  }

  verdictOn(...asked: Asked<"verdictOn">): { verdict: Verdict; nowMs: number } {
    if (this.#unreadable !== null) throw this.#unreadable;
    this.#advance();
    return this.#splits.verdictOn(...asked);
  }

  noteSplit(...asked: Asked<"noteSplit">): boolean {
    if (this.#unreadable !== null) throw this.#unreadable;
    return this.#splits.splitting.noteSplit(...asked);
  }

  witness(...[index, said]: Asked<"witness">): void {
    const { attempt = 0 } = this.witnessed(index) ?? {};
    // A call of an attempt that was given up may come late.
    if (said.attempt >= attempt) this.ctx.storage.kv.put(witnessedKey(index), said);
  }

  witnessed(index: number): WitnessedShard | null {
    return this.ctx.storage.kv.get<WitnessedShard>(witnessedKey(index)) ?? null;
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
    const isServing = this.#journal.split.isActive && this.#splits.gate.opened === null;
    return isServing && !this.#claim.isOpen ? null : this.#admit(placement);
  }

  /** The range may change during this wait, so callers check it again afterwards. */
  async #admit(placement: Placement): Promise<void> {
    const { adoption, gate } = this.#splits;
    if (adoption.isPending) await adoption.ask();
    else if (this.#claim.isOpen) await this.#claim.claim(placement);
    for (let { opened } = gate; opened !== null; { opened } = gate) await opened;
  }

  /** Changes records at once, and answers when what was changed is durable. */
  async #write<T>(doorMs: number | undefined, write: (nowMs: number) => T): Promise<T> {
    // No `await` between here and the flush: a call is applied as a whole, and in the order of arrival.
    const nowMs = presentMs();
    const answer = write(nowMs);
    this.#time.noteCall(nowMs, doorMs);
    this.#counts.note();
    this.#upkeep.noteRefusals();
    await this.#commits.flush(this.#engine.isRelaxed);
    return answer;
  }

  /** Reads records, and answers once what was read is durable: a crash before its row would take it back. */
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
    if (this.#splits.adoption.isPending) await this.#splits.adoption.ask();
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
    return this.#figures.size();
  }

  override async alarm(): Promise<void> {
    this.#alarm.noteRing();
    if (this.#unreadable !== null) return;
    await this.#upkeep.run();
    await this.#alarm.setForNext();
  }

  /** The range that was adopted is in force: its holders are asked about as after a start. */
  async #goOn(): Promise<void> {
    this.#time.note();
    this.#semaphoreWork.start(Infinity);
    await this.#alarm.setForNext();
  }

  async setClockBack(placement: Placement): Promise<number> {
    await this.#prepareRead(placement);
    const lagMs = await this.#time.setBack(() => {
      this.#advance();
      if (this.#engine.clockLagMs > 0) this.#splits.splitting.giveUp("the clock is set back");
    });
    if (lagMs > 0) {
      this.#semaphoreWork.noteSetBack();
      await this.#alarm.setForNext();
    }
    return lagMs;
  }

  /** Writes what was applied, and asks for the alarm in the same turn, so that both are committed together. */
  async #commit(isDue: boolean): Promise<void> {
    const { splitting } = this.#splits;
    for (let room; (room = splitting.makeRoom(isDue)) !== null;) await room;
    this.#mustWrite(() => this.#journal.append());
    this.#splits.noteCommit();
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
}
