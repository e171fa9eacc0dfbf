/**
 * Usage of a record: reads and writes, in all and in a minute, in 14 bytes behind its key.
 *
 *     usage = reads u32, writes u32, reads this minute u16, writes this minute u16,
 *             reads last minute u8, writes last minute u8
 *
 * The figures of a minute are small floats, so that they hold any rate: exact to 4,095 for this minute,
 * to 15 for the last one. A float too large to count by one counts every 2^exponent-th event, found by
 * the total. Totals stop shortly before 2^32. The segment knows which minute is meant.
 */

/** Bytes of a record's usage. */
export const USAGE_BYTES = 14;

const READS = 0;
const WRITES = 4;
const READS_NOW = 8;
const WRITES_NOW = 10;
const READS_BEFORE = 12;
const WRITES_BEFORE = 13;

/** Counts one read of the record whose usage lies at `at`. */
export function countRead(bytes: Uint8Array, at: number): void {
  countNow(bytes, at + READS_NOW, countTotal(bytes, at + READS));
}

/** Counts one write of the record whose usage lies at `at`. */
export function countWrite(bytes: Uint8Array, at: number): void {
  countNow(bytes, at + WRITES_NOW, countTotal(bytes, at + WRITES));
}

/** Adds one, and returns the low 16 bits of the sum. */
function countTotal(bytes: Uint8Array, at: number): number {
  const low = (bytes[at]! | (bytes[at + 1]! << 8)) + 1;
  bytes[at] = low;
  bytes[at + 1] = low >>> 8;
  if (low > 0xffff) {
    const high = (bytes[at + 2]! | (bytes[at + 3]! << 8)) + 1;
    // At the top the low half goes round, so that floats go on counting.
    if (high <= 0xffff) {
      bytes[at + 2] = high;
      bytes[at + 3] = high >>> 8;
    }
  }
  return low & 0xffff;
}

/** Mantissa 12 bits, exponent 4 bits. */
const MANTISSA_END = 0x1000;

function countNow(bytes: Uint8Array, at: number, total: number): void {
  const high = bytes[at + 1]!;
  const exponent = high >>> 4;
  if ((total & ((1 << exponent) - 1)) !== 0) return;
  const mantissa = (((high & 0xf) << 8) | bytes[at]!) + 1;
  if (mantissa < MANTISSA_END) {
    bytes[at] = mantissa;
    bytes[at + 1] = (exponent << 4) | (mantissa >>> 8);
  } else if (exponent < 15) {
    bytes[at] = 0;
    bytes[at + 1] = ((exponent + 1) << 4) | (MANTISSA_END >>> 9);
  }
}

function readNow(bytes: Uint8Array, at: number): number {
  const high = bytes[at + 1]!;
  return (((high & 0xf) << 8) | bytes[at]!) << (high >>> 4);
}

/** Mantissa 3 bits with a hidden one, exponent 5 bits. */
function toBefore(count: number): number {
  if (count < 16) return count;
  const exponent = 28 - Math.clz32(count);
  return ((exponent + 1) << 3) | ((count >>> exponent) & 0x7);
}

function fromBefore(encoded: number): number {
  if (encoded < 16) return encoded;
  return (8 | (encoded & 0x7)) * 2 ** ((encoded >>> 3) - 1);
}

/** A minute ends: this one becomes the last one, or is forgotten when more than one has passed. */
export function turnMinute(bytes: Uint8Array, at: number, isForgotten: boolean): void {
  bytes[at + READS_BEFORE] = isForgotten ? 0 : toBefore(readNow(bytes, at + READS_NOW));
  bytes[at + WRITES_BEFORE] = isForgotten ? 0 : toBefore(readNow(bytes, at + WRITES_NOW));
  bytes.fill(0, at + READS_NOW, at + READS_BEFORE);
}

/** How often a record was read and written. */
export interface Usage {
  readsPerMinute: number;
  writesPerMinute: number;
  reads: number;
  writes: number;
}

/**
 * Reads the usage at `at` into `usage`.
 *
 * @param share of the present minute that has passed, 0 to 1: as much of the last minute is left out
 */
export function readUsage(bytes: Uint8Array, at: number, share: number, usage: Usage): void {
  const before = (offset: number): number =>
    Math.round(fromBefore(bytes[at + offset]!) * (1 - share));
  usage.readsPerMinute = readNow(bytes, at + READS_NOW) + before(READS_BEFORE);
  usage.writesPerMinute = readNow(bytes, at + WRITES_NOW) + before(WRITES_BEFORE);
  usage.reads = readTotal(bytes, at + READS);
  usage.writes = readTotal(bytes, at + WRITES);
}

/**
 * Reads the usage at `at` as it was when the present minute began: what requests of the Throttr dialects
 * report, so that a record reads zeros in the minute in which it was created. Totals are exact where this
 * minute's figures are, and within a thousandth of those beyond.
 */
export function readUsageAtTurn(bytes: Uint8Array, at: number, usage: Usage): void {
  usage.readsPerMinute = fromBefore(bytes[at + READS_BEFORE]!);
  usage.writesPerMinute = fromBefore(bytes[at + WRITES_BEFORE]!);
  usage.reads = Math.max(0, readTotal(bytes, at + READS) - readNow(bytes, at + READS_NOW));
  usage.writes = Math.max(0, readTotal(bytes, at + WRITES) - readNow(bytes, at + WRITES_NOW));
}

function readTotal(bytes: Uint8Array, at: number): number {
  const low = bytes[at]! | (bytes[at + 1]! << 8);
  return low + (bytes[at + 2]! | (bytes[at + 3]! << 8)) * 0x10000;
}

/** Bytes of a usage in replies. */
export const USAGE_ROW_BYTES = 32;

/** Writes reads and writes per minute, reads, writes: u64 each, as STAT and STATS have them. */
export function writeUsage(view: DataView, at: number, usage: Usage): void {
  const { readsPerMinute, writesPerMinute, reads, writes } = usage;
  [readsPerMinute, writesPerMinute, reads, writes].forEach((count, i) => {
    view.setUint32(at + 8 * i, count, true);
    view.setUint32(at + 8 * i + 4, 0, true);
  });
}
