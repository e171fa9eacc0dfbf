/**
 * The semantics of commands, and of the 7.3 requests beside them, as plain maps and bigints.
 *
 * Written from the text of the wire format and the descriptions of the operations; it shares no code
 * with the engine but the limiter, which decides limits here and there.
 */
import {
  createLimiter,
  type StoredDecision,
  type Limiter,
} from "../../../src/engine/ratelimit/limiter.ts";
import { Command, CompareOption, Flag } from "../../../src/wire/edge/command.ts";
import { readConfiguration } from "../../../src/wire/ratelimit/binary.ts";
import { RateLimitError } from "../../../src/wire/ratelimit/error.ts";
import { StateError } from "../../../src/wire/ratelimit/state.ts";
import { Body, decisionBytes, Refused, type Expected, type Ttl } from "./body.ts";
import type { ModelRequest } from "./requests.ts";
import { saturated, U64_MAX, uint, unitNs } from "./values.ts";

/** A reply that is known to the byte. */
interface ExactReply {
  readonly bytes: readonly number[];
}

export interface ModelRecord {
  kind: 1 | 2;
  unit: number;
  expiresNs: bigint;
  quota: bigint;
  value: readonly number[];
  reads: bigint;
  writes: bigint;
  /** What they were when the present minute began. */
  readsBefore: bigint;
  writesBefore: bigint;
}

interface Answer {
  readonly request: string;
  readonly bytes: readonly (number | null)[];
  readonly expiresNs: bigint;
}

const MINUTE_NS = unitNs(5);
const UNUSED = { reads: 0n, writes: 0n, readsBefore: 0n, writesBefore: 0n };
const STATE_UNIT = 4;
const STATE_BYTES_MAX = 4096;
const CONFIGURATION_BYTES_MAX = 1024;
const ANSWER_BYTES_MAX = 1024;
const KNOWN_TYPES: readonly number[] = Object.values(Command);
const READING: readonly number[] = [Command.read, Command.peek];
const RELAXABLE: readonly number[] = [Command.limit, Command.peek, Command.refund];

export class CommandModel {
  /** By key, one character a byte. Some have expired. */
  #records = new Map<string, ModelRecord>();
  #answers = new Map<string, Answer>();
  #nowNs = 0n;
  readonly #answerTtlNs: bigint;

  constructor(answerTtlMs: number) {
    this.#answerTtlNs = BigInt(answerTtlMs) * 1_000_000n;
  }

