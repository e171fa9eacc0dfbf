/**
 * The Throttr requests: reads frames in place, changes records, writes replies.
 *
 * One method a request type. Source: protocol reference, "7.3 layouts" and "Semantics".
 */
import { writeUint, type ByteWriter } from "../wire/bytes.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import {
  Attribute,
  Change,
  layoutsOf,
  RequestType,
  STATUS_FAILURE,
  STATUS_SUCCESS,
  type Layout,
} from "../wire/throttr/requests.ts";
import { frameLength } from "../wire/throttr/scanner.ts";
import { Keyspace, type Records } from "./records.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  HIGH,
  KEY_AT,
  keyLengthOf,
  Kind,
  LOW,
  META,
} from "./segment.ts";
import { U64, unitNs } from "./time.ts";

const U32 = 2 ** 32;

export class ThrottrRequests {
  readonly #records: Records;
  readonly #out: ByteWriter;
  #bytes: Uint8Array = new Uint8Array(0);
  #protocol!: Protocol;
  #layout!: Layout;
  /** The value field that was read last. */
  #high = 0;
  #low = 0;
  readonly #time = new U64();
  readonly #amount = new U64();

  constructor(records: Records, out: ByteWriter) {
    this.#records = records;
    this.#out = out;
  }

  /**
   * Executes the frames in `bytes[at, end)` until all are answered or their replies reach
   * `replyBytesMax`; the reply that crosses the limit is still written.
   *
   * @returns the number of frames answered
   * @throws RangeError when the bytes are not whole frames of the protocol: doors never send such
   */
  execute(
    protocol: Protocol,
    bytes: Uint8Array,
    at: number,
    end: number,
    replyBytesMax: number,
  ): number {
    const layouts = layoutsOf(protocol);
    const limit = this.#out.length + replyBytesMax;
    this.#protocol = protocol;
    this.#bytes = bytes;
    let frames = 0;
    while (at < end && this.#out.length < limit) {
      const length = frameLength(layouts, bytes, at, end, Infinity);
      if (length <= 0 || at + length > end) throw new RangeError("frames: not whole");
      this.#layout = layouts[bytes[at]!]!;
      this.#request(at);
      at += length;
      frames++;
    }
    return frames;
  }

