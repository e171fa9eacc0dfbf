/**
 * The stored formats of semaphores and holdings: buffers that never expire, each in a keyspace of its own.
 *
 *     semaphore = name: consumption u32, maximum u32, updated at u64 (ms since the epoch), number u32
 *     holding = holder 17, number u32: amount u32, row u32, [ends at u64 (ms since the epoch)]
 *
 * Little-endian. The number stands for the semaphore; no two that exist at a time share one. A holding has
 * an amount of 1 or more, and an end if its holder is a lease. Its row is its place in the index in memory, and has no
 * meaning after a restore.
 */
import { HOLDER_BYTES } from "./holder.ts";

export const CONSUMPTION = 0;
export const MAXIMUM = 4;
export const UPDATED_AT = 8;
export const NUMBER = 16;
export const SEMAPHORE_BYTES = 20;

export const HOLDING_NUMBER = HOLDER_BYTES;
export const HOLDING_KEY_BYTES = HOLDER_BYTES + 4;
export const AMOUNT = 0;
export const ROW = 4;
export const ENDS_AT = 8;
export const HOLDING_BYTES = 8;
export const LEASE_BYTES = 16;

export function readU32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  );
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

/** Milliseconds, up to 2^53. */
export function readMs(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at) + readU32(bytes, at + 4) * 2 ** 32;
}

/** The largest consumption, of the semaphore stored at `at`, since an interval began. */
export function readMaximum(bytes: Uint8Array, at: number, startMs: number): number {
  const isOfInterval = readMs(bytes, at + UPDATED_AT) >= startMs;
  return readU32(bytes, at + (isOfInterval ? MAXIMUM : CONSUMPTION));
}

export function writeMs(bytes: Uint8Array, at: number, ms: number): void {
  writeU32(bytes, at, ms >>> 0);
  writeU32(bytes, at + 4, Math.floor(ms / 2 ** 32));
}
