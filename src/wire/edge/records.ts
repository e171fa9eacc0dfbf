/** Records as callers see them, read from outcomes. */
import { ThrottrError } from "./error.ts";
import { msOf } from "./milliseconds.ts";
import type { CommandReply } from "./operation.ts";
import { readRecord, type OutcomeRecord } from "./outcome.ts";

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

/** How long the record of an outcome lives; null where it has none. */
export function remainingOf({ view }: CommandReply): Remaining | null {
  const record = readRecord(view);
  return record && remaining(record);
}

function remaining({ leftNs, expiresAtNs }: OutcomeRecord): Remaining {
  return { ttlMs: msOf(leftNs), expiresAtMs: msOf(expiresAtNs) };
}

export function counterOf({ view }: CommandReply): CounterRecord | null {
  const record = readRecord(view);
  if (record === null) return null;
  assertKind(record, "counter", "the record under the key is a buffer");
  return { quota: view.getBigUint64(record.valueAt, true), ...remaining(record) };
}

export function bufferOf({ bytes, view }: CommandReply): BufferRecord | null {
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
