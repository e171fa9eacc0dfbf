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

/** Bytes of an outcome without a record. */
export const OUTCOME_BYTES = 1;
const KIND_AT = OUTCOME_BYTES;
const LIFETIME_AT = KIND_AT + 2;
const VALUE_AT = LIFETIME_AT + 16;

/** A u64 as two u32: a bigint would be an allocation. */
interface Halves {
  readonly high: number;
  readonly low: number;
}

/** How long a record or a lease lives. */
export interface Lifetime {
  /** Since the epoch. */
  readonly expiresAtNs: bigint;
  readonly leftNs: bigint;
}

export interface OutcomeRecord extends Lifetime {
  readonly kind: "counter" | "buffer";
  /** Where its value begins. */
  readonly valueAt: number;
}

export interface OutcomeLease extends Lifetime {
  readonly resources: number;
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
  writeLifetime(out, expires, left);
}

/** Writes the lease behind `writeApplied`. */
export function writeLease(
  out: ByteWriter,
  resources: number,
  expires: Halves,
  left: Halves,
): void {
  out.u32(resources);
  writeLifetime(out, expires, left);
}

function writeLifetime(out: ByteWriter, expires: Halves, left: Halves): void {
  out.u32(expires.low);
  out.u32(expires.high);
  out.u32(left.low);
  out.u32(left.high);
}

export const isApplied = ({ bytes }: { readonly bytes: Uint8Array }): boolean => bytes[0] === 1;

/** The record of an outcome; null where it has none. */
export function readRecord(view: DataView): OutcomeRecord | null {
  if (view.byteLength === OUTCOME_BYTES) return null;
  const kind = view.getUint8(KIND_AT) === RecordKind.counter ? "counter" : "buffer";
  return { kind, ...readLifetime(view, LIFETIME_AT), valueAt: VALUE_AT };
}

/** The lease of an outcome that was applied. */
export function readLease(view: DataView): OutcomeLease {
  const resources = view.getUint32(OUTCOME_BYTES, true);
  return { resources, ...readLifetime(view, OUTCOME_BYTES + 4) };
}

function readLifetime(view: DataView, at: number): Lifetime {
  return {
    expiresAtNs: view.getBigUint64(at, true),
    leftNs: view.getBigUint64(at + 8, true),
  };
}
