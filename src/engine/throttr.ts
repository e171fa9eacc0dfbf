/**
 * The Throttr requests: reads frames in place, changes records, writes replies.
 *
 * One method a request type. Source: protocol reference, "7.3 layouts" and "Semantics".
 */
import { writeUint, type ByteWriter } from "../wire/bytes.ts";
import { COMMANDS_START } from "../wire/edge/command.ts";
import { PAIR_UNITS } from "../wire/throttr/pair-units.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import {
  Attribute,
  Change,
  keyLength,
  layoutsOf,
  RequestType,
  STATUS_FAILURE,
  STATUS_SUCCESS,
  type Layout,
} from "../wire/throttr/requests.ts";
import { frameLength } from "../wire/throttr/scanner.ts";
import { Commands } from "./commands.ts";
import type { LimitParts } from "./limit-commands.ts";
import type { Records } from "./records.ts";
import { EXPIRES_HIGH, EXPIRES_LOW, HIGH, Kind, LOW } from "./segment.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { U64, unitNs } from "./time.ts";
import { USAGE_ROW_BYTES, writeUsage, type Usage } from "./usage.ts";

export class ThrottrRequests {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #counts: Float64Array;
  /** The end of the last frame that `execute` has answered. */
  endedAt = 0;
  /** Frames that the last `execute` has answered for callers who don't wait for the disk. */
  get relaxed(): number {
    return this.#commands.relaxed;
  }
  #bytes: Uint8Array = new Uint8Array(0);
  #protocol!: Protocol;
  #layout!: Layout;
  /** The value field that `#readUint` read last. */
  #high = 0;
  #low = 0;
  /** The key of the request. */
  #keyAt = 0;
  #keyBytes = 0;
  readonly #time = new U64();
  readonly #commands: Commands;
  readonly #usage: Usage = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };

  /**
   * @param counts gets the number of requests of each type added
   * @param answerTtlMs see `Commands`, also for `limits`
   */
  constructor(
    records: Records,
    semaphores: Semaphores,
    out: ByteWriter,
    counts: Float64Array,
    answerTtlMs: number,
    limits: LimitParts,
  ) {
    this.#records = records;
    this.#commands = new Commands(records, semaphores, out, answerTtlMs, limits);
    this.#out = out;
    this.#counts = counts;
  }

  /**
   * Executes the frames in `bytes[at, end)` until all are answered, or `framesMax`, or their replies reach
   * `replyBytesMax`; the reply that crosses that limit is still written.
   *
   * @returns the number of frames answered
   * @throws RangeError when the bytes are not whole frames of the protocol, which no door sends
   */
  execute(
    protocol: Protocol,
    bytes: Uint8Array,
    at: number,
    end: number,
    replyBytesMax: number,
    framesMax: number,
  ): number {
    const layouts = layoutsOf(protocol);
    const limit = this.#out.length + replyBytesMax;
    this.#protocol = protocol;
    this.#bytes = bytes;
    this.#commands.relaxed = 0;
    let frames = 0;
    while (at < end && this.#out.length < limit && frames < framesMax) {
      const length = frameLength(layouts, bytes, at, end, Infinity);
      if (length <= 0 || at + length > end) throw new RangeError("frames: not whole");
      const type = bytes[at]!;
      const layout = layouts[type]!;
      this.#layout = layout;
      this.#keyAt = at + layout.keyAt;
      this.#keyBytes = keyLength(layout, bytes, at);
      this.#counts[type]!++;
      const { requestIdBytes } = protocol;
      if (requestIdBytes > 0) this.#out.copy(bytes, at + 1, at + 1 + requestIdBytes);
      if (type >= COMMANDS_START) this.#commands.execute(bytes, at, at + length);
      else this.#request(type, at + 1 + requestIdBytes);
      at += length;
      frames++;
    }
    this.endedAt = at;
    return frames;
  }

