/**
 * Commands: the requests that the edge dialect has beyond those of 7.3.
 *
 *     command = type u8, flags u8, key size u8, body size u32, key, body
 *     reply   = status u8, size u32, body
 *
 * All little-endian. Flags: see `Flag`. A body that begins with an idempotency key (`Flag.isOnce`) has its size in a byte
 * before it. The body of an error is text that begins with a stable code and a colon.
 */
import type { ByteWriter } from "../bytes.ts";

/** Types 0x20 to 0x3f; those of 7.3 are below. A new command takes the next free number; numbers are never used again. */
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
   * Records, in the order of their keys where every shard has few: limit u16, options u8 (`ScanOption`), key
   * to go on behind, or cursor. The key is a prefix. Reply: page.
   */
  scan: 0x2b,
  /** Removes all records of a prefix, the key: options u8 (`RemoveOption`). Reply: count f64. */
  remove: 0x2c,
  /**
   * Lets a lease hold resources of a semaphore, the key, until it is released or ends: lease id 16,
   * resources u32, maximum u32, TTL. A lease that is there, of the same resources, is renewed. Reply:
   * outcome; not applied where the consumption would exceed the maximum, else with a lease: resources
   * u32, end u64 in ns since the epoch, time left u64 in ns.
   */
  acquire: 0x2d,
  /** Lets a lease of a semaphore end at another time: lease id 16, TTL. Reply as of ACQUIRE. */
  renew: 0x2e,
  /** Gives back what a lease of a semaphore holds: lease id 16. Reply: outcome. */
  release: 0x2f,
  /** What is in use of a semaphore. Reply: outcome, consumption u32, maximum u32. */
  semaphore: 0x30,
  /** Semaphores in the order of their names: as SCAN. Reply: page. */
  semaphores: 0x31,
  /** Who holds a semaphore, the key, in the order of holders: as SCAN. Reply: page. */
  holders: 0x32,
  /**
   * Puts a record back as it was: policy u8 (`RestorePolicy`), kind u8, unit u8, expiry u64 in ns since
   * the epoch, quota u64 or value. Reply: outcome u8 (`RestoreOutcome`).
   */
  restore: 0x33,
  /**
   * Records with their values, shard by shard and in each in the order of their keys: limit u16, bytes
   * max u32, options u8 (`ExportOption`), key to go on behind. The key is a prefix, of consumers where
   * the records are pairs. Reply: last u8, rows: see `engine/export.ts`; the keys of pairs have the sizes
   * of their two names, one byte each, in front.
   */
  export: 0x34,
  /**
   * As `restore`, of a pair of dialect 2, which has a header of its own:
   *
   *     type u8, flags u8, body size u32, consumer size u8, resource size u8, consumer, resource, body
   */
  restorePair: 0x35,
  /**
   * Units of a rate limit that the caller spends without asking for each: see `draw.ts`. Reply: decision,
   * then what was drawn.
   */
  draw: 0x36,
  /** Charges an estimate to a rate limit, to be settled: see `reservations.ts`. Reply: decision. */
  reserve: 0x37,
  /** Charges the difference of the real cost and a reservation, or gives it back. Reply: decision, settled f64. */
  settle: 0x38,
  /**
   * Several rate limits, all of which are charged, or none: see `limit-all-body.ts`. The key is empty. Reply:
   * decisions.
   */
  limitAll: 0x39,
  /**
   * Leases of all semaphores, as `export` has records: limit u16, bytes max u32, options u8 (`isBehind`), lease id 16 and
   * name to go on behind. The key is a prefix of names. Reply: as of `export`; the key of a row is a lease id and a name,
   * its kind `LEASE_KIND`, its value the resources, u32.
   */
  exportLeases: 0x3a,
  /**
   * Puts a lease of a semaphore, the key, back as it was, whatever is in use of it: policy u8, lease id 16, resources u32,
   * end u64 in ns since the epoch. Reply: as of `restore`.
   */
  restoreLease: 0x3b,
} as const;

/** Commands begin here; types below are Throttr's own. */
export const COMMANDS_START = 0x20;
/** Shards of releases before 0.5.0 know no commands from here on: a batch with one of them fails as a whole there. */
export const COMMANDS_SINCE_0_5 = Command.draw;
export const COMMAND_HEADER_BYTES = 7;

