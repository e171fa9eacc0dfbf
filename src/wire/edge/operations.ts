/**
 * The operations that callers know, by name: counters, buffers, rate limits, semaphores, messages, listings.
 *
 * Each checks its arguments and makes an `Operation`. RPC, the JSON door and the client offer the same
 * ones, so this is where they are described.
 */
import { ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import type { RateLimitConfiguration } from "../ratelimit/configuration.ts";
import { shown } from "../ratelimit/error.ts";
import { storageKey } from "../ratelimit/keys.ts";
import { decodeInfo, type InfoFigures } from "../throttr/info.ts";
import { Change, layoutsOf, RequestType, STATUS_SUCCESS } from "../throttr/requests.ts";
import {
  idempotencyKeyOf,
  nameOf,
  objectOf,
  ttlOf,
  u64Of,
  valueOf,
  type Text,
} from "./argument.ts";
import {
  Command,
  CompareOption,
  RecordKind,
  RemoveOption,
  SCAN_CURSOR_BYTES_MAX,
  SCAN_RECORDS_MAX,
  SCAN_ROW_BYTES,
  ScanOption,
} from "./command.ts";
import { readDecision } from "./decision.ts";
import { ThrottrError } from "./error.ts";
import {
  checked,
  configurationOf,
  limitResultOf,
  type LimitResult,
  type LimitStrategy,
} from "./limit.ts";
import { msOf } from "./milliseconds.ts";
import { commandOf, EDGE, type CommandReply, type Operation } from "./operation.ts";
import { isApplied, readRecord, type OutcomeRecord } from "./outcome.ts";

export { acquire, holders, inspectSemaphore, release, renew, semaphores } from "./semaphores.ts";
export { exportPage, restore } from "./transfer.ts";

/** A call that may be sent again without being applied twice. */
export interface Once {
  /**
   * 1 to 64 bytes. Another call with the same key for the same record, within `IDEMPOTENCY_TTL_MS`, is
   * not applied: it gets the answer of the first one.
   */
  readonly idempotencyKey?: Text;
}

export interface InsertOptions extends Once {
  /** 0 to 2^64 - 1. */
  readonly quota: bigint | number;
  /** An integer from 0: a record that ends at once is none. */
  readonly ttlMs: number;
}

export interface IncrementOptions extends Once {
  /** What is added, 0 to 2^64 - 1; 1 unless given. */
  readonly by?: bigint | number;
  /** TTL of the counter where there is none yet; one that exists keeps its own. */
  readonly ttlMs: number;
}

/** What becomes of the amount: it is set, added or subtracted. */
export type ChangeName = keyof typeof Change;

export interface TtlOptions extends Once {
  readonly ttlMs: number;
  /** `patch`: from now on; `increase`, `decrease`: the end moves by it. `patch` unless given. */
  readonly change?: ChangeName;
}

export interface SetOptions extends Once {
  readonly ttlMs: number;
}

export interface CompareAndSetOptions extends Once {
  /** What the buffer must hold; null: there must be no record. */
  readonly expected: Text | null;
  /** What it holds then; null: it is removed. */
  readonly value: Text | null;
  /** TTL of the new value; needed unless `value` is null. */
  readonly ttlMs?: number;
}

/** How long a record still lives. */
export interface Remaining {
  /** Rounded up. */
  readonly ttlMs: number;
  /** Since the epoch, by the server's clock, rounded up. */
  readonly expiresAtMs: number;
}

export interface CounterRecord extends Remaining {
  readonly quota: bigint;
}

export interface BufferRecord extends Remaining {
  readonly value: Uint8Array;
}

/** What became of a change of a counter. */
export interface CounterChange extends CounterRecord {
  /** False where the quota would have left 0 to 2^64 - 1: then it is as it was. */
  readonly applied: boolean;
}

export interface CompareAndSetResult {
  readonly applied: boolean;
  /** What the buffer holds, where it was not applied; null for no record. */
  readonly current: Uint8Array | null;
}

/** A rate limit, and what it is asked. */
export interface LimitRequest extends Once {
  /** Base key: names the limit. 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`. */
  readonly name: string;
  /** Dynamic key: names who is limited. As `name`. */
  readonly key: string;
  readonly strategy: LimitStrategy;
  /** An integer from 1; 1 unless given. */
  readonly cost?: number;
}

export interface ListOptions {
  /** Keys begin with it; all keys unless given. */
  readonly prefix?: Text;
  /** Records of a page, 1 to 1,000; 1,000 unless given. */
  readonly limit?: number;
  /** `cursor` of the page before. */
  readonly cursor?: Text;
}

export interface ListedRecord {
  readonly key: Uint8Array;
  readonly kind: "counter" | "buffer";
  /** Since the epoch, rounded up. */
  readonly expiresAtMs: number;
  /** Of a counter. */
  readonly quota: bigint | null;
  /** Of a buffer: length of its value. */
  readonly bytes: number | null;
}

export interface RecordPage {
  /** May be empty, also where there are more. */
  readonly records: readonly ListedRecord[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

/** Frames are written here, one after the other. */
const scratch = new ByteWriter(1024);
const MILLISECONDS = 3;

/**
 * A new counter. False, and nothing changed, where there is a record.
 *
 * @throws ThrottrError `key_invalid`, `quota_invalid`, `ttl_invalid`, `idempotency_key_invalid`
 */
export function insert(key: Text, options: InsertOptions): Operation<boolean> {
  objectOf(options, "options", "quota and ttlMs");
  const quota = u64Of(options.quota, "quota");
  const ttlMs = ttlOf(options.ttlMs);
  return onKey(Command.insert, key, options, isApplied, (out) => {
    writeU64(out, quota);
    writeTtl(out, ttlMs);
  });
}

/**
 * The counter under a key; null where there is none.
 *
 * The reply throws ThrottrError `kind_mismatch` where the record is a buffer.
 */
export function query(key: Text): Operation<CounterRecord | null> {
  return reading(Command.read, key, (reply) => counterOf(reply));
}

/**
 * Adds to a counter, or makes one, and gives its new quota.
 *
 * The reply throws ThrottrError `quota_overflow` beyond 2^64 - 1, `kind_mismatch` for a buffer; then
 * nothing has changed.
 */
export function increment(key: Text, options: IncrementOptions): Operation<bigint> {
  objectOf(options, "options", "ttlMs");
  const by = u64Of(options.by ?? 1n, "by");
  const ttlMs = ttlOf(options.ttlMs);
  return onKey(
    Command.increment,
    key,
    options,
    (reply) => {
      if (!isApplied(reply)) {
        throw new ThrottrError("quota_overflow", "the quota would leave 2^64 - 1");
      }
      return counterOf(reply)?.quota ?? by;
    },
    (out) => {
      writeU64(out, by);
      writeTtl(out, ttlMs);
    },
  );
}

/** Adds to the quota of a counter; null where there is none. */
export function increase(
  key: Text,
  amount: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("increase", key, amount, options);
}

/** Subtracts from the quota of a counter, if it has as much; null where there is none. */
export function decrease(
  key: Text,
  amount: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("decrease", key, amount, options);
}

/** Sets the quota of a counter; null where there is none. */
export function patch(
  key: Text,
  quota: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("patch", key, quota, options);
}

function change(
  name: ChangeName,
  key: Text,
  amount: bigint | number,
  options: Once,
): Operation<CounterChange | null> {
  const value = u64Of(amount, name === "patch" ? "quota" : "amount");
  return onKey(
    Command.change,
    key,
    options,
    (reply) => {
      const counter = counterOf(reply);
      return counter === null ? null : { applied: isApplied(reply), ...counter };
    },
    (out) => {
      out.u8(Change[name]);
      writeU64(out, value);
    },
  );
}

/** Changes how long a record lives; null where there is none, or none any more. */
export function ttl(key: Text, options: TtlOptions): Operation<Remaining | null> {
  objectOf(options, "options", "ttlMs");
  const ttlMs = ttlOf(options.ttlMs, 0);
  const { change: name = "patch" } = options;
  if (typeof name !== "string" || !Object.hasOwn(Change, name)) {
    throw new ThrottrError(
      "change_invalid",
      `change: one of ${Object.keys(Change).join(", ")} is expected, got ${shown(name)}`,
    );
  }
  return onKey(Command.expire, key, options, remainingOf, (out) => {
    out.u8(Change[name]);
    writeTtl(out, ttlMs);
  });
}

/** Removes a record; false where there is none. */
export function purge(key: Text, options: Once = {}): Operation<boolean> {
  return onKey(Command.purge, key, options, isApplied, () => {});
}

/**
 * Sets a buffer, whatever it held.
 *
 * The reply throws ThrottrError `kind_mismatch` where the record is a counter.
 */
export function set(key: Text, value: Text, options: SetOptions): Operation<void> {
  const bytes = valueOf(value);
  const ttlMs = ttlOf(objectOf(options, "options", "ttlMs").ttlMs);
  return onKey(
    Command.set,
    key,
    options,
    () => {},
    (out) => {
      writeTtl(out, ttlMs);
      out.copy(bytes);
    },
  );
}

/**
 * The buffer under a key; null where there is none.
 *
 * The reply throws ThrottrError `kind_mismatch` where the record is a counter.
 */
export function get(key: Text): Operation<BufferRecord | null> {
  return reading(Command.read, key, (reply) => bufferOf(reply));
}

/**
 * Sets or removes a buffer, if it holds what is expected.
 *
 * The reply throws ThrottrError `kind_mismatch` where the record is a counter.
 */
export function compareAndSet(
  key: Text,
  options: CompareAndSetOptions,
): Operation<CompareAndSetResult> {
  objectOf(options, "options", "expected and value");
  const expected = options.expected === null ? null : valueOf(options.expected, "expected");
  const value = options.value === null ? null : valueOf(options.value);
  const ttlMs = value === null ? 0 : ttlOf(options.ttlMs!);
  return onKey(
    Command.compareAndSet,
    key,
    options,
    (reply) => {
      const applied = isApplied(reply);
      return { applied, current: applied ? null : (bufferOf(reply)?.value ?? null) };
    },
    (out) => {
      out.u8(
        (expected === null ? 0 : CompareOption.isExpected) |
          (value === null ? CompareOption.isRemoval : 0),
      );
      writeTtl(out, ttlMs);
      out.u32(expected?.length ?? 0);
      if (expected !== null) out.copy(expected);
      if (value !== null) out.copy(value);
    },
  );
}

/**
 * Asks a limit, and charges the cost if it allows it.
 *
 * @throws ThrottrError with the code of what is wrong in name, key, strategy or cost
 */
export function limit(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.limit, request);
}

/** What a limit would say to a cost of 1; `remaining` is what it is before. Nothing is charged. */
export function peek(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.peek, request);
}

/** Gives a cost back to a limit; the result is as that of `peek`. */
export function refund(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.refund, request);
}

