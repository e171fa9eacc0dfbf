/**
 * The commands of the edge dialect on counters and buffers: reads them in place, changes records, writes replies.
 *
 * One method a command; each changes nothing before it is sure that it succeeds. Commands on rate limits and on
 * semaphores, RESTORE, and idempotency keys each have a file of their own. Formats: `wire/edge/command.ts`.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import {
  Command,
  CompareOption,
  Flag,
  REPLY_HEADER_BYTES,
  TTL_BYTES,
  writeError,
} from "../wire/edge/command.ts";
import { writeApplied, writeRecordHeader } from "../wire/edge/outcome.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { StateError } from "../wire/ratelimit/state.ts";
import { Change, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { CommandFrame } from "./command-frame.ts";
import { KeptAnswers } from "./kept-answers.ts";
import { LimitCommands, type LimitParts } from "./limit-commands.ts";
import type { Records } from "./records.ts";
import { assertKind, isRefusal, Refusal, SHARD_FULL } from "./refusal.ts";
import { Restore } from "./restore.ts";
import { HIGH, Kind, LOW } from "./segment.ts";
import { SEMAPHORE_COMMANDS, SemaphoreCommands } from "./semaphore-commands.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { U64 } from "./time.ts";

/**
 * Commands that take no idempotency key. Reads change nothing, and a caller who may only read must not fill the shard
 * with answers. The others say what the record is to be, or name their lease: repeated, they do the same again.
 */
const WITHOUT_ONCE: readonly number[] = [
  Command.read,
  Command.peek,
  Command.draw,
  Command.reserve,
  Command.settle,
  Command.restore,
  Command.restorePair,
  ...SEMAPHORE_COMMANDS,
];

/**
 * Commands whose caller may choose not to wait for the disk: those on limits, except draws and reservations, which must
 * never be undone.
 */
const RELAXABLE: readonly number[] = [Command.limit, Command.peek, Command.refund];
/** Commands that decide about a request. */
const DECIDING: readonly number[] = [Command.limit, Command.draw, Command.reserve];

const COMPARE_OPTIONS = CompareOption.isExpected | CompareOption.isRemoval;

export class Commands {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #frame = new CommandFrame();
  readonly #keptAnswers: KeptAnswers;
  readonly #limits: LimitCommands;
  readonly #restore: Restore;
  readonly #semaphores: SemaphoreCommands;
  /** Made once: a closure for each command would be an allocation on the hot path. */
  readonly #answer = (): void => this.#writeAnswer();
  readonly #expires = new U64();
  readonly #duration = new U64();
  /** Commands that were executed for callers who don't wait for the disk. `ThrottrRequests` sets it back. */
  relaxed = 0;

  /**
   * @param answerTtlMs how long the answer to a command with an idempotency key is kept
   */
  constructor(
    records: Records,
    semaphores: Semaphores,
    out: ByteWriter,
    answerTtlMs: number,
    limits: LimitParts,
  ) {
    this.#records = records;
    this.#out = out;
    this.#keptAnswers = new KeptAnswers(records, out, answerTtlMs);
    this.#limits = new LimitCommands(records, out, limits);
    this.#restore = new Restore(records);
    this.#semaphores = new SemaphoreCommands(records, semaphores, out);
  }

  /** Executes the command in `bytes[at, end)` and writes its reply. */
  execute(bytes: Uint8Array, at: number, end: number): void {
    const frame = this.#frame;
    frame.open(bytes, at, end);
    const start = this.#out.length;
    try {
      if (this.#takeFlags()) this.#keptAnswers.answerOnce(frame, this.#answer);
      else this.#writeAnswer();
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (DECIDING.includes(frame.type)) this.#limits.countError(frame);
      this.#out.length = start;
      writeError(
        this.#out,
        error instanceof StateError ? error.publicMessage(frame.key) : error.message,
      );
    }
  }

  /**
   * Checks the flags, and counts a relaxed command.
   *
   * @returns true if the body begins with an idempotency key
   */
  #takeFlags(): boolean {
    const { flags, type } = this.#frame;
    if (flags === 0) return false;
    const isOnce = (flags & Flag.isOnce) !== 0;
    const isRelaxed = (flags & Flag.isRelaxed) !== 0;
    const isKnown = (flags & ~(Flag.isOnce | Flag.isRelaxed)) === 0;
    if (
      !isKnown ||
      (isOnce && WITHOUT_ONCE.includes(type)) ||
      (isRelaxed && !RELAXABLE.includes(type))
    ) {
      throw new Refusal(
        `flags_invalid: expected the sum of ${Flag.isOnce}, for commands that accept an idempotency key, and ${Flag.isRelaxed}, for LIMIT, PEEK and REFUND; got ${flags}`,
      );
    }
    if (isRelaxed) this.relaxed++;
    return isOnce;
  }

