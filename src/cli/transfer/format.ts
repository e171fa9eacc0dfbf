/**
 * The file of an export: JSON Lines, so that other tools read it too.
 *
 *     {"format":"throttr-edge-export","version":1,"startedAtMs":…,"source":"…","namespace":"…","leftOut":["semaphores"]}
 *     {"key":"views","quota":"5","unit":"ms","expiresAtNs":"1700000000000000000"}
 *     {"keyBase64":"/w==","value":"text","unit":"s","expiresAtNs":"…"}
 *     {"pair":["consumer","resource"],"quota":"1","unit":"s","expiresAtNs":"…"}
 *     {"semaphore":"gpu","leaseId":"…","resources":2,"expiresAtMs":1700000000000}
 *     {"end":true,"records":3,"counters":2,"buffers":1,"pairs":1,"leases":1,"finishedAtMs":…,"sha256":"…"}
 *
 * A file with leases has version 2, and one without them version 1, as earlier releases read it.
 *
 * A header, one line per record or lease, and a trailer, whose checksum covers all bytes before it; a file that was cut short
 * has no trailer. Numbers above 2^53, which JSON readers round, are decimal text. Bytes are text if they are UTF-8
 * without control characters, and base64 otherwise.
 */
import * as v from "valibot";
import { U32_MAX } from "../../wire/edge/command.ts";
import type { StoredLease } from "../../wire/edge/lease-transfer.ts";
import type { RecordKey, StoredRecord } from "../../wire/edge/transfer.ts";
import { base64Of, textOf } from "../text.ts";

export const FORMAT = "throttr-edge-export";
/** Of a file without leases, and of one with them. */
const [VERSION, VERSION_WITH_LEASES] = [1, 2];
/** No record makes a longer line, so a longer one is not from an export. It bounds the memory of a reader. */
export const LINE_BYTES_MAX = 8 << 20;

const NOT_A_SNAPSHOT = "not a snapshot: each record is as it was when it was read";
/** What a file lacks, without and with leases: a connection holds only as long as it lives, so that it can't be moved. */
const WITHOUT_LEASES = {
  leftOut: ["semaphores"],
  note: `${NOT_A_SNAPSHOT}; semaphores are left out: export --leases has the leases`,
};
const WITH_LEASES = {
  leftOut: ["semaphores of connections"],
  note: `${NOT_A_SNAPSHOT}; what connections hold of semaphores is left out, as it ends with them`,
};
/** Characters that editors and terminals do not show: C0 except tab and line ends, DEL and C1. */
// oxlint-disable-next-line eslint/no-control-regex
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;
const U64_MAX = (1n << 64n) - 1n;

const encoder = new TextEncoder();

/** A count or a time: JSON's numbers are exact up to 2^53. */
const wholeNumber = v.pipe(v.number(), v.integer(), v.minValue(0));
/**
 * Text that UTF-8 can hold: JSON allows escapes for half a pair, which would come back as other
 * bytes.
 */
const text = v.pipe(
  v.string(),
  v.check((value) => value.isWellFormed(), "half of a surrogate pair"),
);
/** Base64 in its one canonical form: `Buffer` skips characters that are not base64. */
const base64 = v.pipe(
  v.string(),
  v.check((value) => Buffer.from(value, "base64").toString("base64") === value, "expected base64"),
);
/** An unsigned 64-bit integer, as decimal text. */
const u64 = v.pipe(
  v.string(),
  v.regex(/^(?:0|[1-9]\d{0,19})$/, "expected decimal text"),
  v.transform((decimal) => BigInt(decimal)),
  v.maxValue(U64_MAX, "expected at most 2^64 - 1"),
);

/** The header allows unknown fields: later releases may say more without a new version. */
const headerSchema = v.object({
  format: v.literal(FORMAT, `expected ${FORMAT}`),
  version: v.picklist(
    [VERSION, VERSION_WITH_LEASES],
    `expected version ${VERSION} or ${VERSION_WITH_LEASES}; a newer throttr-edge may read this file`,
  ),
  startedAtMs: wholeNumber,
  source: v.string(),
  /** Files of earlier releases lack it. */
  namespace: v.optional(v.string()),
  prefix: v.optional(text),
  prefixBase64: v.optional(base64),
});

/** The trailer, whose counts must match. */
const trailerSchema = v.strictObject({
  end: v.literal(true),
  records: wholeNumber,
  counters: wholeNumber,
  buffers: wholeNumber,
  pairs: wholeNumber,
  leases: v.optional(wholeNumber),
  finishedAtMs: wholeNumber,
  sha256: v.pipe(v.string(), v.hash(["sha256"], "expected 64 hexadecimal digits")),
});