/** Forgets the state of a limit for a key; false where there is none. */
export function reset(request: Omit<LimitRequest, "cost">): Operation<boolean> {
  objectOf(request, "request", "name, key and strategy");
  const { key } = checked(() => limitOf(request));
  return purge(key, request);
}

function onLimit(type: number, request: LimitRequest): Operation<LimitResult> {
  const { cost = 1 } = objectOf(request, "request", "name, key and strategy");
  const { configuration, key } = checked(() => limitOf(request));
  if (!Number.isSafeInteger(cost) || cost < 1) {
    throw new ThrottrError(
      "cost_invalid",
      `cost: an integer from 1 to ${Number.MAX_SAFE_INTEGER} is expected, got ${shown(cost)}`,
    );
  }
  const isPeek = type === Command.peek;
  const read = ({ view }: CommandReply): LimitResult =>
    limitResultOf(configuration, readDecision(view, 0));
  const body = (out: ByteWriter): void => {
    if (!isPeek) out.f64(cost);
    writeConfiguration(out, configuration);
  };
  if (isPeek) return reading(type, key, read, body);
  return onKey(type, key, request, read, body);
}

function limitOf(request: Omit<LimitRequest, "cost">): {
  configuration: RateLimitConfiguration;
  key: string;
} {
  const { name, key, strategy } = request;
  const configuration = configurationOf(strategy);
  return { configuration, key: storageKey(name, key, configuration.strategy === "composite") };
}