  clone(): CommandModel {
    const copy = new CommandModel(Number(this.#answerTtlNs / 1_000_000n));
    for (const [key, record] of this.#records) copy.#records.set(key, { ...record });
    copy.#answers = new Map(this.#answers);
    copy.#nowNs = this.#nowNs;
    return copy;
  }

  /** A restart: usage is not stored. */
  restarted(): CommandModel {
    const copy = this.clone();
    for (const record of copy.#records.values()) {
      record.reads = record.writes = record.readsBefore = record.writesBefore = 0n;
    }
    return copy;
  }

  /** Time never goes back. */
  advance(nowMs: number): void {
    const nowNs = BigInt(nowMs) * 1_000_000n;
    if (nowNs <= this.#nowNs) return;
    const hasTurned = nowNs / MINUTE_NS > this.#nowNs / MINUTE_NS;
    this.#nowNs = nowNs;
    if (!hasTurned) return;
    for (const record of this.#records.values()) {
      record.readsBefore = record.reads;
      record.writesBefore = record.writes;
    }
  }

  /** Live records, by key. */
  get records(): Map<string, ModelRecord> {
    return new Map([...this.#records].filter(([, { expiresNs }]) => expiresNs > this.#nowNs));
  }

  get answers(): number {
    return [...this.#answers.values()].filter(({ expiresNs }) => expiresNs > this.#nowNs).length;
  }

  /** Removes the live records of a prefix and gives their number. */
  remove(prefix: string): number {
    const keys = [...this.records.keys()].filter((key) => key.startsWith(prefix));
    for (const key of keys) this.#records.delete(key);
    return keys.length;
  }

  /** The reply to a command, whatever its bytes are behind a header that is right. */
  command(frame: Uint8Array): Expected {
    try {
      return { bytes: this.#execute(frame) };
    } catch (error) {
      if (error instanceof Refused) return { codes: error.codes };
      throw error;
    }
  }

  #execute(frame: Uint8Array): readonly (number | null)[] {
    const [type, flags, keyBytes] = [frame[0]!, frame[1]!, frame[2]!];
    if (!KNOWN_TYPES.includes(type)) throw new Error(`0x${type.toString(16)} is no command`);
    const key = String.fromCharCode(...frame.subarray(7, 7 + keyBytes));
    const body = frame.subarray(7 + keyBytes);
    if ((flags & ~(Flag.isOnce | Flag.isRelaxed)) !== 0) throw new Refused("flags_invalid");
    if ((flags & Flag.isRelaxed) !== 0 && !RELAXABLE.includes(type)) {
      throw new Refused("flags_invalid");
    }
    // When an answer leaves is of no concern to what it says.
    if ((flags & Flag.isOnce) === 0) return this.#apply(type, key, new Body(body));
    if (READING.includes(type)) throw new Refused("flags_invalid");
    const idBytes = body[0];
    if (idBytes === undefined) throw new Refused("body_invalid");
    if (idBytes < 1 || idBytes > 64) throw new Refused("idempotency_key_invalid", "body_invalid");
    if (body.length < 1 + idBytes) throw new Refused("body_invalid");
    const name = JSON.stringify([[...body.subarray(1, 1 + idBytes)], key]);
    const rest = body.subarray(1 + idBytes);
    const request = JSON.stringify([type, ...rest]);
    const known = this.#answers.get(name);
    if (known !== undefined && known.expiresNs > this.#nowNs) {
      if (known.request !== request) throw new Refused("idempotency_conflict");
      return known.bytes;
    }
    const bytes = this.#apply(type, key, new Body(rest));
    // A long one has changed nothing: who asks again is answered anew.
    if (bytes.length > ANSWER_BYTES_MAX) return bytes;
    this.#answers.set(name, {
      request,
      bytes,
      expiresNs: saturated(this.#nowNs + this.#answerTtlNs),
    });
    return bytes;
  }

  #apply(type: number, key: string, body: Body): readonly (number | null)[] {
    const reply = this.#bodyOf(type, key, body);
    return [1, ...uint(BigInt(reply.length), 4), ...reply];
  }

  #bodyOf(type: number, key: string, body: Body): number[] {
    switch (type) {
      case Command.read:
        return this.#read(key, body);
      case Command.insert:
        return this.#insert(key, body);
      case Command.increment:
        return this.#increment(key, body);
      case Command.change:
        return this.#change(key, body);
      case Command.expire:
        return this.#expire(key, body);
      case Command.purge:
        body.end();
        return [this.#remove(key) ? 1 : 0];
      case Command.set:
        return this.#set(key, body);
      case Command.compareAndSet:
        return this.#compareAndSet(key, body);
      case Command.limit:
      case Command.peek:
      case Command.refund:
        return this.#limit(type, key, body);
      default:
        throw new Error(`the model does not know command 0x${type.toString(16)}`);
    }
  }

  #read(key: string, body: Body): number[] {
    body.end();
    const record = this.#find(key);
    if (record !== undefined) record.reads++;
    return this.#outcome(record !== undefined, key);
  }

  #insert(key: string, body: Body): number[] {
    const quota = body.u64();
    const ttl = body.ttl();
    body.end();
    body.assertTtl(ttl);
    const isNew = this.#find(key) === undefined;
    if (isNew) this.#create(key, { kind: 1, quota, value: [] }, ttl);
    return [isNew ? 1 : 0];
  }

  #increment(key: string, body: Body): number[] {
    const amount = body.u64();
    const ttl = body.ttl();
    body.end();
    const record = this.#find(key);
    body.assertTtl(ttl, isBuffer(record));
    if (record === undefined) {
      this.#create(key, { kind: 1, quota: amount, value: [] }, ttl);
      return this.#outcome(true, key);
    }
    return this.#outcome(changeQuota(record, 1, amount, U64_MAX), key);
  }

  #change(key: string, body: Body): number[] {
    const change = body.u8();
    const amount = body.u64();
    body.end();
    const record = this.#find(key);
    const codes = [
      ...(change > 2 ? ["change_invalid"] : []),
      ...(isBuffer(record) ? ["kind_mismatch"] : []),
    ];
    if (codes.length > 0) throw new Refused(...codes);
    if (record === undefined) return this.#outcome(false, key);
    return this.#outcome(changeQuota(record, change, amount, U64_MAX), key);
  }

  #expire(key: string, body: Body): number[] {
    const change = body.u8();
    const ttl = body.ttl();
    body.end();
    const codes = [
      ...(change > 2 ? ["change_invalid"] : []),
      ...(unitNs(ttl.unit) === 0n ? ["unit_invalid"] : []),
    ];
    if (codes.length > 0) throw new Refused(...codes);
    const record = this.#find(key);
    if (record === undefined) return this.#outcome(false, key);
    this.#changeExpiry(key, record, change, ttl.count * unitNs(ttl.unit));
    return this.#outcome(true, key, false);
  }

