/** Backup and moving: records with all there is to know of them, out of a namespace and into one. */
import { ByteWriter } from "../bytes.ts";
import { PAIR_UNITS } from "../throttr/pair-units.ts";
import {
  cursorOf,
  integerOf,
  invalid,
  nameOf,
  objectOf,
  u64Of,
  valueOf,
  type Text,
} from "./argument.ts";
import {
  Command,
  EXPORT_BYTES_MAX,
  EXPORT_RECORDS_MAX,
  EXPORT_ROW_BYTES,
  ExportOption,
  PAIR_COMMAND_HEADER_BYTES,
  RecordKind,
  type RestoreOutcome,
  RestorePolicy,
} from "./command.ts";
import { ThrottrError } from "./error.ts";
import { writeU64 } from "./on-key.ts";
import { commandOf, replyOf, type CommandReply, type Operation } from "./operation.ts";

/** What a record is under: a key or, in dialect 2, a pair of a consumer and a resource. */
export type RecordKey = Text | readonly [consumer: Text, resource: Text];

/** Units of TTLs, by TTL type from 1: nanoseconds, microseconds, … hours. */
const UNITS = ["ns", "us", "ms", "s", "min", "h"] as const;

/** What the TTL of a record is counted in. Pairs have ns, ms and s only. */
export type TtlUnit = (typeof UNITS)[number];

/** When a record ends, and in what its TTL is counted. */
export interface RecordEnd {
  readonly unit: TtlUnit;
  /** Since the epoch, by the server's clock: 0 to 2^64 - 1. */
  readonly expiresAtNs: bigint;
}

export interface StoredCounter extends RecordEnd {
  readonly key: RecordKey;
  readonly kind: "counter";
  /** 0 to 2^64 - 1. */
  readonly quota: bigint | number;
}

/** A buffer: a value, or the state of a rate limit. Pairs have counters only. */
export interface StoredBuffer extends RecordEnd {
  readonly key: RecordKey;
  readonly kind: "buffer";
  readonly value: Text;
}

/** A record with all there is to know of it. */
export type StoredRecord = StoredCounter | StoredBuffer;

/** `keep` leaves a live record under the same key as it is, `replace` puts the other in its place. */
export type RestorePolicyName = keyof typeof RestorePolicy;

export interface RestoreOptions {
  /** What becomes of a live record under the same key, whatever its kind; `keep` unless given. */
  readonly policy?: RestorePolicyName | undefined;
}

/** `kept`: there was a live record; `expired`: the end had come. In both nothing was written. */
export type RestoreResult = keyof typeof RestoreOutcome;

export interface ExportOptions {
  /** Keys, or consumers of pairs, begin with it; all unless given. */
  readonly prefix?: Text | undefined;
  /** The pairs of dialect 2, and not the records under keys. */
  readonly pairs?: boolean | undefined;
  /** Records of a page, 1 to 10,000; 10,000 unless given. */
  readonly limit?: number | undefined;
  /** Bytes of a page, 1 to 2^20, unless a single record has more; 2^20 unless given. */
  readonly bytesMax?: number | undefined;
  /** `cursor` of the page before, or the key of any record. */
  readonly cursor?: RecordKey | undefined;
}

/** A record as it is stored. */
export type ExportedRecord = (
  (StoredCounter & { readonly quota: bigint }) | (StoredBuffer & { readonly value: Uint8Array })
) & { readonly key: ExportedKey };

export type ExportedKey = Uint8Array | readonly [consumer: Uint8Array, resource: Uint8Array];

export interface ExportPage {
  readonly records: readonly ExportedRecord[];
  /** For the next page; null behind the last one. */
  readonly cursor: ExportedKey | null;
}

const OUTCOMES: readonly RestoreResult[] = ["kept", "restored", "expired"];

/** Frames are written here, one after the other. */
const scratch = new ByteWriter(1024);

export function restore(
  record: StoredRecord,
  options: RestoreOptions = {},
): Operation<RestoreResult> {
  objectOf(record, "record", "key, kind, unit and expiresAtNs");
  const isPair = isPairKey(record.key);
  const policy = policyOf(options.policy ?? "keep");
  const unit = unitOf(record.unit, isPair);
  const expiresAtNs = u64Of(record.expiresAtNs, "expiresAtNs", "expires_at_ns_invalid");
  const writeValue = valueWriter(record, isPair);
  const body = (out: ByteWriter): void => {
    out.u8(policy);
    out.u8(RecordKind[record.kind]);
    out.u8(unit);
    writeU64(out, expiresAtNs);
    writeValue(out);
  };
  return isPairKey(record.key)
    ? ofPair(pairOf(record.key), body)
    : commandOf(
        scratch,
        { type: Command.restore, key: nameOf(record.key, "key"), body },
        readRestoreResult,
      );
}