  #writeAnswer(): void {
    const start = this.#out.reserve(REPLY_HEADER_BYTES);
    this.#execute();
    this.#out.bytes[start] = STATUS_SUCCESS;
    this.#out.view.setUint32(start + 1, this.#out.length - start - REPLY_HEADER_BYTES, true);
  }

  #execute(): void {
    const frame = this.#frame;
    switch (frame.type) {
      case Command.read:
        return this.#read();
      case Command.insert:
        return this.#insert();
      case Command.increment:
        return this.#increment();
      case Command.change:
        return this.#change();
      case Command.expire:
        return this.#expire();
      case Command.purge:
        return this.#purge();
      case Command.set:
        return this.#set();
      case Command.compareAndSet:
        return this.#compareAndSet();
      case Command.limit:
      case Command.peek:
      case Command.refund:
      case Command.draw:
      case Command.reserve:
      case Command.settle:
        return this.#limits.execute(frame);
      case Command.restore:
        return this.#out.u8(this.#restore.execute(frame, Keyspace.throttr));
      case Command.restorePair:
        return this.#out.u8(this.#restore.execute(frame, Keyspace.throttrPairs));
      case Command.acquire:
      case Command.renew:
      case Command.release:
      case Command.semaphore:
      case Command.restoreLease:
        return this.#semaphores.execute(frame);
      default:
        throw new RangeError(`frames: command 0x${frame.type.toString(16)} is not for a shard`);
    }
  }

  #read(): void {
    this.#frame.need(0);
    const isThere = this.#find() !== 0;
    if (isThere) this.#records.countRead();
    this.#outcome(isThere);
  }

  #insert(): void {
    this.#frame.need(8 + TTL_BYTES);
    const quota = this.#frame.take(8);
    const unit = this.#takeTtl();
    const isNew = this.#find() === 0;
    if (isNew) this.#addCounter(quota, unit);
    writeApplied(this.#out, isNew);
  }

  #increment(): void {
    this.#frame.need(8 + TTL_BYTES);
    const amount = this.#frame.take(8);
    const unit = this.#takeTtl();
    const kind = this.#find();
    if (kind === 0) {
      this.#addCounter(amount, unit);
      this.#outcome(true);
    } else {
      assertKind(kind, Kind.counter);
      this.#outcome(this.#changeQuota(Change.increase, amount));
    }
  }

  #change(): void {
    this.#frame.need(1 + 8);
    const change = this.#frame.takeU8();
    assertChange(change);
    const amount = this.#frame.take(8);
    const kind = this.#find();
    if (kind !== 0) assertKind(kind, Kind.counter);
    this.#outcome(kind !== 0 && this.#changeQuota(change, amount));
  }

  #expire(): void {
    this.#frame.need(1 + TTL_BYTES);
    const change = this.#frame.takeU8();
    assertChange(change);
    this.#frame.takeTtl(this.#duration);
    const isThere = this.#find() !== 0;
    if (isThere) {
      this.#records.changeExpiry(change, this.#duration);
      this.#records.countWrite();
    }
    this.#outcome(isThere, false);
  }

  #purge(): void {
    this.#frame.need(0);
    const isThere = this.#find() !== 0;
    if (isThere) this.#records.remove();
    writeApplied(this.#out, isThere);
  }

  #set(): void {
    this.#frame.need(TTL_BYTES, Infinity);
    const unit = this.#takeTtl();
    const kind = this.#find();
    if (kind !== 0) assertKind(kind, Kind.buffer);
    this.#setBuffer(unit);
    writeApplied(this.#out, true);
  }

  #compareAndSet(): void {
    this.#frame.need(1 + TTL_BYTES + 4, Infinity);
    const options = this.#frame.takeU8();
    if ((options & ~COMPARE_OPTIONS) !== 0) {
      throw new Refusal(`options_invalid: expected 0 to ${COMPARE_OPTIONS}, got ${options}`);
    }
    const unit = this.#takeTtl((options & CompareOption.isRemoval) === 0);
    const expectedBytes = this.#frame.view.getUint32(this.#frame.take(4), true);
    this.#frame.need(expectedBytes, Infinity);
    const expectedAt = this.#frame.take(expectedBytes);
    const kind = this.#find();
    if (kind !== 0) assertKind(kind, Kind.buffer);
    const isAsExpected =
      (options & CompareOption.isExpected) === 0
        ? kind === 0
        : kind !== 0 && this.#holds(expectedAt, expectedBytes);
    if (!isAsExpected) return this.#outcome(false);
    if ((options & CompareOption.isRemoval) === 0) {
      this.#setBuffer(unit);
    } else if (kind !== 0) {
      this.#records.remove();
    }
    writeApplied(this.#out, true);
  }

  /** Sets the buffer under the key to what is left of the body. */
  #setBuffer(unit: number): void {
    const { bytes, keyAt, keyBytes, at, bytesLeft } = this.#frame;
    const isSet = this.#records.setBuffer(
      Keyspace.throttr,
      bytes,
      keyAt,
      keyBytes,
      unit,
      at,
      bytesLeft,
      this.#expires,
    );
    if (!isSet) throw new Refusal(SHARD_FULL);
    this.#records.countWrite();
  }

  #addCounter(quotaAt: number, unit: number): void {
    const { bytes, view, keyAt, keyBytes } = this.#frame;
    const isAdded = this.#records.addCounter(
      Keyspace.throttr,
      bytes,
      keyAt,
      keyBytes,
      unit,
      view.getUint32(quotaAt + 4, true),
      view.getUint32(quotaAt, true),
      this.#expires,
    );
    if (!isAdded) throw new Refusal(SHARD_FULL);
    this.#records.countWrite();
  }

  #changeQuota(change: Change, amountAt: number): boolean {
    const { view } = this.#frame;
    const high = view.getUint32(amountAt + 4, true);
    const low = view.getUint32(amountAt, true);
    const isChanged = this.#records.changeQuota(change, high, low, 0xffffffff, 0xffffffff);
    if (isChanged) this.#records.countWrite();
    return isChanged;
  }

  /** True when the current record is a buffer with the value `bytes[at, at + length)` of the frame. */
  #holds(at: number, length: number): boolean {
    const { bytes } = this.#frame;
    const { segment, slot } = this.#records;
    if (segment.slots[slot + LOW] !== length) return false;
    const valueAt = segment.valueAt(slot);
    for (let i = 0; i < length; i++) {
      if (segment.arena[valueAt + i] !== bytes[at + i]) return false;
    }
    return true;
  }

  /** Looks up the key of the command. */
  #find(): Kind | 0 {
    const { bytes, keyAt, keyBytes } = this.#frame;
    return this.#records.find(Keyspace.throttr, bytes, keyAt, keyBytes);
  }

  /** Writes whether the command was applied, and the current record, if there is one. */
  #outcome(isApplied: boolean, hasValue = true): void {
    const out = this.#out;
    writeApplied(out, isApplied);
    const records = this.#records;
    const { segment, slot, realNow } = records;
    if (slot < 0) return;
    const { slots } = segment;
    const expires = records.realEnd(segment, slot);
    const left = this.#duration.set(expires.high, expires.low).subtract(realNow.high, realNow.low);
    writeRecordHeader(out, records.kind, records.unit, expires, left);
    if (!hasValue) return;
    if (records.kind === Kind.counter) {
      out.u32(slots[slot + LOW]!);
      out.u32(slots[slot + HIGH]!);
    } else {
      const at = segment.valueAt(slot);
      out.copy(segment.arena, at, at + slots[slot + LOW]!);
    }
  }

  /** Reads a TTL: `#expires` is set to its end, its unit is returned. */
  #takeTtl(isOfRecord = true): number {
    const unit = this.#frame.takeTtl(this.#expires);
    if (isOfRecord && this.#expires.high === 0 && this.#expires.low === 0) {
      throw new Refusal(TTL_ZERO);
    }
    const { now } = this.#records;
    this.#expires.add(now.high, now.low);
    return unit;
  }
}

/** Throttr's own requests take it, and the record is gone at once; a call that stores nothing is a mistake. */
const TTL_ZERO = "ttl_invalid: expected a TTL of 1 or more, got 0: the record would expire at once";

function assertChange(change: number): asserts change is Change {
  if (change <= Change.decrease) return;
  throw new Refusal(
    `change_invalid: expected 0 (patch), 1 (increase) or 2 (decrease), got ${change}`,
  );
}