/** Publishes a message. True if a subscription took it. */
export function publish(channel: Text, payload: Text): Operation<boolean> {
  const name = nameOf(channel, "channel");
  const bytes = valueOf(payload, "payload");
  const { keyAt, keySizeAt, valueSizeAt } = layoutsOf(EDGE)[RequestType.publish]!;
  const frame = new Uint8Array(keyAt + name.length + bytes.length);
  frame[0] = RequestType.publish;
  frame[keySizeAt] = name.length;
  new DataView(frame.buffer).setUint32(valueSizeAt, bytes.length, true);
  frame.set(name, keyAt);
  frame.set(bytes, keyAt + name.length);
  return {
    type: RequestType.publish,
    isRepeatable: false,
    frame,
    read: (reply) => reply[0] === STATUS_SUCCESS,
  };
}

/**
 * Records, a page at a time. They come in the order of their keys while every shard has at most 16,384; beyond
 * that, each once, in the order in which the shards keep them. A page that is not the last one may have fewer
 * records than `limit`, or none: go on until `cursor` is null. Pages are not a snapshot.
 *
 * The reply throws ThrottrError `cursor_lost` where the records lie in another order now: list from the start.
 */
export function list(options: ListOptions = {}): Operation<RecordPage> {
  const { limit: recordsMax = SCAN_RECORDS_MAX, cursor } = options;
  if (!Number.isInteger(recordsMax) || recordsMax < 1 || recordsMax > SCAN_RECORDS_MAX) {
    throw new ThrottrError(
      "limit_invalid",
      `limit: an integer from 1 to ${SCAN_RECORDS_MAX} is expected, got ${shown(recordsMax)}`,
    );
  }
  const after = cursor === undefined ? null : nameOf(cursor, "after", SCAN_CURSOR_BYTES_MAX);
  return reading(Command.scan, nameOf(options.prefix ?? "", "prefix"), pageOf, (out) => {
    out.u16(recordsMax);
    out.u8(ScanOption.hasCursor | (after === null ? 0 : ScanOption.isBehind));
    if (after !== null) out.copy(after);
  });
}

