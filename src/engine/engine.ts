/**
 * The deterministic state machine of a shard: batches in, answers and rows out; time is an argument.
 *
 * Nothing here knows where rows are kept. The same rows, in the same order, give the same records.
 */
import {
  BATCH_HEADER_BYTES,
  BATCH_VERSION,
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
import {
  IMAGE_EXPIRES,
  IMAGE_HEADER_BYTES,
  IMAGE_VALUE,
  imageBytes,
  ClockMark,
  imageKind,
  ImageKind,
  readClockMark,
  readRowHeader,
  ROW_HEADER_BYTES,
  writeClockMark,
  writeImage,
  writeRowHeader,
} from "./image.ts";
import { Listing } from "./listing.ts";
import { Records } from "./records.ts";
import { Scan } from "./scan.ts";
import { EXPIRES_HIGH, EXPIRES_LOW, META, SLOT_WORDS, type Segment } from "./segment.ts";
import { HOLDER_BYTES } from "./semaphores/holder.ts";
import { SemaphoreRequests } from "./semaphores/requests.ts";
import { Semaphores } from "./semaphores/semaphores.ts";
import { HASH_END, type Totals } from "./table.ts";
import { Tally, TALLY_READ_BYTES, TALLY_WRITE_BYTES, type TallyFigures } from "./tally.ts";
import { ThrottrRequests } from "./throttr.ts";
import { setBackRecords } from "./set-back.ts";
import { U64 } from "./time.ts";

/** Replies of one answer: what a call may carry is bounded, and so is the memory on both sides. */
const ANSWER_BYTES_MAX = 8 << 20;

const ANSWER_TTL_MS = 600_000;
const SEMAPHORE_INTERVAL_MS = 86_400_000;

export interface EngineOptions {
  /** Seed of the table's hash: 64 random bits, the same in every instance of a shard. */
  hashKey: HashKey;
  /** 32 random bits, others in every instance: which slots hashes lead to. */
  homeSalt?: number;
  /** Budget of the memory of records and their indexes, in bytes. New records beyond it are refused. */
  bytesMax: number;
  /** The usage of records, and requests by type, are counted. */
  isCounting: boolean;
  /** How long the answer to a command with an idempotency key is kept, ms; 10 minutes unless given. */
  answerTtlMs?: number;
  /** Over which maxima of semaphores are taken, ms; a day unless given. */
  semaphoreIntervalMs?: number;
}

/** What a shard holds, counted now. Records past their time count until they are collected. */
export interface EngineFigures {
  records: number;
  bytes: number;
  refusedForSpace: number;
}

export class Engine {
  readonly #records: Records;
  readonly #answer = new ByteWriter(64 * 1024);
  readonly #throttr: ThrottrRequests;
  readonly #expires = new U64();
  readonly #isCounting: boolean;
  /** What requests about all records read. */
  readonly listing: Listing;
  readonly scan: Scan;
  readonly exporting: Export;
  readonly semaphores: Semaphores;
  /** What connections of the yrmcds protocol ask. */
  readonly semaphoreRequests: SemaphoreRequests;

  readonly #tally = new Tally();
  /** When the latest row was written that was restored, ms. */
  #restoredMs = 0;

  constructor({
    hashKey,
    homeSalt = 0,
    bytesMax,
    isCounting,
    answerTtlMs = ANSWER_TTL_MS,
    semaphoreIntervalMs = SEMAPHORE_INTERVAL_MS,
  }: EngineOptions) {
    this.#isCounting = isCounting;
    this.#records = new Records(hashKey, homeSalt, bytesMax, isCounting);
    this.semaphores = new Semaphores(this.#records, hashKey, semaphoreIntervalMs);
    this.#throttr = new ThrottrRequests(
      this.#records,
      this.semaphores,
      this.#answer,
      this.#tally.totals,
      answerTtlMs,
    );
    this.listing = new Listing(this.#records);
    this.scan = new Scan(this.#records, this.semaphores);
    this.exporting = new Export(this.#records);
    this.semaphoreRequests = new SemaphoreRequests(this.semaphores, this.#tally.totals);
  }

  get figures(): EngineFigures {
    const { table, bytesBeside, refusedForSpace } = this.#records;
    return { records: table.records, bytes: table.bytes + bytesBeside, refusedForSpace };
  }

  /**
   * Takes a reading of the platform's clock, in milliseconds since the epoch, as all methods do that are given
   * the time. Restored records that have expired by then are left out.
   */
  advance(realMs: number): void {
    this.#records.advance(realMs);
  }

  /**
   * Executes a batch at a time and returns the answer. Formats: `wire/batch.ts`.
   *
   * @param batch whole frames only, as dispatch makes them
   * @param realMs milliseconds since the epoch, a reading of the platform's clock
   * @throws RangeError before anything is applied when the batch is not readable
   */
  apply(batch: Uint8Array, realMs: number): Uint8Array<ArrayBuffer> {
    const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
    readPlacement(view);
    assertSections(view);
    this.#records.advance(realMs);
    this.#tally.turn(this.#records.nowMs);
    if (this.#records.commit.isExhausted && this.#records.commit.isEmpty)
      this.#records.forgetImages();
    const answer = this.#answer;
    answer.reset();
    answer.u8(BATCH_VERSION);
    for (let at = BATCH_HEADER_BYTES; at < batch.length;) {
      const protocol = anyProtocolByCode(batch[at]!)!;
      const replyBytesMax = Math.min(
        view.getUint32(at + 4, true),
        Math.max(0, ANSWER_BYTES_MAX - answer.length),
      );
      const from = at + SECTION_HEADER_BYTES;
      const end = from + view.getUint32(at + 8, true);
      const part = answer.reserve(PART_HEADER_BYTES);
      const frames =
        protocol.dialect === "yrmcds"
          ? this.#yrmcdsSection(batch, at, from, end, replyBytesMax)
          : this.#throttr.execute(protocol, batch, from, end, replyBytesMax);
      const replyBytes = answer.length - part - PART_HEADER_BYTES;
      answer.view.setUint32(part, frames, true);
      answer.view.setUint32(part + 4, replyBytes, true);
      if (protocol.dialect !== "yrmcds") {
        this.#tally.totals[TALLY_READ_BYTES]! += this.#throttr.endedAt - from;
        this.#tally.totals[TALLY_WRITE_BYTES]! += replyBytes;
      }
      at = end;
    }
    return answer.take();
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
    const { semaphoreRequests } = this;
    return semaphoreRequests.execute(
      batch,
      framesAt,
      end,
      holder,
      this.#answer,
      replyBytesMax,
      realMs,
    );
  }

  /** Counts of the records under keys. Those past their time count until they are collected. */
  get totals(): Totals {
    return { ...this.#records.table.totals };
  }

  /** Requests executed, by type, and bytes of them and of their replies; zeros where nothing is counted. */
  tallyFigures(realMs: number): TallyFigures {
    this.#records.advance(realMs);
    return (this.#isCounting ? this.#tally : new Tally()).figures(this.#records.nowMs);
  }

  /** True when something has changed since the last commit was taken. */
  get isDirty(): boolean {
    return !this.#records.commit.isEmpty;
  }

  /** Ends the commit in the making: its rows, in order. They are valid until the next change. */
  takeCommit(rowBytesMax: number): Uint8Array[] {
    const { clock, commit } = this.#records;
    clock.isUnstored = false;
    return commit.take(clock, rowBytesMax);
  }

  /**
   * True when the platform's clock has gone back, and no row says so. A restart goes on from the time of the last row:
   * where records are only read, as by refused limits, each would begin there again.
   */
  get isClockUnstored(): boolean {
    return this.#records.clock.isUnstored;
  }

  /** A row that holds the time, and nothing else. */
  takeClockRow(): Uint8Array {
    const { clock } = this.#records;
    clock.isUnstored = false;
    return this.#rowOfMark(ClockMark.lagging, clock.realMs);
  }

  /**
   * Applies a row of a snapshot or a journal. Rows of a commit must come in the order they were taken.
   *
   * @throws RangeError for a row that this release can't read
   */
  restore(row: Uint8Array): void {
    const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
    const writtenMs = readRowHeader(view);
    this.#restoreClock(writtenMs, writtenMs);
    for (let at = ROW_HEADER_BYTES, length = 0; at < row.length; at += length) {
      length = imageBytes(view, at);
      if (at + length > row.length) throw new RangeError("row: cut short");
      if (imageKind(row, at) !== ImageKind.superseded) this.#restoreImage(row, view, at);
      else this.#restoreMark(row[at + 1]!, readClockMark(view, at), writtenMs);
    }
  }

  #restoreMark(mark: number, ms: number, writtenMs: number): void {
    if (mark === ClockMark.lagging) this.#restoreClock(writtenMs, ms);
    if (mark !== ClockMark.setBack) return;
    setBackRecords(this.#records, ms);
    this.#restoredMs = writtenMs;
    this.#restoreClock(writtenMs, writtenMs);
  }

  /** Rows of a snapshot are older or newer than those of its journal: the latest one tells the time. */
  #restoreClock(writtenMs: number, realMs: number): void {
    if (writtenMs < this.#restoredMs) return;
    this.#restoredMs = writtenMs;
    this.#records.restoreClock(writtenMs, realMs);
  }

  /** By how much the time of records is ahead of the platform's clock, ms: see `ShardClock`. */
  get clockLagMs(): number {
    return this.#records.clock.lagMs;
  }

  /** Present time of the shard, ms: for intervals, as it never goes back. */
  get nowMs(): number {
    return this.#records.nowMs;
  }

  /**
   * Sets the clock back to the platform's, and all times that records have with it: what was left of them is
   * left. There must be no commit in the making, and no snapshot under way.
   *
   * @returns the row that says so; replaying it does the same
   */
  setClockBack(): Uint8Array {
    const { clock } = this.#records;
    const lagMs = clock.lagMs;
    clock.setBack();
    setBackRecords(this.#records, lagMs);
    this.semaphores.noteRestored();
    return this.#rowOfMark(ClockMark.setBack, lagMs);
  }

  #rowOfMark(mark: number, ms: number): Uint8Array {
    const out = new ByteWriter(ROW_HEADER_BYTES + IMAGE_HEADER_BYTES);
    out.reserve(ROW_HEADER_BYTES);
    writeClockMark(out, mark, ms);
    writeRowHeader(out.view, this.#records.nowMs);
    return out.take();
  }

  #restoreImage(row: Uint8Array, view: DataView, at: number): void {
    const kind = imageKind(row, at);
    const keyspace = row[at + 1]!;
    const keyAt = at + IMAGE_HEADER_BYTES;
    const keyBytes = view.getUint16(at + 2, true);
    const low = view.getUint32(at + IMAGE_VALUE, true);
    if (keyspace === Keyspace.semaphores || keyspace === Keyspace.holdings) {
      this.semaphores.noteRestored();
    }
    this.#records.restore(
      keyspace,
      row,
      keyAt,
      keyBytes,
      kind,
      row[at]! >>> 2,
      keyAt + keyBytes,
      kind === ImageKind.counter ? 0 : low,
      view.getUint32(at + IMAGE_VALUE + 4, true),
      low,
      this.#expires.set(
        view.getUint32(at + IMAGE_EXPIRES + 4, true),
        view.getUint32(at + IMAGE_EXPIRES, true),
      ),
    );
  }

  /**
   * One step of a snapshot: rows with the images of all live records from `cursor` on, until
   * `bytesMax` is reached. A snapshot is what all steps together give; changes between the steps may
   * be in it or not, so the rows of every commit since its first step must be replayed after it.
   *
   * @param cursor 0 at first, then what the last step returned
   * @returns the next cursor, or null when everything has been visited
   */
  snapshotStep(
    cursor: number,
    bytesMax: number,
    rowBytesMax: number,
  ): { rows: Uint8Array[]; cursor: number | null } {
    const { table } = this.#records;
    const rows: Uint8Array[] = [];
    const out = new ByteWriter(Math.min(bytesMax, 64 * 1024));
    const cut = (): void => {
      if (out.length <= ROW_HEADER_BYTES) return;
      const { clock } = this.#records;
      if (clock.lagMs > 0) writeClockMark(out, ClockMark.lagging, clock.realMs);
      writeRowHeader(out.view, this.#records.nowMs);
      rows.push(out.take());
      out.length = ROW_HEADER_BYTES;
    };
    out.reserve(ROW_HEADER_BYTES);
    let written = 0;
    while (cursor < HASH_END && written + out.length < bytesMax) {
      const segment = table.segmentAt(cursor);
      this.#forEachLive(segment, (slot) => {
        const before = out.length;
        writeImage(out, segment, slot);
        if (out.length <= rowBytesMax) return;
        // The image that did not fit begins the next row.
        const image = out.bytes.slice(before, out.length);
        out.length = before;
        written += before;
        cut();
        out.copy(image);
      });
      cursor = table.hashAfter(cursor);
    }
    cut();
    return { rows, cursor: cursor < HASH_END ? cursor : null };
  }

  #forEachLive(segment: Segment, visit: (slot: number) => void): void {
    const { slots } = segment;
    const { now } = this.#records;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      if (slots[slot + META] === 0) continue;
      const expires = this.#expires.set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!);
      if (!expires.notAfter(now.high, now.low)) visit(slot);
    }
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
      if (
        this.#expires.set(segment.earliestHigh, segment.earliestLow).notAfter(now.high, now.low)
      ) {
        table.sweep(hash, now);
        return next < HASH_END ? next : null;
      }
      hash = next;
    }
    return null;
  }

  /**
   * The earliest expiry, when a record with an earlier one than all before has been written since the
   * last call; else null. In whole milliseconds of the platform's clock: the first one at which the record is
   * gone.
   */
  takeEarlierDeadline(): number | null {
    const records = this.#records;
    if (!records.earliestMoved) return null;
    records.earliestMoved = false;
    return records.toRealMs(records.earliest.toMsCeil());
  }

  /** The earliest expiry of all records, found anew, or null when none expires; it may be too early. */
  findDeadline(): number | null {
    const { earliest, table } = this.#records;
    earliest.set(0xffffffff, 0xffffffff);
    for (const { earliestHigh, earliestLow } of table.segments()) {
      if (!earliest.notAfter(earliestHigh, earliestLow)) earliest.set(earliestHigh, earliestLow);
    }
    this.#records.earliestMoved = false;
    if (earliest.high === 0xffffffff && earliest.low === 0xffffffff) return null;
    return this.#records.toRealMs(earliest.toMsCeil());
  }
}

/** Checks all section headers, so that an unreadable batch is refused before any of it is applied. */
function assertSections(view: DataView): void {
  for (let at = BATCH_HEADER_BYTES; at < view.byteLength;) {
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