  /** @param at where the fields begin, behind type and request id */
  #request(type: number, at: number): void {
    switch (type) {
      case RequestType.insert:
        return this.#write(this.#insert(at));
      case RequestType.query:
        return this.#query();
      case RequestType.update:
        return this.#write(this.#update(at));
      case RequestType.purge:
        return this.#status(this.#purge());
      case RequestType.set:
        return this.#write(this.#set(at));
      case RequestType.get:
        return this.#get();
      case RequestType.stat:
        return this.#stat();
      default:
        throw new RangeError(`frames: ${this.#layout.name} is not for a shard`);
    }
  }

  #insert(at: number): boolean {
    const n = this.#protocol.valueSize;
    const unit = this.#unitOf(this.#bytes[at + n]!);
    if (unitNs(unit) === 0) return false;
    const exists = this.#find() !== 0;
    // Dialect 2 resets what exists.
    if (exists && !this.#isPair) return false;
    const expires = this.#expiryAfter(at + 1 + n, unit);
    this.#readUint(at, n);
    if (exists) {
      this.#records.resetCounter(unit, this.#high, this.#low, expires);
      return true;
    }
    return this.#records.addCounter(
      this.#protocol.keyspace,
      this.#bytes,
      this.#keyAt,
      this.#keyBytes,
      unit,
      this.#high,
      this.#low,
      expires,
    );
  }

  #query(): void {
    if (this.#find() !== Kind.counter) return this.#status(false);
    this.#records.countRead();
    const { slots } = this.#records.segment;
    const { slot } = this.#records;
    const n = this.#protocol.valueSize;
    const reply = this.#out.reserve(2 + 2 * n);
    const { bytes } = this.#out;
    bytes[reply] = STATUS_SUCCESS;
    this.#putUint(reply + 1, slots[slot + HIGH]!, slots[slot + LOW]!);
    this.#putTtl(reply + 1 + n);
  }

  #update(at: number): boolean {
    const kind = this.#find();
    if (kind === 0) return false;
    const change = this.#bytes[at + 1]!;
    this.#readUint(at + 2, this.#protocol.valueSize);
    switch (this.#bytes[at]) {
      case Attribute.quota:
        return kind === Kind.counter && this.#changeQuota(change);
      case Attribute.ttl:
        this.#time.setDuration(this.#high, this.#low, unitNs(this.#records.unit));
        return this.#records.changeExpiry(change, this.#time);
      default:
        return false;
    }
  }

  /** Changes the quota of the current record by the value that was read, or to it. */
  #changeQuota(change: number): boolean {
    const { maxHigh, maxLow } = this.#protocol;
    const isChanged = this.#records.changeQuota(change, this.#high, this.#low, maxHigh, maxLow);
    // Dialect 2 stops at zero.
    if (isChanged || change !== Change.decrease || !this.#isPair) return isChanged;
    return this.#records.changeQuota(Change.patch, 0, 0, maxHigh, maxLow);
  }

  #purge(): boolean {
    if (this.#find() === 0) return false;
    this.#records.remove();
    return true;
  }

  #set(at: number): boolean {
    const n = this.#protocol.valueSize;
    const unit = this.#unitOf(this.#bytes[at]!);
    if (unitNs(unit) === 0) return false;
    if (this.#find() === Kind.counter) return false;
    const expires = this.#expiryAfter(at + 1, unit);
    this.#readUint(at + 2 + n, this.#layout.valueSizeBytes);
    return this.#records.setBuffer(
      this.#protocol.keyspace,
      this.#bytes,
      this.#keyAt,
      this.#keyBytes,
      unit,
      this.#keyAt + this.#keyBytes,
      this.#low,
      expires,
    );
  }

  #get(): void {
    if (this.#find() !== Kind.buffer) return this.#status(false);
    const { segment, slot } = this.#records;
    const valueBytes = segment.slots[slot + LOW]!;
    const { valueSize: n, maxHigh, maxLow } = this.#protocol;
    if (maxHigh === 0 && valueBytes > maxLow) return this.#status(false);
    this.#records.countRead();
    const valueAt = segment.valueAt(slot);
    const reply = this.#out.reserve(2 + 2 * n);
    this.#out.bytes[reply] = STATUS_SUCCESS;
    this.#putTtl(reply + 1);
    this.#putUint(reply + 2 + n, 0, valueBytes);
    this.#out.copy(segment.arena, valueAt, valueAt + valueBytes);
  }

  #stat(): void {
    if (this.#find() === 0) return this.#status(false);
    const usage = this.#usage;
    const { segment, slot } = this.#records;
    const at = this.#out.reserve(1 + USAGE_ROW_BYTES);
    this.#out.bytes[at] = STATUS_SUCCESS;
    this.#out.bytes.fill(0, at + 1, at + 1 + USAGE_ROW_BYTES);
    if (this.#records.readUsage(segment, slot, this.#protocol.hasLiveUsage, usage)) {
      writeUsage(this.#out.view, at + 1, usage);
    }
  }

  #find(): number {
    return this.#records.find(this.#protocol.keyspace, this.#bytes, this.#keyAt, this.#keyBytes);
  }

  #unitOf(ttlType: number): number {
    return this.#isPair ? (PAIR_UNITS[ttlType] ?? 0) : ttlType;
  }

  /** The dialect has pairs: it is dialect 2. */
  get #isPair(): boolean {
    return this.#protocol.requestIdBytes > 0;
  }

  /** Now plus the TTL at `at`. */
  #expiryAfter(at: number, unit: number): U64 {
    this.#readUint(at, this.#protocol.valueSize);
    const { now } = this.#records;
    return this.#time.setDuration(this.#high, this.#low, unitNs(unit)).add(now.high, now.low);
  }

  /** Status of a write, which is counted if it succeeded. */
  #write(success: boolean): void {
    if (success) this.#records.countWrite();
    this.#status(success);
  }

  #status(success: boolean): void {
    this.#out.u8(success ? STATUS_SUCCESS : STATUS_FAILURE);
  }

  /**
   * Writes unit and remaining time of the current record: 1 + N bytes. A nanosecond less is left, so that
   * a fresh 60 s reads 59 within the millisecond of its INSERT, too: clients of other servers rely on it.
   */
  #putTtl(at: number): void {
    const { slots } = this.#records.segment;
    const { slot, unit, realNow } = this.#records;
    this.#out.bytes[at] = this.#isPair ? PAIR_UNITS.indexOf(unit) : unit;
    const left = this.#records
      .toReal(this.#time.set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!))
      .subtract(realNow.high, realNow.low)
      .subtract(0, 1)
      .divide(unitNs(unit));
    this.#putUint(at + 1, left.high, left.low);
  }

  /** Writes a u64 in N bytes; what does not fit reads as the maximum. */
  #putUint(at: number, high: number, low: number): void {
    const { valueSize, maxHigh, maxLow } = this.#protocol;
    const fits = high < maxHigh || (high === maxHigh && low <= maxLow);
    writeUint(this.#out.bytes, at, valueSize, fits ? high : maxHigh, fits ? low : maxLow);
  }

  #readUint(at: number, width: number): void {
    const bytes = this.#bytes;
    let low = bytes[at]!;
    let high = 0;
    if (width > 1) low |= bytes[at + 1]! << 8;
    if (width > 2) low |= (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    if (width > 4) {
      high =
        bytes[at + 4]! | (bytes[at + 5]! << 8) | (bytes[at + 6]! << 16) | (bytes[at + 7]! << 24);
    }
    this.#low = low >>> 0;
    this.#high = high >>> 0;
  }
}