  #set(key: string, body: Body): number[] {
    const ttl = body.ttl();
    const value = body.rest();
    const record = this.#find(key);
    body.assertTtl(ttl, isCounter(record));
    this.#put(key, { kind: 2, quota: 0n, value }, ttl);
    return [1];
  }

  #compareAndSet(key: string, body: Body): number[] {
    const options = body.u8();
    const ttl = body.ttl();
    const expectedBytes = body.u32();
    const record = this.#find(key);
    const isKnown = options <= (CompareOption.isExpected | CompareOption.isRemoval);
    const codes = [
      ...(isKnown ? [] : ["options_invalid"]),
      ...(unitNs(ttl.unit) === 0n ? ["unit_invalid"] : []),
      ...((options & CompareOption.isRemoval) === 0 && ttl.count === 0n ? ["ttl_invalid"] : []),
      ...(isCounter(record) ? ["kind_mismatch"] : []),
      ...(expectedBytes > body.left ? ["body_invalid"] : []),
    ];
    if (codes.length > 0) throw new Refused(...codes);
    const expected = body.take(expectedBytes);
    const value = body.rest();
    const isAsExpected =
      (options & CompareOption.isExpected) === 0
        ? record === undefined
        : record !== undefined && same(record.value, expected);
    if (!isAsExpected) return this.#outcome(false, key);
    if ((options & CompareOption.isRemoval) !== 0) this.#remove(key);
    else this.#put(key, { kind: 2, quota: 0n, value }, ttl);
    return [1];
  }

  #limit(type: number, key: string, body: Body): number[] {
    const cost = type === Command.peek ? 1 : body.f64();
    const record = this.#find(key);
    const configuration = Uint8Array.from(body.rest());
    if (configuration.length > CONFIGURATION_BYTES_MAX) throw new Refused("body_invalid");
    const codes = isCounter(record) ? ["kind_mismatch"] : [];
    let limiter: Limiter | null = null;
    try {
      limiter = createLimiter(readConfiguration(configuration, 0, configuration.length));
    } catch (error) {
      codes.push(codeOf(error));
    }
    if (cost < 1 || !Number.isSafeInteger(cost)) codes.push("cost_invalid");
    if (record !== undefined && record.value.length > STATE_BYTES_MAX) codes.push("state_invalid");
    const stored = record === undefined ? null : String.fromCharCode(...record.value);
    let decision: StoredDecision | null = null;
    try {
      if (limiter !== null && !isCounter(record)) {
        decision = this.#decide(limiter, type, stored, cost);
      }
    } catch (error) {
      codes.push(codeOf(error));
    }
    if (codes.length > 0) throw new Refused(...codes);
    const { state, ttlNs } = decision!;
    if (state !== null) {
      const value = Array.from(state, (character) => character.charCodeAt(0));
      this.#put(key, { kind: 2, quota: 0n, value }, { unit: STATE_UNIT, count: 0n }, ttlNs);
    } else if (record !== undefined) {
      record.reads++;
    }
    return decisionBytes(decision!);
  }

  #decide(limiter: Limiter, type: number, stored: string | null, cost: number): StoredDecision {
    if (type === Command.peek) return limiter.peek(stored, this.#nowNs);
    if (type === Command.refund) return limiter.refund(stored, this.#nowNs, cost);
    return limiter.limit(stored, this.#nowNs, cost);
  }

  /** The reply to a request of 7.3 with values of so many bytes. */
  throttr(valueSize: number, request: ModelRequest): ExactReply {
    const { key } = request;
    const max = 2n ** BigInt(8 * valueSize) - 1n;
    const shown = (value: bigint): number[] => uint(value > max ? max : value, valueSize);
    const record = this.#find(key);
    const ttlOf = ({ unit, expiresNs }: ModelRecord): number[] => [
      unit,
      ...shown((expiresNs - this.#nowNs - 1n) / unitNs(unit)),
    ];
    const status = (isSuccess: boolean): ExactReply => ({ bytes: [isSuccess ? 1 : 0] });
    switch (request.type) {
      case "insert": {
        const { quota, ttlType: unit, ttl: count } = request;
        if (unitNs(unit) === 0n || record !== undefined) return status(false);
        this.#create(key, { kind: 1, quota, value: [] }, { unit, count });
        return status(true);
      }
      case "query":
        if (record?.kind !== 1) return status(false);
        record.reads++;
        return { bytes: [1, ...shown(record.quota), ...ttlOf(record)] };
      case "get":
        if (record?.kind !== 2 || BigInt(record.value.length) > max) return status(false);
        record.reads++;
        return {
          bytes: [1, ...ttlOf(record), ...shown(BigInt(record.value.length)), ...record.value],
        };
      case "purge":
        return status(this.#remove(key));
      case "set": {
        const { ttlType: unit, ttl: count } = request;
        if (unitNs(unit) === 0n || isCounter(record)) return status(false);
        this.#put(key, { kind: 2, quota: 0n, value: [...request.value] }, { unit, count });
        return status(true);
      }
      case "update": {
        const { attribute, change, value } = request;
        if (record === undefined || change > 2 || attribute > 1) return status(false);
        if (attribute === 0)
          return status(record.kind === 1 && changeQuota(record, change, value, max));
        this.#changeExpiry(key, record, change, value * unitNs(record.unit));
        return status(true);
      }
    }
  }

  /**
   * The reply to STAT; what is estimated is left open.
   *
   * @param isLive as of now, not as of the last whole minute's end
   */
  stat(key: string, isLive: boolean): Expected {
    const record = this.#find(key);
    if (record === undefined) return { bytes: [0] };
    const open = Array.from({ length: 16 }, () => null);
    const [reads, writes] = isLive
      ? [record.reads, record.writes]
      : [record.readsBefore, record.writesBefore];
    return { bytes: [1, ...open, ...uint(reads, 8), ...uint(writes, 8)] };
  }

  #find(key: string): ModelRecord | undefined {
    const record = this.#records.get(key);
    return record !== undefined && record.expiresNs > this.#nowNs ? record : undefined;
  }

  #remove(key: string): boolean {
    const isThere = this.#find(key) !== undefined;
    this.#records.delete(key);
    return isThere;
  }

  #create(key: string, what: Pick<ModelRecord, "kind" | "quota" | "value">, ttl: Ttl): void {
    this.#records.delete(key);
    this.#put(key, what, ttl);
  }

  /** Puts a record in the place of what is there, whose usage goes on. */
  #put(
    key: string,
    what: Pick<ModelRecord, "kind" | "quota" | "value">,
    { unit, count }: Ttl,
    ttlNs = count * unitNs(unit),
  ): void {
    const { reads, writes, readsBefore, writesBefore } = this.#find(key) ?? UNUSED;
    const expiresNs = saturated(this.#nowNs + ttlNs);
    const usage = { reads, writes: writes + 1n, readsBefore, writesBefore };
    if (expiresNs <= this.#nowNs) this.#records.delete(key);
    else this.#records.set(key, { ...what, unit, expiresNs, ...usage });
  }

  #changeExpiry(key: string, record: ModelRecord, change: number, byNs: bigint): void {
    const from = change === 0 ? this.#nowNs : record.expiresNs;
    record.expiresNs = saturated(change === 2 ? from - byNs : from + byNs);
    record.writes++;
    if (record.expiresNs <= this.#nowNs) this.#records.delete(key);
  }

  #outcome(isApplied: boolean, key: string, hasValue = true): number[] {
    const applied = isApplied ? 1 : 0;
    const record = this.#find(key);
    if (record === undefined) return [applied];
    const { kind, unit, expiresNs } = record;
    const value = kind === 1 ? uint(record.quota, 8) : record.value;
    return [
      applied,
      kind,
      unit,
      ...uint(expiresNs, 8),
      ...uint(expiresNs - this.#nowNs, 8),
      ...(hasValue ? value : []),
    ];
  }
}

function changeQuota(record: ModelRecord, change: number, amount: bigint, max: bigint): boolean {
  const quota = [amount, record.quota + amount, record.quota - amount][change]!;
  if (quota < 0n || (change === 1 && quota > max)) return false;
  record.quota = quota;
  record.writes++;
  return true;
}

function codeOf(error: unknown): string {
  if (error instanceof RateLimitError || error instanceof StateError) return error.code;
  throw error;
}

const isCounter = (record: ModelRecord | undefined): boolean => record?.kind === 1;
const isBuffer = (record: ModelRecord | undefined): boolean => record?.kind === 2;
const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((byte, i) => byte === b[i]);
