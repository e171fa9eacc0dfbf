/**
 * Outcomes of commands, as replies carry them: written by the engine, read by callers.
 *
 *     outcome = is applied u8, [record]
 *     record  = kind u8, unit u8, expires at u64, time left u64, [value]
 *     lease   = resources u32, expires at u64, time left u64
 *
 * Little-endian; times in ns, `expires at` since the epoch. The value of a counter is its quota, u64; the value of a
 * buffer is the rest of the reply. Commands on leases have a lease in place of the record.
 */
import type { ByteWriter } from "../bytes.ts";
import { RecordKind } from "./command.ts";

/** Behind an outcome without a record. */
export const OUTCOME_BYTES = 1;
const KIND_AT = OUTCOME_BYTES;
const EXPIRES_AT = KIND_AT + 2;
const LEFT_AT = EXPIRES_AT + 8;
const VALUE_AT = LEFT_AT + 8;

/** A u64 as two u32: a bigint would be an allocation. */
interface Halves {
  readonly high: number;
  readonly low: number;
}

/** The record of an outcome. */
export interface OutcomeRecord {
  readonly kind: "counter" | "buffer";
  /** Since the epoch. */
  readonly expiresAtNs: bigint;
  readonly leftNs: bigint;
  /** Where its value begins. */
  readonly valueAt: number;
}

export interface OutcomeLease {
  readonly resources: number;
  /** Since the epoch. */
  readonly expiresAtNs: bigint;
  readonly leftNs: bigint;
}

export function writeApplied(out: ByteWriter, isApplied: boolean): void {
  out.u8(isApplied ? 1 : 0);
}

/** Writes the record behind `writeApplied`, without its value. Positions, as this is on the hot path. */
export function writeRecordHeader(
  out: ByteWriter,
  kind: number,
  unit: number,
  expires: Halves,
  left: Halves,
): void {
  out.u8(kind);
  out.u8(unit);
  out.u32(expires.low);
  out.u32(expires.high);
  out.u32(left.low);
  out.u32(left.high);
}

/** Writes the lease behind `writeApplied`. */
export function writeLease(
  out: ByteWriter,
  resources: number,
  expires: Halves,
  left: Halves,
): void {
  out.u32(resources);
  out.u32(expires.low);
  out.u32(expires.high);
  out.u32(left.low);
  out.u32(left.high);
}

export const isApplied = ({ bytes }: { readonly bytes: Uint8Array }): boolean => bytes[0] === 1;

/** The record of an outcome; null where it has none. */
export function readRecord(view: DataView): OutcomeRecord | null {
  if (view.byteLength === OUTCOME_BYTES) return null;
  return {
    kind: view.getUint8(KIND_AT) === RecordKind.counter ? "counter" : "buffer",
    expiresAtNs: view.getBigUint64(EXPIRES_AT, true),
    leftNs: view.getBigUint64(LEFT_AT, true),
    valueAt: VALUE_AT,
  };
}

/** The lease of an outcome that was applied. */
export function readLease(view: DataView): OutcomeLease {
  return {
    resources: view.getUint32(OUTCOME_BYTES, true),
    expiresAtNs: view.getBigUint64(OUTCOME_BYTES + 4, true),
    leftNs: view.getBigUint64(OUTCOME_BYTES + 12, true),
  };
}