/**
 * `isOnce`: the body begins with an idempotency key; for commands on one record that write.
 * `isRelaxed`: the reply need not wait for the disk; for LIMIT, PEEK and REFUND. The flag stands in the frame, as frames
 * travel through all doors as they came. Shards before 0.5 refuse it with `flags_invalid`.
 */
export const Flag = { isOnce: 1, isRelaxed: 2 } as const;
export const CompareOption = { isExpected: 1, isRemoval: 2 } as const;
/**
 * `isBehind`: the page begins behind a key, which may be the empty one, or at a cursor; else at the start.
 * `hasCursor`: the reply has a cursor u16 size and bytes behind its first byte, and its page may be short or
 * empty though it is not the last one.
 */
export const ScanOption = { isBehind: 1, hasCursor: 2 } as const;
export const RemoveOption = { everything: 1 } as const;
/** What becomes of a live record that is there already. */
export const RestorePolicy = { keep: 0, replace: 1 } as const;
/** What became of the one that was to be put back; `expired`: its end had come before. */
export const RestoreOutcome = { kept: 0, restored: 1, expired: 2 } as const;
/** `isBehind` as in `ScanOption`; `isPairs`: the pairs of dialect 2, not the keys of the others. */
export const ExportOption = { isBehind: 1, isPairs: 2 } as const;

export const STATUS_ERROR = 0x02;
/** Status and size. */
export const REPLY_HEADER_BYTES = 5;

/** A TTL in a body: unit u8 as in 7.3, count u64. */
export const TTL_BYTES = 9;
export const RecordKind = { counter: 1, buffer: 2 } as const;

/** Keys, prefixes and names of channels. */
export const KEY_BYTES_MAX = 255;
export const IDEMPOTENCY_KEY_BYTES_MAX = 64;
/** The cursor of a scan beyond the order of keys has more bytes than a key, and at most these. */
export const SCAN_CURSOR_BYTES_MAX = 1024;
/** Records of one page of a scan. */
export const SCAN_RECORDS_MAX = 1000;
/** A row of a page, before its key: key size u8, kind u8, unit u8, expiry u64 ns, quota or bytes u64. */
export const SCAN_ROW_BYTES = 19;
/** Policy, kind, unit and expiry. */
export const RESTORE_FIELDS_BYTES = 11;
/** What stands before the two sizes of a pair. */
export const PAIR_COMMAND_HEADER_BYTES = 6;
/** Records of one page of an export. */
export const EXPORT_RECORDS_MAX = 10_000;
/** Bytes of the rows of one page of an export, unless a single record has more. */
export const EXPORT_BYTES_MAX = 1 << 20;
/** A row of an export, before its key: key size u16, kind u8, unit u8, expiry u64 ns, value size u32. */
export const EXPORT_ROW_BYTES = 16;

export const LEASE_ID_BYTES = 16;
/** Of a row of an export that is a lease, beside `RecordKind`. */
export const LEASE_KIND = 3;
/** A day: resources of a caller that is gone come back to others by then. A caller that needs longer renews. */
export const LEASE_TTL_MS_MAX = 86_400_000;
/** A lease that is put back may end later: the clock of the server that it comes from may be ahead. */
export const RESTORED_LEASE_MS_MAX = 2 * LEASE_TTL_MS_MAX;
/** Resources and maxima are 32-bit. */
export const U32_MAX = 2 ** 32 - 1;

/** Names of semaphores that came over the yrmcds protocol; those of commands have 255 at most. */
export const SEMAPHORE_NAME_BYTES_MAX = 65_535;
/** A row of a page, before its name: name size u16, consumption u32, maximum u32. */
export const SEMAPHORE_ROW_BYTES = 10;
/** A row of a page: resources u32, end u64 in ns since the epoch or 0 for none, kind u8, id 16. */
export const HOLDER_ROW_BYTES = 29;
/** Kind and id: what a page of holders goes on behind. */
export const HOLDER_CURSOR_BYTES = 1 + LEASE_ID_BYTES;
export const HOLDER_KINDS = { 1: "connection", 2: "lease" } as const;

/** Writes an error in place of a reply. */
export function writeError(out: ByteWriter, message: string): void {
  const text = new TextEncoder().encode(message);
  out.u8(STATUS_ERROR);
  out.u32(text.length);
  out.copy(text);
}