export function exportPage(options: ExportOptions = {}): Operation<ExportPage> {
  const { limit = EXPORT_RECORDS_MAX, bytesMax = EXPORT_BYTES_MAX, cursor } = options;
  const isPairs = options.pairs === true;
  integerOf(limit, "limit", 1, EXPORT_RECORDS_MAX);
  integerOf(bytesMax, "bytesMax", 1, EXPORT_BYTES_MAX, "bytes_max_invalid");
  const after = afterOf(cursor, isPairs);
  const body = (out: ByteWriter): void => {
    out.u16(limit);
    out.u32(bytesMax);
    out.u8((after === null ? 0 : ExportOption.isBehind) | (isPairs ? ExportOption.isPairs : 0));
    if (after !== null) out.copy(after);
  };
  const key = nameOf(options.prefix ?? "", "prefix");
  return commandOf(scratch, { type: Command.export, key, isRead: true, body }, (reply) =>
    pageOf(reply, isPairs),
  );
}

function ofPair(key: Uint8Array, body: (out: ByteWriter) => void): Operation<RestoreResult> {
  const out = scratch;
  out.reset();
  out.u8(Command.restorePair);
  out.u8(0);
  out.u32(0);
  out.copy(key);
  body(out);
  out.view.setUint32(2, out.length - PAIR_COMMAND_HEADER_BYTES - key.length, true);
  return {
    type: Command.restorePair,
    isRepeatable: false,
    frame: out.take(),
    read: (reply) => readRestoreResult(replyOf(reply)),
  };
}

/** @throws ThrottrError `reply_invalid` */
export function readRestoreResult({ bytes }: CommandReply): RestoreResult {
  const result = OUTCOMES[bytes[0]!];
  if (result !== undefined) return result;
  throw new ThrottrError("reply_invalid", `expected an outcome of RESTORE, got ${bytes[0]}`);
}

function isPairKey(key: RecordKey): key is readonly [consumer: Text, resource: Text] {
  return Array.isArray(key);
}

/** A pair as it is stored: its two sizes, and its two names. */
function pairOf(pair: readonly [consumer: Text, resource: Text]): Uint8Array {
  const { length }: readonly Text[] = pair;
  if (length !== 2) throw invalid("key", "the two names of a pair", length);
  const [consumer, resource] = [nameOf(pair[0], "key"), nameOf(pair[1], "key")];
  const bytes = new Uint8Array(2 + consumer.length + resource.length);
  bytes[0] = consumer.length;
  bytes[1] = resource.length;
  bytes.set(consumer, 2);
  bytes.set(resource, 2 + consumer.length);
  return bytes;
}

function afterOf(cursor: RecordKey | undefined, isPairs: boolean): Uint8Array | null {
  // A list is refused there, too.
  if (!isPairs || cursor === undefined) return cursorOf(cursor as Text | undefined);
  if (isPairKey(cursor)) return pairOf(cursor);
  throw invalid("cursor", "a pair", cursor, "after_invalid");
}

/** @throws ThrottrError `policy_invalid` */
export function policyOf(name: RestorePolicyName): number {
  if (typeof name === "string" && Object.hasOwn(RestorePolicy, name)) return RestorePolicy[name];
  throw invalid("policy", "keep or replace", name);
}

function unitOf(name: TtlUnit, isPair: boolean): number {
  const type = UNITS.indexOf(name) + 1;
  const types = isPair ? PAIR_UNITS : UNITS.map((_, i) => i + 1);
  if (types.includes(type)) return type;
  const names = types.map((known) => UNITS[known - 1]).join(", ");
  throw invalid("unit", `one of ${names}`, name);
}

function valueWriter(record: StoredRecord, isPair: boolean): (out: ByteWriter) => void {
  if (record.kind === "counter") {
    const quota = u64Of(record.quota, "quota");
    return (out) => writeU64(out, quota);
  }
  if (record.kind === "buffer" && !isPair) {
    const value = valueOf(record.value);
    return (out) => out.copy(value);
  }
  const expected = isPair ? "counter, because the key is a pair" : "counter or buffer";
  throw invalid("kind", expected, (record as StoredRecord).kind);
}

function pageOf({ bytes, view }: CommandReply, isPairs: boolean): ExportPage {
  const records: ExportedRecord[] = [];
  for (let at = 1; at < bytes.length;) {
    const keyAt = at + EXPORT_ROW_BYTES;
    const valueAt = keyAt + view.getUint16(at, true);
    const end = valueAt + view.getUint32(at + 12, true);
    const record = {
      key: exportedKey(bytes, keyAt, valueAt, isPairs),
      unit: UNITS[bytes[at + 3]! - 1] ?? unknownUnit(bytes[at + 3]!),
      expiresAtNs: view.getBigUint64(at + 4, true),
    };
    records.push(
      bytes[at + 2] === RecordKind.counter
        ? { ...record, kind: "counter", quota: view.getBigUint64(valueAt, true) }
        : { ...record, kind: "buffer", value: bytes.slice(valueAt, end) },
    );
    at = end;
  }
  const isLast = bytes[0] === 1;
  return { records, cursor: isLast ? null : records.at(-1)!.key };
}

function exportedKey(bytes: Uint8Array, from: number, to: number, isPairs: boolean): ExportedKey {
  if (!isPairs) return bytes.slice(from, to);
  const resourceAt = from + 2 + bytes[from]!;
  return [bytes.slice(from + 2, resourceAt), bytes.slice(resourceAt, to)];
}

function unknownUnit(type: number): never {
  const detail = `expected a TTL type from 1 to ${UNITS.length}, got ${type}`;
  throw new ThrottrError("reply_invalid", detail);
}