/** Removes all records of a prefix, pairs of dialect 2 too where it is all. Gives their number. */
export function removeAll(prefix: Text): Operation<number> {
  const name = nameOf(prefix, "prefix");
  const read = ({ view }: CommandReply): number => view.getFloat64(0, true);
  return onKey(Command.remove, name, {}, read, (out) => {
    out.u8(name.length === 0 ? RemoveOption.everything : 0);
  });
}

/** Figures of the namespace. */
export function info(): Operation<InfoFigures> {
  return {
    type: RequestType.info,
    isRepeatable: true,
    isRead: true,
    frame: Uint8Array.of(RequestType.info),
    read: (reply) => {
      if (reply[0] === STATUS_SUCCESS) return decodeInfo(reply.subarray(1));
      throw new ThrottrError("scope_missing", "INFO needs the scope read");
    },
  };
}

function onKey<Result>(
  type: number,
  key: Text,
  { idempotencyKey }: Once,
  read: (reply: CommandReply) => Result,
  body: (out: ByteWriter) => void,
): Operation<Result> {
  const parts = {
    type,
    key: nameOf(key, "key"),
    idempotencyKey: idempotencyKeyOf(idempotencyKey),
    body,
  };
  return commandOf(scratch, parts, read);
}

function reading<Result>(
  type: number,
  key: Text,
  read: (reply: CommandReply) => Result,
  body: (out: ByteWriter) => void = () => {},
): Operation<Result> {
  return commandOf(scratch, { type, key: nameOf(key, "key"), isRead: true, body }, read);
}

function writeU64(out: ByteWriter, value: bigint): void {
  const at = out.reserve(8);
  out.view.setBigUint64(at, value, true);
}

function writeTtl(out: ByteWriter, ttlMs: number): void {
  out.u8(MILLISECONDS);
  out.u64(ttlMs);
}

/** How long the record of an outcome lives; null where it has none. */
function remainingOf({ view }: CommandReply): Remaining | null {
  const record = readRecord(view);
  return record && remaining(record);
}

function remaining({ leftNs, expiresAtNs }: OutcomeRecord): Remaining {
  return { ttlMs: msOf(leftNs), expiresAtMs: msOf(expiresAtNs) };
}

function counterOf({ view }: CommandReply): CounterRecord | null {
  const record = readRecord(view);
  if (record === null) return null;
  assertKind(record, "counter", "the record under the key is a buffer");
  return { quota: view.getBigUint64(record.valueAt, true), ...remaining(record) };
}

function bufferOf({ bytes, view }: CommandReply): BufferRecord | null {
  const record = readRecord(view);
  if (record === null) return null;
  assertKind(record, "buffer", "the record under the key is a counter");
  return { value: bytes.slice(record.valueAt), ...remaining(record) };
}

function assertKind(
  { kind }: OutcomeRecord,
  expected: OutcomeRecord["kind"],
  otherwise: string,
): void {
  if (kind !== expected) throw new ThrottrError("kind_mismatch", otherwise);
}

function pageOf({ bytes, view }: CommandReply): RecordPage {
  const records: ListedRecord[] = [];
  const isLast = bytes[0] === 1;
  const rowsAt = 3 + view.getUint16(1, true);
  for (let at = rowsAt; at < bytes.length;) {
    const keyBytes = bytes[at]!;
    const keyAt = at + SCAN_ROW_BYTES;
    const value = view.getBigUint64(at + 11, true);
    const isCounter = bytes[at + 1] === RecordKind.counter;
    records.push({
      key: bytes.slice(keyAt, keyAt + keyBytes),
      kind: isCounter ? "counter" : "buffer",
      expiresAtMs: msOf(view.getBigUint64(at + 3, true)),
      quota: isCounter ? value : null,
      bytes: isCounter ? null : Number(value),
    });
    at = keyAt + keyBytes;
  }
  return { records, cursor: isLast ? null : bytes.slice(3, rowsAt) };
}