/**
 * A record in all its spellings. Unknown fields are refused: dropping one would restore another
 * record.
 */
const recordSchema = v.strictObject({
  key: v.optional(text),
  keyBase64: v.optional(base64),
  pair: v.optional(v.strictTuple([text, text])),
  pairBase64: v.optional(v.strictTuple([base64, base64])),
  quota: v.optional(u64),
  value: v.optional(text),
  valueBase64: v.optional(base64),
  unit: v.picklist(["ns", "us", "ms", "s", "min", "h"]),
  expiresAtNs: u64,
});

/** A lease, whose name has two spellings. */
const leaseSchema = v.strictObject({
  semaphore: v.optional(text),
  semaphoreBase64: v.optional(base64),
  leaseId: v.pipe(v.string(), v.uuid("expected a UUID")),
  resources: v.pipe(wholeNumber, v.minValue(1), v.maxValue(U32_MAX)),
  expiresAtMs: wholeNumber,
});

/** What a line between header and trailer has. */
export type Entry = StoredRecord | StoredLease;

/** The header of an export. */
export type Header = Pick<v.InferOutput<typeof headerSchema>, "startedAtMs" | "source"> & {
  /** Null where it is not known. */
  readonly namespace: string | null;
  /** Prefix of the exported keys; empty for all. */
  readonly prefix: Uint8Array;
  /** The file has leases behind its records. */
  readonly hasLeases: boolean;
};

/** How many records a file has. */
export interface Counts {
  records: number;
  counters: number;
  buffers: number;
  /** Counters under pairs (dialect 2); `counters` includes them. */
  pairs: number;
  /** Beside the records. */
  leases: number;
}

/** The last line: the counts, when the export ended, and the SHA-256 of all bytes before it. */
export type Trailer = Omit<v.InferOutput<typeof trailerSchema>, "end">;

/** An invalid line. The message names the field and what was expected. */
export class LineError extends Error {}

export const noCounts = (): Counts => ({
  records: 0,
  counters: 0,
  buffers: 0,
  pairs: 0,
  leases: 0,
});

/** Counts a record or lease. */
export function countEntry(counts: Counts, record: Entry): void {
  if (isLease(record)) {
    counts.leases++;
    return;
  }
  counts.records++;
  counts[record.kind === "counter" ? "counters" : "buffers"]++;
  if (isPair(record.key)) counts.pairs++;
}

/** Whether a line has a lease. */
export const isLease = (entry: Entry): entry is StoredLease => "leaseId" in entry;

/** Whether a key is a pair of consumer and resource (dialect 2). */
export function isPair(key: RecordKey): key is Extract<RecordKey, readonly unknown[]> {
  return Array.isArray(key);
}

/** A line with its line feed. A reader takes a line without one as cut short. */
const line = (fields: object): string => `${JSON.stringify(fields)}\n`;

/** The first line: the format, then where the records are from. */
export function headerLine({ startedAtMs, source, namespace, prefix, hasLeases }: Header): string {
  return line({
    format: FORMAT,
    version: hasLeases ? VERSION_WITH_LEASES : VERSION,
    startedAtMs,
    source,
    ...(namespace === null ? {} : { namespace }),
    ...(prefix.length === 0 ? {} : bytesField("prefix", prefix)),
    ...(hasLeases ? WITH_LEASES : WITHOUT_LEASES),
  });
}

/** The line of a record, counter or buffer, or of a lease. */
export function entryLine(record: Entry): string {
  if (isLease(record)) {
    const { name, leaseId, resources, expiresAtMs } = record;
    return line({ ...bytesField("semaphore", bytesOf(name)), leaseId, resources, expiresAtMs });
  }
  const { unit, expiresAtNs } = record;
  return line({
    ...keyField(record.key),
    ...(record.kind === "counter"
      ? { quota: String(record.quota) }
      : bytesField("value", bytesOf(record.value))),
    unit,
    expiresAtNs: String(expiresAtNs),
  });
}

/** The last line. The order of its fields is that of `Trailer`. */
export function trailerLine(trailer: Trailer): string {
  return line({ end: true, ...trailer });
}

/** @throws LineError */
export function readHeader(bytes: Uint8Array): Header {
  const fields = checked(headerSchema, jsonOf(bytes));
  const { version, startedAtMs, source, namespace = null, prefix, prefixBase64 } = fields;
  return {
    startedAtMs,
    source,
    namespace,
    prefix: bytesOfField(prefix, prefixBase64) ?? new Uint8Array(0),
    hasLeases: version === VERSION_WITH_LEASES,
  };
}

