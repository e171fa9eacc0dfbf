/**
 * The deterministic state machine of a shard: batches in, answers and rows out; time is an argument.
 *
 * The engine does no I/O, and reads no clock: its caller stores the rows. The same rows, in the same order, make the same
 * records, and the same batches at the same times the same answers.
 */
import {
  batchHeaderBytes,
  batchVersionOf,
  PART_HEADER_BYTES,
  readPlacement,
  SECTION_HEADER_BYTES,
  SectionFlag,
} from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { anyProtocolByCode } from "../wire/protocols.ts";
import { Export } from "./export.ts";
import type { HashKey } from "./hash.ts";
import { Mark, clockRow, countsRow } from "./image.ts";
import { ChargeLedger } from "./charge-ledger.ts";
import { LimitAll } from "./limit-all.ts";
import { LimitFigures } from "./limit-figures.ts";
import { Limiters } from "./limiters.ts";
import { Listing } from "./listing.ts";
import { Ownership } from "./ownership.ts";
import { Records } from "./records.ts";
import { Reservations } from "./reservations.ts";
import { Recovery } from "./recovery.ts";
import { Scan } from "./scan.ts";
import type { ScanQuery } from "./scan-query.ts";
import { HOLDER_BYTES } from "./semaphores/holder.ts";
import { LeasePages } from "./semaphores/lease-pages.ts";
import { SemaphorePages } from "./semaphores/pages.ts";
import { SemaphoreRequests } from "./semaphores/requests.ts";
import { Semaphores } from "./semaphores/semaphores.ts";
import { HASH_END, type Totals } from "./table.ts";
import { Tally, TALLY_READ_BYTES, TALLY_WRITE_BYTES, type TallyFigures } from "./tally.ts";
import { MinuteReporter } from "./minute-report.ts";
import { StoredCounts } from "./stored-counts.ts";
import { ThrottrRequests } from "./throttr.ts";
import { setBackRecords } from "./set-back.ts";
import { snapshotStep } from "./snapshot.ts";
import { SHARD_ANSWER_BYTES_MAX, SHARD_CALL_FRAMES_MAX } from "./sizes.ts";

const ANSWER_TTL_MS = 600_000;
const SEMAPHORE_INTERVAL_MS = 86_400_000;

export interface EngineOptions {
  /** Seed of the table's hash: 64 random bits, stored with the shard. */
  hashKey: HashKey;
  /** 32 random bits, different in every instance: they choose the slots that hashes lead to. */
  homeSalt?: number;
  /** Budget of the memory of records and their indexes, in bytes. New records beyond it are refused. */
  bytesMax: number;
  /** Usage of records, requests by type and decisions of limits are counted. */
  isCounting: boolean;
  /** Random for each start, 0 to 2^20 - 1: numbers of draws from before a restart mean nothing after it. 0 unless given. */
  drawSalt?: number;
  /** How long the answer to a command with an idempotency key is kept, ms; 10 minutes unless given. */
  answerTtlMs?: number;
  /** Interval over which maxima of semaphores are taken, ms; a day unless given. */
  semaphoreIntervalMs?: number;
}

/** What a shard holds now. Expired records count until they are collected. */
export interface EngineFigures {
  records: number;
  bytes: number;
  refusedForSpace: number;
}

export class Engine {
  readonly #records: Records;
  readonly #answer = new ByteWriter(64 * 1024);
  readonly #throttr: ThrottrRequests;
  readonly #limitAll: LimitAll;
  readonly #isCounting: boolean;
  /** Requests about all records. */
  readonly listing: Listing;
  readonly scan: Scan;
  readonly exporting: Export;
  readonly semaphores: Semaphores;
  readonly semaphorePages: SemaphorePages;
  readonly leasePages: LeasePages;
  /** Requests of connections of the yrmcds protocol. */
  readonly semaphoreRequests: SemaphoreRequests;

  /** What limits have decided; nothing unless `isCounting`. */
  readonly limitFigures: LimitFigures;
  readonly #tally = new Tally();
  /** What was counted, as rows have it. */
  readonly storedCounts: StoredCounts;
  readonly #ledger: ChargeLedger;
  readonly #reservations: Reservations;
  readonly #recovery: Recovery;
  /** What becomes of records when the shard splits. */
  readonly ownership: Ownership;
  /** True if no caller of the last call waits for the disk: each frame of its batch was relaxed. */
  isRelaxed = false;