  #request(at: number): void {
    switch (this.#bytes[at]) {
      case RequestType.insert:
        return this.#status(this.#insert(at));
      case RequestType.query:
        return this.#query(at);
      case RequestType.update:
        return this.#status(this.#update(at));
      case RequestType.purge:
        return this.#status(this.#purge(at));
      case RequestType.set:
        return this.#status(this.#set(at));
      case RequestType.get:
        return this.#get(at);
    }
  }

  #insert(at: number): boolean {
    const n = this.#protocol.valueSize;
    const unit = this.#bytes[at + 1 + n]!;
    if (unitNs(unit) === 0 || this.#find(at) !== 0) return false;
    const expires = this.#expiryAfter(at + 2 + n, unit);
    this.#readUint(at + 1, n);
    return this.#records.addCounter(
      Keyspace.throttr,
      this.#bytes,
      at + this.#layout.headerBytes,
      this.#bytes[at + this.#layout.keySizeAt]!,
      unit,
      this.#high,
      this.#low,
      expires,
    );
  }

  #query(at: number): void {
    if (this.#find(at) !== Kind.counter) return this.#status(false);
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
    const kind = this.#find(at);
    if (kind === 0) return false;
    const change = this.#bytes[at + 2]!;
    this.#readUint(at + 3, this.#protocol.valueSize);
    switch (this.#bytes[at + 1]) {
      case Attribute.quota:
        return kind === Kind.counter && this.#updateQuota(change);
      case Attribute.ttl:
        return this.#updateTtl(change);
      default:
        return false;
    }
  }

  #updateQuota(change: number): boolean {
    const { slots } = this.#records.segment;
    const { slot } = this.#records;
    const low = slots[slot + LOW]!;
    const high = slots[slot + HIGH]!;
    if (change === Change.decrease) {
      const highLeft = high - this.#high - (low < this.#low ? 1 : 0);
      if (highLeft < 0) return false;
      this.#records.setQuota(highLeft, (low - this.#low) >>> 0);
      return true;
    }
    if (change === Change.increase) {
      const lowSum = low + this.#low;
      const highSum = high + this.#high + (lowSum >= U32 ? 1 : 0);
      const { maxHigh, maxLow } = this.#protocol;
      if (highSum > maxHigh || (highSum === maxHigh && lowSum % U32 > maxLow)) return false;
      this.#records.setQuota(highSum, lowSum >>> 0);
      return true;
    }
    if (change !== Change.patch) return false;
    this.#records.setQuota(this.#high, this.#low);
    return true;
  }

  #updateTtl(change: number): boolean {
    const { slots } = this.#records.segment;
    const { slot } = this.#records;
    const amount = this.#amount.setDuration(this.#high, this.#low, unitNs(this.#records.unit));
    const expires = this.#time;
    switch (change) {
      case Change.patch:
        expires.set(this.#records.now.high, this.#records.now.low).add(amount.high, amount.low);
        break;
      case Change.increase:
        expires
          .set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!)
          .add(amount.high, amount.low);
        break;
      case Change.decrease:
        expires
          .set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!)
          .subtract(amount.high, amount.low);
        break;
      default:
        return false;
    }
    this.#records.setExpiry(expires);
    return true;
  }

  #purge(at: number): boolean {
    if (this.#find(at) === 0) return false;
    this.#records.remove();
    return true;
  }

  #set(at: number): boolean {
    const bytes = this.#bytes;
    const { headerBytes, keySizeAt, valueSizeAt, valueSizeBytes } = this.#layout;
    const unit = bytes[at + 1]!;
    if (unitNs(unit) === 0) return false;
    if (this.#find(at) === Kind.counter) return false;
    const expires = this.#expiryAfter(at + 2, unit);
    const keyAt = at + headerBytes;
    const keyBytes = bytes[at + keySizeAt]!;
    this.#readUint(at + valueSizeAt, valueSizeBytes);
    return this.#records.setBuffer(
      Keyspace.throttr,
      bytes,
      keyAt,
      keyBytes,
      unit,
      keyAt + keyBytes,
      this.#low,
      expires,
    );
  }

  #get(at: number): void {
    if (this.#find(at) !== Kind.buffer) return this.#status(false);
    const { slots, arena } = this.#records.segment;
    const { slot } = this.#records;
    const valueBytes = slots[slot + LOW]!;
    const { valueSize: n, maxHigh, maxLow } = this.#protocol;
    if (maxHigh === 0 && valueBytes > maxLow) return this.#status(false);
    const valueAt = slots[slot + KEY_AT]! + keyLengthOf(slots[slot + META]!);
    const reply = this.#out.reserve(2 + 2 * n);
    this.#out.bytes[reply] = STATUS_SUCCESS;
    this.#putTtl(reply + 1);
    this.#putUint(reply + 2 + n, 0, valueBytes);
    this.#out.copy(arena, valueAt, valueAt + valueBytes);
  }

  #find(at: number): number {
    const { headerBytes, keySizeAt } = this.#layout;
    return this.#records.find(
      Keyspace.throttr,
      this.#bytes,
      at + headerBytes,
      this.#bytes[at + keySizeAt]!,
    );
  }

  /** Now plus the TTL at `at`. */
  #expiryAfter(at: number, unit: number): U64 {
    this.#readUint(at, this.#protocol.valueSize);
    const { now } = this.#records;
    return this.#time.setDuration(this.#high, this.#low, unitNs(unit)).add(now.high, now.low);
  }

  #status(success: boolean): void {
    this.#out.u8(success ? STATUS_SUCCESS : STATUS_FAILURE);
  }

  /** Writes unit and remaining time of the record at hand: 1 + N bytes. */
  #putTtl(at: number): void {
    const { slots } = this.#records.segment;
    const { slot, unit, now } = this.#records;
    this.#out.bytes[at] = unit;
    const left = this.#time
      .set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!)
      .subtract(now.high, now.low)
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
