/**
 * Commands: the requests that the edge dialect has beyond those of 7.3.
 *
 *     command = type u8, flags u8, key size u8, body size u32, key, body
 *     reply   = status u8, size u32, body
 *
 * All little-endian. A body that begins with an idempotency key (`Flag.isOnce`) has its size in a byte
 * before it. The body of an error is text that begins with a stable code and a colon.
 */
import type { ByteWriter } from "../bytes.ts";

/** Types 0x20 to 0x3f; those of 7.3 are below. */
export const Command = {
  /** The record under the key. Reply: outcome with record. */
  read: 0x20,
  /** A new counter: quota u64, TTL. Reply: outcome; not applied where there is a record. */
  insert: 0x21,
  /** Adds to a counter, or makes one of it: amount u64, TTL of a new one. Reply: outcome with record. */
  increment: 0x22,
  /** Changes a quota: change u8, amount u64. Reply: outcome with record. */
  change: 0x23,
  /** Changes a TTL: change u8, TTL. Reply: outcome with record, without its value. */
  expire: 0x24,
  /** Removes a record. Reply: outcome. */
  purge: 0x25,
  /** Sets a buffer: TTL, value. Reply: outcome. */
  set: 0x26,
  /**
   * Sets a buffer if it is as expected: options u8 (`CompareOption`), TTL, expected size u32, expected,
   * value. Reply: outcome; with the record that was there where it was not applied.
   */
  compareAndSet: 0x27,
  /** Decides a rate limit: cost f64, configuration. Reply: decision. */
  limit: 0x28,
  /** What a rate limit would say: configuration. Reply: decision. */
  peek: 0x29,
  /** Gives a cost back: cost f64, configuration. Reply: decision. */
  refund: 0x2a,
  /**
   * Records in the order of their keys: limit u16, options u8 (`ScanOption`), key to go on behind. The
   * key is a prefix. Reply: page.
   */
  scan: 0x2b,
  /** Removes all records of a prefix, the key: options u8 (`RemoveOption`). Reply: count f64. */
  remove: 0x2c,
} as const;

/** Commands begin here; types below are Throttr's own. */
export const COMMANDS_START = 0x20;
export const COMMAND_HEADER_BYTES = 7;

/** `isOnce`: the body begins with an idempotency key; for commands on one key that write. */
export const Flag = { isOnce: 1 } as const;
export const CompareOption = { isExpected: 1, isRemoval: 2 } as const;
/** `isBehind`: the page begins behind a key, which may be the empty one; else at the start. */
export const ScanOption = { isBehind: 1 } as const;
export const RemoveOption = { everything: 1 } as const;

export const STATUS_ERROR = 0x02;
/** Status and size. */
export const REPLY_HEADER_BYTES = 5;

/** A TTL in a body: unit u8 as in 7.3, count u64. */
export const TTL_BYTES = 9;
/** An outcome: applied u8, and a record or nothing. */
export const OUTCOME_BYTES = 1;
/** A record before its value: kind u8, unit u8, expiry u64 in ns since the epoch, time left u64 in ns. */
export const RECORD_HEADER_BYTES = 18;
export const RecordKind = { counter: 1, buffer: 2 } as const;

export const IDEMPOTENCY_KEY_BYTES_MAX = 64;
/** Records of one page of a scan. */
export const SCAN_RECORDS_MAX = 1000;
/** A row of a page, before its key: key size u8, kind u8, unit u8, expiry u64 ns, quota or bytes u64. */
export const SCAN_ROW_BYTES = 19;

/** Writes an error in place of a reply. */
export function writeError(out: ByteWriter, message: string): void {
  const text = new TextEncoder().encode(message);
  out.u8(STATUS_ERROR);
  out.u32(text.length);
  out.copy(text);
}