  constructor({
    hashKey,
    homeSalt = 0,
    bytesMax,
    isCounting,
    answerTtlMs = ANSWER_TTL_MS,
    semaphoreIntervalMs = SEMAPHORE_INTERVAL_MS,
    drawSalt = 0,
  }: EngineOptions) {
    this.#isCounting = isCounting;
    this.limitFigures = new LimitFigures(hashKey);
    this.#records = new Records(hashKey, homeSalt, bytesMax, isCounting);
    this.semaphores = new Semaphores(this.#records, hashKey, semaphoreIntervalMs);
    this.storedCounts = new StoredCounts(this.#tally, this.limitFigures, isCounting);
    this.#ledger = new ChargeLedger(drawSalt * 2 ** 32, this.#records.space);
    this.#reservations = new Reservations(this.#records, this.#ledger);
    this.#recovery = new Recovery(this.#records, {
      semaphores: this.semaphores,
      reservations: this.#reservations,
      counts: this.storedCounts,
    });
    this.ownership = new Ownership(this.#records, {
      semaphores: this.semaphores,
      reservations: this.#reservations,
      ledger: this.#ledger,
      recovery: this.#recovery,
    });
    const limits = {
      figures: isCounting ? this.limitFigures : null,
      ledger: this.#ledger,
      reservations: this.#reservations,
      limiters: new Limiters(),
    };
    this.#throttr = new ThrottrRequests(
      this.#records,
      this.semaphores,
      this.#answer,
      this.#tally.totals,
      answerTtlMs,
      limits,
    );
    this.#limitAll = new LimitAll(this.#records, limits);
    this.listing = new Listing(this.#records);
    this.semaphorePages = new SemaphorePages(this.#records, this.semaphores);
    this.leasePages = new LeasePages(this.#records, this.semaphores);
    this.scan = new Scan(this.#records, this.semaphorePages);
    this.exporting = new Export(this.#records);
    this.semaphoreRequests = new SemaphoreRequests(this.semaphores, this.#tally.totals);
  }

  get figures(): EngineFigures {
    const { table, space } = this.#records;
    return {
      records: table.ownRecords,
      bytes: table.bytes + space.bytesBeside,
      refusedForSpace: space.refused,
    };
  }

  /**
   * Takes a reading of the platform's clock, in milliseconds since the epoch, as every method with the parameter `realMs`
   * does. Restored records that have expired by then are left out.
   */
  advance(realMs: number): void {
    this.#records.advance(realMs);
  }

  /**
   * Executes a batch at a time and returns the answer. Formats: `wire/batch.ts`.
   *
   * @param batch whole frames only, as dispatch makes them
   * @param realMs milliseconds since the epoch, a reading of the platform's clock
   * @throws RangeError for an invalid batch, before anything is applied
   */
  apply(batch: Uint8Array, realMs: number): Uint8Array<ArrayBuffer> {
    const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
    const placement = readPlacement(view);
    const firstAt = batchHeaderBytes(placement);
    assertSections(view, firstAt);
    this.#begin(realMs);
    const answer = this.#answer;
    answer.reset();
    answer.u8(batchVersionOf(placement));
    this.isRelaxed = true;
    let framesLeft = SHARD_CALL_FRAMES_MAX;
    for (let at = firstAt; at < batch.length;) {
      const protocol = anyProtocolByCode(batch[at]!)!;
      const replyBytesMax = Math.min(
        view.getUint32(at + 4, true),
        framesLeft > 0 ? Math.max(0, SHARD_ANSWER_BYTES_MAX - answer.length) : 0,
      );
      const from = at + SECTION_HEADER_BYTES;
      const end = from + view.getUint32(at + 8, true);
      const part = answer.reserve(PART_HEADER_BYTES);
      const frames =
        protocol.dialect === "yrmcds"
          ? this.#yrmcdsSection(batch, at, from, end, replyBytesMax)
          : this.#throttr.execute(protocol, batch, from, end, replyBytesMax, framesLeft);
      framesLeft -= frames;
      const replyBytes = answer.length - part - PART_HEADER_BYTES;
      answer.view.setUint32(part, frames, true);
      answer.view.setUint32(part + 4, replyBytes, true);
      if (protocol.dialect === "yrmcds") {
        this.isRelaxed = false;
      } else {
        if (this.#throttr.relaxed !== frames) this.isRelaxed = false;
        this.#tally.totals[TALLY_READ_BYTES]! += this.#throttr.endedAt - from;
        this.#tally.totals[TALLY_WRITE_BYTES]! += replyBytes;
      }
      at = end;
    }
    return answer.take();
  }

  /**
   * Charges several limits, or none, and returns the reply to a LIMIT_ALL. Formats: `wire/edge/limit-all-body.ts`.
   *
   * @param id for `cancelLimits`; null where no other shard takes part
   */
  limitAll(body: Uint8Array, id: string | null, realMs: number): Uint8Array<ArrayBuffer> {
    this.#begin(realMs);
    return this.#limitAll.execute(body, id);
  }

  /**
   * Gives back what `limitAll` has charged under an id, or refuses it when it comes.
   *
   * @returns why a key has kept its charge; null where all have given it back
   */
  cancelLimits(body: Uint8Array, id: string, realMs: number): Error | null {
    this.#begin(realMs);
    return this.#limitAll.cancel(body, id);
  }

  /** Before records are changed and requests counted. */
  #begin(realMs: number): void {
    this.isRelaxed = false;
    this.#records.advance(realMs);
    this.#tally.turn(this.#records.nowMs);
    this.limitFigures.turn(this.#records.nowMs);
    if (this.#records.commit.isExhausted && this.#records.commit.isEmpty)
      this.#records.forgetImages();
  }

  /** Executes the section at `at` of the yrmcds protocol; returns how many frames it has answered. */
  #yrmcdsSection(
    batch: Uint8Array,
    at: number,
    from: number,
    end: number,
    replyBytesMax: number,
  ): number {
    const framesAt = from + HOLDER_BYTES;
    const holder = batch.subarray(from, framesAt);
    const { realMs } = this.#records.clock;
    if ((batch[at + 1]! & SectionFlag.hasEnded) !== 0) {
      this.semaphores.releaseAll(holder, realMs);
      return 0;
    }
    return this.semaphoreRequests.execute(
      batch,
      framesAt,
      end,
      holder,
      this.#answer,
      replyBytesMax,
      realMs,
    );
  }

  /** Counts of the records under keys. Expired records count until they are collected. */
  get totals(): Totals {
    return this.#records.table.ownTotals;
  }

  /**
   * Requests executed since counting began, by type, and bytes of requests and replies; zeros unless `isCounting`. A report may
   * follow: it needs all counts to be turned to one minute.
   */
  tallyFigures(realMs: number): TallyFigures {
    this.#records.advance(realMs);
    this.limitFigures.turn(this.#records.nowMs);
    return (this.#isCounting ? this.#tally : new Tally()).figures(this.#records.nowMs);
  }

  /** Makes reports of what is counted; null where nothing is. */
  newReporter(): MinuteReporter | null {
    return this.#isCounting ? new MinuteReporter(this.#tally, this.limitFigures) : null;
  }

  /** True when something has changed that a restart would not change again: see `Commit`. */
  get needsRow(): boolean {
    return this.#records.commit.needsRow;
  }

  /** True when something has changed since the last commit was taken. */
  get isDirty(): boolean {
    return !this.#records.commit.isEmpty;
  }

  /** Takes the commit: its rows, in order. They are valid until the next change. */
  takeCommit(rowBytesMax: number): Uint8Array[] {
    const { clock, commit } = this.#records;
    clock.isUnstored = false;
    const rows = commit.take(clock, rowBytesMax, this.storedCounts.takeIfDue(clock.nowMs));
    this.ownership.copy?.noteCommit(rows);
    return rows;
  }

  /** A row with the counts that no row has, and no records; null when rows have them all. */
  takeCountsRow(): Uint8Array | null {
    const { clock } = this.#records;
    const counts = this.storedCounts.take(clock.nowMs);
    return counts === null ? null : countsRow(counts, clock);
  }

  /**
   * True when the platform's clock has gone back, and no row says so. A restart continues from the time of the last row.
   * Where requests only read, as refused limits do, every restart would begin at that time again.
   */
  get isClockUnstored(): boolean {
    return this.#records.clock.isUnstored;
  }

  /** The row of the time could not be written. */
  noteClockUnstored(): void {
    this.#records.clock.isUnstored = true;
  }

  /** A row with the time, and nothing else. */
  takeClockRow(): Uint8Array {
    const { clock } = this.#records;
    clock.isUnstored = false;
    return clockRow(Mark.lagging, clock.realMs, clock.nowMs);
  }

  /**
   * Applies a row of a snapshot or a journal. Rows of a commit must come in the order they were taken.
   *
   * @throws RangeError for a row that this release can't read
   */
  restore(row: Uint8Array): void {
    this.#recovery.restore(row);
  }

  /** All rows are restored. */
  endRestore(): void {
    this.#records.space.trim();
  }

  /** By how much the time of records is ahead of the platform's clock, ms: see `ShardClock`. */
  get clockLagMs(): number {
    return this.#records.clock.lagMs;
  }

  /** Present time of the shard, ms: for intervals, as it never goes back. */
  get nowMs(): number {
    return this.#records.nowMs;
  }

  /** A step of a removal: see `Scan.remove`. After the last step, removed reservations take no memory any more. */
  remove(query: ScanQuery, cursor: number): ReturnType<Scan["remove"]> {
    const step = this.scan.remove(query, cursor);
    const isLast = step.cursor === null;
    if (isLast && query.keyspace === Keyspace.reservations) this.#reservations.forgetRemoved();
    return step;
  }

  /**
   * Sets the clock back to the platform's, and all times that records have with it: remaining times stay the same. The
   * commit must be empty, and no snapshot and no copy of a range under way.
   *
   * @returns a row whose replay does the same
   */
  setClockBack(): Uint8Array {
    const { clock } = this.#records;
    const lagMs = clock.lagMs;
    // No image says that the times of all records have changed: the other shard would keep those of before.
    if (this.ownership.copy !== null) throw new Error("clock: a range is being copied");
    clock.setBack();
    setBackRecords(this.#records, lagMs);
    this.semaphores.noteRestored();
    this.#reservations.noteRestored();
    return clockRow(Mark.setBack, lagMs, clock.nowMs);
  }

  /** A step of a snapshot: see `snapshot.ts`. */
  snapshotStep(
    cursor: number,
    bytesMax: number,
    rowBytesMax: number,
  ): { rows: Uint8Array[]; cursor: number | null } {
    return snapshotStep(this.#records, cursor, bytesMax, rowBytesMax);
  }

  /**
   * Collects expired records from the first segment, from `cursor` on, that may hold any.
   *
   * @returns the cursor to go on from, or null when the walk is done
   */
  sweepStep(cursor: number, realMs: number): number | null {
    const { table, now } = this.#records;
    this.#records.advance(realMs);
    for (let hash = cursor; hash < HASH_END;) {
      const segment = table.segmentAt(hash);
      const next = table.hashAfter(hash);
      if (segment.deadline.notAfter(now.high, now.low)) {
        table.sweep(hash, now);
        if (next < HASH_END) return next;
      }
      hash = next;
    }
    this.#ledger.sweep(now.toBig());
    return null;
  }

  /**
   * The deadline, if it has become earlier since the last call: when the first record expires. Else null. In whole
   * milliseconds of the platform's clock: the first one at which the record is gone.
   */
  takeEarlierDeadline(): number | null {
    const records = this.#records;
    if (!records.hasEarlierDeadline) return null;
    records.hasEarlierDeadline = false;
    return records.toRealMs(records.deadline.toMsCeil());
  }

  /** The deadline, looked for in all segments: null when no record expires. It may be too early. */
  findDeadline(): number | null {
    const { deadline, table } = this.#records;
    deadline.set(0xffffffff, 0xffffffff);
    for (const segment of table.segments()) {
      deadline.lower(segment.deadline.high, segment.deadline.low);
    }
    this.#records.hasEarlierDeadline = false;
    if (deadline.high === 0xffffffff && deadline.low === 0xffffffff) return null;
    return this.#records.toRealMs(deadline.toMsCeil());
  }
}

/** Checks all section headers, so that an unreadable batch is refused before any of it is applied. */
function assertSections(view: DataView, firstAt: number): void {
  for (let at = firstAt; at < view.byteLength;) {
    const cut = at + SECTION_HEADER_BYTES > view.byteLength;
    const length = cut ? 0 : view.getUint32(at + 8, true);
    if (cut || at + SECTION_HEADER_BYTES + length > view.byteLength) {
      throw new RangeError("batch: cut short");
    }
    const protocol = anyProtocolByCode(view.getUint8(at));
    if (protocol === undefined) {
      throw new RangeError(`batch: unknown protocol ${view.getUint8(at)}`);
    }
    const holderBytes = view.getUint16(at + 2, true);
    if (holderBytes !== (protocol.dialect === "yrmcds" ? HOLDER_BYTES : 0)) {
      throw new RangeError(`batch: a holder of ${holderBytes} bytes in ${protocol.dialect}`);
    }
    if (holderBytes > length) throw new RangeError("batch: cut short");
    at += SECTION_HEADER_BYTES + length;
  }
}