/**
 * Reads a line after the header: a record, a lease or the trailer.
 *
 * @throws LineError
 */
export function readLine(bytes: Uint8Array): Entry | Trailer {
  const json = jsonOf(bytes);
  if (typeof json === "object" && json !== null) {
    if ("end" in json) return checked(trailerSchema, json);
    if ("leaseId" in json) return leaseOf(checked(leaseSchema, json));
  }
  return recordOf(checked(recordSchema, json));
}

/** Only a trailer has a checksum. */
export const isTrailer = (read: Entry | Trailer): read is Trailer => "sha256" in read;

function leaseOf(fields: v.InferOutput<typeof leaseSchema>): StoredLease {
  const { leaseId, resources, expiresAtMs } = fields;
  const name = bytesOfField(fields.semaphore, fields.semaphoreBase64);
  if (name === null) throw new LineError("expected one of semaphore and semaphoreBase64");
  return { name, leaseId, resources, expiresAtMs };
}

/**
 * A record from its fields. The schema can't say that exactly one of several fields is required.
 */
function recordOf(fields: v.InferOutput<typeof recordSchema>): StoredRecord {
  const { quota, unit, expiresAtNs } = fields;
  const key = keyOf(fields);
  const value = bytesOfField(fields.value, fields.valueBase64);
  if ((quota === undefined) === (value === null)) {
    throw new LineError("expected one of quota, value and valueBase64");
  }
  if (quota !== undefined) return { key, kind: "counter", quota, unit, expiresAtNs };
  if (isPair(key)) throw new LineError("quota: missing; a pair holds counters only");
  return { key, kind: "buffer", value: value!, unit, expiresAtNs };
}

/** The key in one of its four spellings. */
function keyOf({
  key,
  keyBase64,
  pair,
  pairBase64,
}: v.InferOutput<typeof recordSchema>): RecordKey {
  const given = [key, keyBase64, pair, pairBase64].filter((field) => field !== undefined);
  if (given.length !== 1) {
    throw new LineError("expected one of key, keyBase64, pair and pairBase64");
  }
  if (pair !== undefined) return [bytesOf(pair[0]), bytesOf(pair[1])];
  if (pairBase64 !== undefined) return [unbase64(pairBase64[0]), unbase64(pairBase64[1])];
  return bytesOfField(key, keyBase64)!;
}

/** A key as text if all of it is text; a pair is written in one spelling. */
function keyField(key: RecordKey): object {
  if (!isPair(key)) return bytesField("key", bytesOf(key));
  const pair = key.map(bytesOf);
  const texts = pair.map(plainText);
  return texts.includes(null) ? { pairBase64: pair.map(base64Of) } : { pair: texts };
}

/** Bytes as text or base64, in a field whose name says which. */
function bytesField(name: string, bytes: Uint8Array): object {
  const plain = plainText(bytes);
  return plain === null ? { [`${name}Base64`]: base64Of(bytes) } : { [name]: plain };
}

/** The bytes of a field in either spelling; null if it is missing. Both at once are an error. */
function bytesOfField(plain: string | undefined, encoded: string | undefined): Uint8Array | null {
  if (plain !== undefined && encoded !== undefined) {
    throw new LineError("expected text or base64 of a field, not both");
  }
  if (plain !== undefined) return bytesOf(plain);
  return encoded === undefined ? null : unbase64(encoded);
}

/** Bytes as text, if they are UTF-8 without control characters; otherwise null. */
function plainText(bytes: Uint8Array): string | null {
  const plain = textOf(bytes);
  return plain === null || CONTROL.test(plain) ? null : plain;
}

const bytesOf = (value: string | Uint8Array): Uint8Array =>
  typeof value === "string" ? encoder.encode(value) : value;

/** A copy: `Buffer` may share its memory with others. */
const unbase64 = (encoded: string): Uint8Array => Uint8Array.from(Buffer.from(encoded, "base64"));

/** Parses a line. @throws LineError for anything but JSON in UTF-8 */
function jsonOf(bytes: Uint8Array): unknown {
  const json = textOf(bytes);
  if (json === null) throw new LineError("expected UTF-8");
  try {
    return JSON.parse(json);
  } catch {
    throw new LineError("expected JSON");
  }
}

/** Checks fields. @throws LineError with the path of the first field that is wrong */
function checked<Schema extends v.GenericSchema>(
  schema: Schema,
  json: unknown,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, json);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const path = v.getDotPath(issue);
  throw new LineError(path === null ? issue.message : `${path}: ${issue.message}`);
}
