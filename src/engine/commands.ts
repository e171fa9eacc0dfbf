/**
 * The commands of the edge dialect: reads them in place, changes records, writes replies.
 *
 * One method a command; each does nothing before it is sure that it succeeds. Formats:
 * `wire/edge/command.ts`.
 */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import {
  Command,
  COMMAND_HEADER_BYTES,
  CompareOption,
  Flag,
  IDEMPOTENCY_KEY_BYTES_MAX,
  PAIR_COMMAND_HEADER_BYTES,
  RecordKind,
  REPLY_HEADER_BYTES,
  TTL_BYTES,
  writeError,
} from "../wire/edge/command.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { RateLimitError } from "../wire/ratelimit/error.ts";
import { StateError } from "../wire/ratelimit/state.ts";
import { Change, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { hashBytes, type HashKey } from "./hash.ts";
import { Limiters } from "./limiters.ts";
import { realDecision } from "./real-decision.ts";
import type { Records } from "./records.ts";
import { Refusal, SHARD_FULL, unitInvalid } from "./refusal.ts";
import { Restore } from "./restore.ts";
import { EXPIRES_HIGH, EXPIRES_LOW, HIGH, Kind, LOW } from "./segment.ts";
import { SEMAPHORE_COMMANDS, SemaphoreCommands } from "./semaphore-commands.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { U64, unitNs } from "./time.ts";

/** TTL types, as LIST shows them: of answers that are kept, and of states of limiters. */
const MILLISECONDS = 3;
const SECONDS = 4;
/** No limiter writes a longer state. */
const STATE_BYTES_MAX = 4096;
/** No configuration of a limiter is longer: eight quotas with the longest names, and a bucket, stay below. */
const CONFIGURATION_BYTES_MAX = 1024;
/**
 * Longer answers are those of commands that have changed nothing: they are not kept, and whoever asks again
 * is answered anew.
 */
const ANSWER_BYTES_MAX = 1024;
/**
 * They have nothing to be applied once: they read, and whoever may only read must not fill the shard with
 * answers; or they say what the record is to be, or name their lease, however often.
 */
const WITHOUT_ONCE: readonly number[] = [
  Command.read,
  Command.peek,
  Command.restore,
  Command.restorePair,
  ...SEMAPHORE_COMMANDS,
];

const COMPARE_OPTIONS = CompareOption.isExpected | CompareOption.isRemoval;

const FINGERPRINT_BYTES = 8;
/** Part of what is stored: an answer must be found to be that of the same request. */
const FINGERPRINT_KEYS: readonly HashKey[] = [
  { low: 0x243f6a88, high: 0x85a308d3 },
  { low: 0x13198a2e, high: 0x03707344 },
];

export class Commands {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #answerTtlMs: number;
  readonly #limiters = new Limiters();
  readonly #restore: Restore;
  readonly #semaphoreCommands: SemaphoreCommands;
  /** A key and a value that are not in the request next to each other. */
  readonly #scratch = new ByteWriter(256);
  /** Name and fingerprint of the answer that is to be kept, and the answer behind them. */
  readonly #kept = new ByteWriter(256);
  readonly #expires = new U64();
  readonly #left = new U64();

  /** The command at hand: its key, and its body, from `#at` on what has not been read of it. */
  #bytes: Uint8Array = new Uint8Array(0);
  #view: DataView = new DataView(new ArrayBuffer(0));
  #type = 0;
  #keyAt = 0;
  #keyBytes = 0;
  #at = 0;
  #end = 0;

  /** @param answerTtlMs how long the answer to a command with an idempotency key is kept */
  constructor(records: Records, semaphores: Semaphores, out: ByteWriter, answerTtlMs: number) {
    this.#records = records;
    this.#out = out;
    this.#answerTtlMs = answerTtlMs;
    this.#restore = new Restore(records);
    this.#semaphoreCommands = new SemaphoreCommands(records, semaphores, out);
  }

  /** Executes the command in `bytes[at, end)` and writes its reply. */
  execute(bytes: Uint8Array, at: number, end: number): void {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.#type = bytes[at]!;
    if (this.#type === Command.restorePair) {
      this.#keyAt = at + PAIR_COMMAND_HEADER_BYTES;
      this.#keyBytes = 2 + bytes[this.#keyAt]! + bytes[this.#keyAt + 1]!;
    } else {
      this.#keyAt = at + COMMAND_HEADER_BYTES;
      this.#keyBytes = bytes[at + 2]!;
    }
    this.#at = this.#keyAt + this.#keyBytes;
    this.#end = end;
    const start = this.#out.length;
    try {
      if (this.#isOnce(bytes[at + 1]!)) this.#once();
      else this.#answer();
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#out.length = start;
      writeError(
        this.#out,
        error instanceof StateError ? error.publicMessage(this.#key()) : error.message,
      );
    }
  }

  #isOnce(flags: number): boolean {
    if (flags === 0) return false;
    if (flags === Flag.isOnce && !WITHOUT_ONCE.includes(this.#type)) return true;
    throw new Refusal(
      `flags_invalid: 0 is possible and, for commands that take an idempotency key, ${Flag.isOnce}, got ${flags}`,
    );
  }

  #answer(): void {
    const start = this.#out.reserve(REPLY_HEADER_BYTES);
    this.#command();
    this.#out.bytes[start] = STATUS_SUCCESS;
    this.#out.view.setUint32(start + 1, this.#out.length - start - REPLY_HEADER_BYTES, true);
  }

  #command(): void {
    switch (this.#type) {
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
        return this.#limit();
      case Command.restore:
        return this.#restored(Keyspace.throttr);
      case Command.restorePair:
        return this.#restored(Keyspace.throttrPairs);
      case Command.acquire:
      case Command.renew:
      case Command.release:
      case Command.semaphore:
        return this.#onSemaphore();
      default:
        throw new RangeError(`frames: command 0x${this.#type.toString(16)} is not for a shard`);
    }
  }

  #read(): void {
    this.#need(0);
    const isThere = this.#find() !== 0;
    if (isThere) this.#records.countRead();
    this.#outcome(isThere);
  }

  #insert(): void {
    this.#need(8 + TTL_BYTES);
    const quota = this.#takeAt(8);
    const unit = this.#takeTtl();
    const isNew = this.#find() === 0;
    if (isNew) this.#addCounter(quota, unit);
    this.#out.u8(isNew ? 1 : 0);
  }

  #increment(): void {
    this.#need(8 + TTL_BYTES);
    const amount = this.#takeAt(8);
    const unit = this.#takeTtl();
    const kind = this.#find();
    if (kind === 0) {
      this.#addCounter(amount, unit);
      this.#outcome(true);
    } else {
      this.#assertKind(kind, Kind.counter);
      this.#outcome(this.#changeQuota(Change.increase, amount));
    }
  }

  #change(): void {
    this.#need(1 + 8);
    const change = this.#bytes[this.#takeAt(1)]!;
    assertChange(change);
    const amount = this.#takeAt(8);
    const kind = this.#find();
    if (kind !== 0) this.#assertKind(kind, Kind.counter);
    this.#outcome(kind !== 0 && this.#changeQuota(change, amount));
  }

  #expire(): void {
    this.#need(1 + TTL_BYTES);
    const change = this.#bytes[this.#takeAt(1)]!;
    assertChange(change);
    const unitAt = this.#takeAt(TTL_BYTES);
    const unit = unitNs(this.#bytes[unitAt]!);
    if (unit === 0) throw new Refusal(unitInvalid(this.#bytes[unitAt]!));
    const isThere = this.#find() !== 0;
    if (isThere) {
      const low = this.#view.getUint32(unitAt + 1, true);
      const high = this.#view.getUint32(unitAt + 5, true);
      this.#records.changeExpiry(change, high, low, unit);
      this.#records.countWrite();
    }
    this.#outcome(isThere, false);
  }

  #purge(): void {
    this.#need(0);
    const isThere = this.#find() !== 0;
    if (isThere) this.#records.remove();
    this.#out.u8(isThere ? 1 : 0);
  }

  #set(): void {
    this.#need(TTL_BYTES, Infinity);
    const unit = this.#takeTtl();
    const kind = this.#find();
    if (kind !== 0) this.#assertKind(kind, Kind.buffer);
    this.#setBuffer(unit, this.#at, this.#end - this.#at);
    this.#out.u8(1);
  }

  #compareAndSet(): void {
    this.#need(1 + TTL_BYTES + 4, Infinity);
    const options = this.#bytes[this.#takeAt(1)]!;
    if ((options & ~COMPARE_OPTIONS) !== 0) {
      throw new Refusal(`options_invalid: 0 to ${COMPARE_OPTIONS} are possible, got ${options}`);
    }
    const unit = this.#takeTtl((options & CompareOption.isRemoval) === 0);
    const expectedBytes = this.#view.getUint32(this.#takeAt(4), true);
    this.#need(expectedBytes, Infinity);
    const expectedAt = this.#takeAt(expectedBytes);
    const kind = this.#find();
    if (kind !== 0) this.#assertKind(kind, Kind.buffer);
    const isAsExpected =
      (options & CompareOption.isExpected) === 0
        ? kind === 0
        : kind !== 0 && this.#holds(expectedAt, expectedBytes);
    if (!isAsExpected) return this.#outcome(false);
    if ((options & CompareOption.isRemoval) === 0) {
      this.#setBuffer(unit, this.#at, this.#end - this.#at);
    } else if (kind !== 0) {
      this.#records.remove();
    }
    this.#out.u8(1);
  }

  #limit(): void {
    const isPeek = this.#type === Command.peek;
    const costBytes = isPeek ? 0 : 8;
    this.#need(costBytes, costBytes + CONFIGURATION_BYTES_MAX);
    const costAt = this.#takeAt(costBytes);
    const cost = isPeek ? 1 : this.#view.getFloat64(costAt, true);
    const limiter = this.#limiters.of(this.#bytes, this.#at, this.#end);
    const kind = this.#find();
    if (kind !== 0) this.#assertKind(kind, Kind.buffer);
    const stored = kind === 0 ? null : this.#state();
    const nowNs = this.#records.now.toBig();
    const decision =
      this.#type === Command.limit
        ? limiter.limit(stored, nowNs, cost)
        : isPeek
          ? limiter.peek(stored, nowNs)
          : limiter.refund(stored, nowNs, cost);
    if (decision.state === null) {
      if (kind !== 0) this.#records.countRead();
    } else {
      this.#store(decision.state, decision.ttlNs);
    }
    writeDecision(
      this.#out,
      this.#records.clock.lagMs === 0 ? decision : realDecision(this.#records, decision),
    );
  }

  #restored(keyspace: Keyspace): void {
    const key = { keyspace, at: this.#keyAt, length: this.#keyBytes };
    this.#out.u8(this.#restore.execute(this.#bytes, this.#view, key, this.#at, this.#end));
  }

  #onSemaphore(): void {
    const name = { at: this.#keyAt, length: this.#keyBytes };
    this.#semaphoreCommands.execute(this.#type, this.#bytes, this.#view, name, this.#at, this.#end);
  }

  /** The key at hand, for messages. */
  #key(): string {
    return binaryString(this.#bytes, this.#keyAt, this.#keyBytes);
  }

  /** The text of the buffer at hand. */
  #state(): string {
    const { segment, slot } = this.#records;
    const length = segment.slots[slot + LOW]!;
    if (length > STATE_BYTES_MAX) {
      throw new Refusal(
        `state_invalid: the buffer has ${length} bytes, a state has at most ${STATE_BYTES_MAX}`,
      );
    }
    return binaryString(segment.arena, segment.valueAt(slot), length);
  }

  #store(state: string, ttlNs: bigint): void {
    const scratch = this.#scratch;
    const { now } = this.#records;
    scratch.reset();
    scratch.copy(this.#bytes, this.#keyAt, this.#keyAt + this.#keyBytes);
    const stateAt = scratch.reserve(state.length);
    for (let i = 0; i < state.length; i++) scratch.bytes[stateAt + i] = state.charCodeAt(i);
    this.#expires.setBig(ttlNs).add(now.high, now.low);
    if (!this.#setFrom(scratch, Keyspace.throttr, this.#keyBytes, SECONDS)) {
      throw new Refusal(SHARD_FULL);
    }
    this.#records.countWrite();
  }

  /**
   * Answers a command that is applied once, however often it comes: the first answer is kept beside the
   * record, in the same commit. An error has changed nothing, and is not kept.
   */
  #once(): void {
    this.#need(1, Infinity);
    const idBytes = this.#bytes[this.#takeAt(1)]!;
    if (idBytes < 1 || idBytes > IDEMPOTENCY_KEY_BYTES_MAX) {
      throw new Refusal(
        `idempotency_key_invalid: 1 to ${IDEMPOTENCY_KEY_BYTES_MAX} bytes are expected, got ${idBytes}`,
      );
    }
    this.#need(idBytes, Infinity);
    const idAt = this.#takeAt(idBytes);
    const nameBytes = this.#writeAnswerName(idAt, idBytes);
    if (this.#findAnswer(nameBytes)) return this.#repeat(nameBytes);
    // First of all, so that what is applied is known to have been, whatever room is left afterwards.
    this.#setExpiryOfAnswer();
    if (!this.#setFrom(this.#kept, Keyspace.answers, nameBytes, MILLISECONDS)) {
      throw new Refusal(SHARD_FULL);
    }
    const start = this.#out.length;
    try {
      this.#answer();
    } catch (error) {
      if (this.#findAnswer(nameBytes)) this.#records.remove();
      throw error;
    }
    this.#keepAnswer(nameBytes, start);
  }

  /** Writes name and fingerprint of the answer; returns the bytes of the name. */
  #writeAnswerName(idAt: number, idBytes: number): number {
    const kept = this.#kept;
    kept.reset();
    kept.u8(idBytes);
    kept.copy(this.#bytes, idAt, idAt + idBytes);
    kept.copy(this.#bytes, this.#keyAt, this.#keyAt + this.#keyBytes);
    const nameBytes = kept.length;
    const bodyAt = idAt + idBytes;
    for (const key of FINGERPRINT_KEYS) {
      const body = hashBytes(key, 0, this.#bytes, bodyAt, this.#end - bodyAt);
      kept.u32((body ^ (this.#type * 0x9e3779b1)) >>> 0);
    }
    return nameBytes;
  }

  #findAnswer(nameBytes: number): boolean {
    return this.#records.find(Keyspace.answers, this.#kept.bytes, 0, nameBytes) !== 0;
  }

  #repeat(nameBytes: number): void {
    const { segment, slot } = this.#records;
    const at = segment.valueAt(slot);
    const length = segment.slots[slot + LOW]!;
    for (let i = 0; i < FINGERPRINT_BYTES; i++) {
      if (segment.arena[at + i] === this.#kept.bytes[nameBytes + i]) continue;
      throw new Refusal(
        "idempotency_conflict: the idempotency key came with another call on this key before",
      );
    }
    if (length === FINGERPRINT_BYTES) {
      throw new Refusal("answer_lost: the call was executed before, its answer was not kept");
    }
    this.#out.copy(segment.arena, at + FINGERPRINT_BYTES, at + length);
  }

  #keepAnswer(nameBytes: number, start: number): void {
    if (!this.#findAnswer(nameBytes)) return;
    if (this.#out.length - start > ANSWER_BYTES_MAX) {
      this.#records.remove();
      return;
    }
    this.#kept.copy(this.#out.bytes, start, this.#out.length);
    this.#setExpiryOfAnswer();
    // Where there is no room, what has been set before says that the answer is lost.
    this.#setFrom(this.#kept, Keyspace.answers, nameBytes, MILLISECONDS);
  }

  #setExpiryOfAnswer(): void {
    const { now } = this.#records;
    this.#expires.setDuration(0, this.#answerTtlMs, unitNs(MILLISECONDS)).add(now.high, now.low);
  }

  /**
   * Sets the buffer that was looked up last to what a writer has behind its key.
   *
   * @returns false when the byte budget refuses it
   */
  #setFrom(
    { bytes, length }: ByteWriter,
    keyspace: Keyspace,
    keyBytes: number,
    unit: number,
  ): boolean {
    return this.#records.setBuffer(
      keyspace,
      bytes,
      0,
      keyBytes,
      unit,
      keyBytes,
      length - keyBytes,
      this.#expires,
    );
  }

  #setBuffer(unit: number, valueAt: number, valueBytes: number): void {
    const isSet = this.#records.setBuffer(
      Keyspace.throttr,
      this.#bytes,
      this.#keyAt,
      this.#keyBytes,
      unit,
      valueAt,
      valueBytes,
      this.#expires,
    );
    if (!isSet) throw new Refusal(SHARD_FULL);
    this.#records.countWrite();
  }

  #addCounter(quotaAt: number, unit: number): void {
    const isAdded = this.#records.addCounter(
      Keyspace.throttr,
      this.#bytes,
      this.#keyAt,
      this.#keyBytes,
      unit,
      this.#view.getUint32(quotaAt + 4, true),
      this.#view.getUint32(quotaAt, true),
      this.#expires,
    );
    if (!isAdded) throw new Refusal(SHARD_FULL);
    this.#records.countWrite();
  }

  #changeQuota(change: number, amountAt: number): boolean {
    const high = this.#view.getUint32(amountAt + 4, true);
    const low = this.#view.getUint32(amountAt, true);
    const isChanged = this.#records.changeQuota(change, high, low, 0xffffffff, 0xffffffff);
    if (isChanged) this.#records.countWrite();
    return isChanged;
  }

  /** True when the buffer at hand holds `#bytes[at, at + length)`. */
  #holds(at: number, length: number): boolean {
    const { segment, slot } = this.#records;
    if (segment.slots[slot + LOW] !== length) return false;
    const valueAt = segment.valueAt(slot);
    for (let i = 0; i < length; i++) {
      if (segment.arena[valueAt + i] !== this.#bytes[at + i]) return false;
    }
    return true;
  }

  #find(): number {
    return this.#records.find(Keyspace.throttr, this.#bytes, this.#keyAt, this.#keyBytes);
  }

  /** Writes what became of the command, and the record that it left, if there is one, with its value or without. */
  #outcome(isApplied: boolean, hasValue = true): void {
    const out = this.#out;
    out.u8(isApplied ? 1 : 0);
    const { segment, slot, unit, realNow } = this.#records;
    if (slot < 0) return;
    const { slots } = segment;
    const left = this.#left.set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!);
    const { high, low } = this.#records.toReal(left);
    left.subtract(realNow.high, realNow.low);
    const isCounter = this.#records.kind === Kind.counter;
    out.u8(isCounter ? RecordKind.counter : RecordKind.buffer);
    out.u8(unit);
    out.u32(low);
    out.u32(high);
    out.u32(left.low);
    out.u32(left.high);
    if (!hasValue) return;
    if (isCounter) {
      out.u32(slots[slot + LOW]!);
      out.u32(slots[slot + HIGH]!);
    } else {
      const at = segment.valueAt(slot);
      out.copy(segment.arena, at, at + slots[slot + LOW]!);
    }
  }

  #assertKind(kind: number, expected: number): void {
    if (kind === expected) return;
    throw new Refusal(
      expected === Kind.counter
        ? "kind_mismatch: the record under the key is a buffer"
        : "kind_mismatch: the record under the key is a counter",
    );
  }

  /** Checks how much of the body is left. */
  #need(bytes: number, bytesMax = bytes): void {
    const left = this.#end - this.#at;
    if (left >= bytes && left <= bytesMax) return;
    throw new Refusal(
      `body_invalid: ${rangeText(bytes, bytesMax)} further bytes of body are expected, there are ${left}`,
    );
  }

  /** Moves on by a field and returns where it begins. */
  #takeAt(bytes: number): number {
    const at = this.#at;
    this.#at += bytes;
    return at;
  }

  /** Reads a TTL: its end goes to `#expires`, its unit is returned. */
  #takeTtl(isOfRecord = true): number {
    const at = this.#takeAt(TTL_BYTES);
    const type = this.#bytes[at]!;
    const unit = unitNs(type);
    if (unit === 0) throw new Refusal(unitInvalid(type));
    const low = this.#view.getUint32(at + 1, true);
    const high = this.#view.getUint32(at + 5, true);
    if (isOfRecord && low === 0 && high === 0) throw new Refusal(TTL_ZERO);
    const { now } = this.#records;
    this.#expires.setDuration(high, low, unit).add(now.high, now.low);
    return type;
  }
}

/** Throttr's own requests take it, and the record is gone at once; a call that stores nothing is a mistake. */
const TTL_ZERO =
  "ttl_invalid: a TTL of 1 or more is expected, got 0: the record would expire at once";

function rangeText(from: number, to: number): string {
  if (to === Infinity) return `at least ${from}`;
  return from === to ? String(from) : `${from} to ${to}`;
}

function assertChange(change: number): void {
  if (change <= Change.decrease) return;
  throw new Refusal(
    `change_invalid: 0 patch, 1 increase and 2 decrease are possible, got ${change}`,
  );
}

function isRefusal(error: unknown): error is Error {
  return error instanceof Refusal || error instanceof RateLimitError || error instanceof StateError;
}
