/**
 * SCAN and REMOVE: commands on all records of a prefix, over all shards.
 *
 * A page of SCAN is bounded work, whatever the prefix: where shards have few records they are put in the order of their
 * keys, beyond that they come in the order of the tables (`scan-cursor.ts`). Nothing is kept between two pages: the
 * cursor says all, so any door, of any release, may go on with it.
 */
import type { ScanQuery } from "../engine/scan-query.ts";
import { ByteWriter } from "../wire/bytes.ts";
import {
  COMMAND_HEADER_BYTES,
  KEY_BYTES_MAX,
  REPLY_HEADER_BYTES,
  RemoveOption,
  SCAN_CURSOR_BYTES_MAX,
  SCAN_RECORDS_MAX,
  ScanOption,
  writeError,
} from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { PageReader } from "../wire/page.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import type { Access } from "../base/access.ts";
import { ListingOutgrown, Merge } from "./merge.ts";
import {
  isTableCursor,
  readTableCursor,
  startOf,
  writeTableCursor,
  type TableCursor,
} from "./scan-cursor.ts";
import { walk, type ShardGroup } from "./shard-group.ts";
import { shareOfRows } from "./share-of-rows.ts";
import { rangeRows, type RangeRows } from "./table-rows.ts";
import { WHOLE } from "../wire/range.ts";
import { turn } from "../base/turn.ts";
import { refusalOf } from "../base/failure.ts";
import { Refusal } from "../engine/refusal.ts";
import { SCAN_CALLS_MAX } from "../engine/sizes.ts";

/** Limit and options. */
const SCAN_FIELDS_BYTES = 3;

/**
 * Writes the answer to a SCAN.
 *
 * @throws Refusal when the frame asks for what there is not, or its cursor is no longer valid
 */
export async function scan(
  shards: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const parts = readScan(frame, SCAN_CURSOR_BYTES_MAX, ScanOption.hasCursor);
  const { limit, after } = parts;
  const query = queryOf(parts.prefix, Keyspace.throttr, access);
  const isInTable = after !== null && isTableCursor(after);
  if (!parts.hasCursor) {
    // Clients of releases before 0.5.0 get a page in the order of keys, whatever that costs, and know no other cursor.
    check(!isInTable, "after", `a key of at most ${KEY_BYTES_MAX} bytes`, after?.length ?? 0);
    const merge = await mergeScans(shards, query, limit, after);
    await writeMerged(merge, out, limit, Infinity, (entry) => writeScanRow(out, entry));
  } else if (isInTable) {
    await shards.findShards();
    const cursor = readTableCursor(after, shards.map.shards);
    if (cursor === null) {
      throw new Refusal("after_invalid: expected a cursor of this namespace");
    }
    await writeTablePage(shards, query, limit, cursor, out);
  } else if (!(await writeOrderedPage(shards, query, parts, out))) {
    const first = shards.map.ranges.rangeOf(0);
    await writeTablePage(shards, query, limit, startOf(first, after), out);
  }
}

/**
 * Writes a page in the order of keys, as people expect it, while every shard has few records.
 *
 * @returns false, and nothing is written, when a shard has too many records to put them in order within one call
 */
async function writeOrderedPage(
  shards: ShardGroup,
  query: ScanQuery,
  { limit, after }: ScanParts,
  out: ByteWriter,
): Promise<boolean> {
  const merge = await mergeScans(shards, query, limit, after, true);
  if (merge.hasTooMuch) return false;
  const page = new ByteWriter(4096);
  let last: Uint8Array = new Uint8Array(0);
  try {
    await writeMerged(merge, page, limit, Infinity, (entry) => {
      writeScanRow(page, entry);
      last = entry.key();
    });
  } catch (error) {
    // A shard has passed the bound between its first answer and the one that says whether more follows.
    if (error instanceof ListingOutgrown) return false;
    throw error;
  }
  const isLast = page.bytes[0] === 1;
  writePageHead(out, isLast ? null : last);
  out.copy(page.bytes, 1, page.length);
  return true;
}

/**
 * Writes a page in the order of the table: one shard after the other. A rare prefix gives pages with few records or
 * none, so that the caller, and not the server, goes on as long as it wants to.
 */
async function writeTablePage(
  shards: ShardGroup,
  query: ScanQuery,
  limit: number,
  from: TableCursor,
  out: ByteWriter,
): Promise<void> {
  const rows = new ByteWriter(4096);
  let cursor: TableCursor | null = from;
  let recordsLeft = limit;
  for (let calls = 0; calls < SCAN_CALLS_MAX && recordsLeft > 0 && cursor !== null;) {
    // Answers of an object in the same process are always ready: without a turn nothing else would be served.
    if (calls > 0) await turn();
    const { range, behind }: TableCursor = cursor;
    const page: RangeRows = await refuseLostCursor(
      rangeRows(shards, { ...query, behind }, cursor, recordsLeft),
    );
    rows.copy(page.rows);
    recordsLeft -= page.count;
    // A caller may have kept a cursor while its range came to have many shards.
    calls += shards.map.ranges.countWithin(range);
    if (page.next !== null) cursor = { range, order: page.hashes, place: page.next, behind };
    else cursor = range.to === 0 ? null : startOf(shards.map.ranges.rangeOf(range.to), behind);
  }
  writePageHead(out, cursor === null ? null : writeTableCursor(cursor));
  out.copy(rows.bytes, 0, rows.length);
}

/**
 * Writes the answer to a REMOVE, the count of records removed as f64: all shards at once, each a step at a time, so that
 * others come between.
 *
 * With everything, answers of idempotency keys and reservations are removed too; callers count records, so these don't
 * count.
 *
 * @throws Refusal
 */
export async function remove(
  shards: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, body } = readParts(frame, 0);
  check(body.length === 1, "body", "1 byte", body.length);
  const options = body[0]!;
  const { everything } = RemoveOption;
  check((options & ~everything) === 0, "options", `0 or ${everything}`, options);
  const keyspaces =
    options === everything
      ? [Keyspace.throttr, Keyspace.throttrPairs, ...BESIDE]
      : [Keyspace.throttr];
  let removed = 0;
  await shards.changeAll(async ({ placement, stub }, noteCall) => {
    await Promise.all(
      keyspaces.map(async (keyspace) => {
        const query = queryOf(prefix, keyspace, access);
        const steps = walk((hashes, at) => {
          noteCall();
          return stub().remove(placement, query, hashes, at);
        });
        // Counted as it comes: where the shard splits, its parts begin anew, and remove the rest.
        for await (const step of steps) if (!BESIDE.includes(keyspace)) removed += step.removed;
      }),
    );
  });
  out.f64(removed);
}

/** Keyspaces of what is stored beside records, and not seen by callers. */
const BESIDE: readonly Keyspace[] = [Keyspace.answers, Keyspace.reservations];

/** Which rows are asked for. */
export interface ScanParts {
  readonly prefix: Uint8Array;
  /** Rows of a page, 1 to `SCAN_RECORDS_MAX`. */
  readonly limit: number;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
  /** The reply says where to go on. */
  readonly hasCursor: boolean;
}

/** A row of SCAN: the size of the key, what the shard says of the record, the key. */
function writeScanRow(out: ByteWriter, { bytes, rowAt, keyAt, keyLength }: PageReader): void {
  out.u8(keyLength);
  out.copy(bytes, rowAt, keyAt + keyLength);
}

/** @param cursor null on the last page */
function writePageHead(out: ByteWriter, cursor: Uint8Array | null): void {
  out.u8(cursor === null ? 1 : 0);
  out.u16(cursor?.length ?? 0);
  if (cursor !== null) out.copy(cursor);
}

/**
 * Refuses one command whose cursor is out of date. As an error it would fail the whole run, and with it the commands that
 * other callers sent in the same message.
 */
async function refuseLostCursor<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (refusalOf(error)?.code !== "listing_lost") throw error;
    throw new Refusal("cursor_lost: the cursor is no longer valid; list again from the start");
  }
}

/**
 * Reads the body of a SCAN, SEMAPHORES or HOLDERS. Rights and the length of the frame were checked; nothing else was.
 *
 * @param afterBytesMax of the key or cursor to go on behind
 * @param otherOptions that are possible beside `ScanOption.isBehind`
 * @throws Refusal
 */
export function readScan(frame: Uint8Array, afterBytesMax: number, otherOptions = 0): ScanParts {
  const { prefix, body } = readParts(frame, SCAN_FIELDS_BYTES);
  const limit = body[0]! | (body[1]! << 8);
  check(limit >= 1 && limit <= SCAN_RECORDS_MAX, "limit", `1 to ${SCAN_RECORDS_MAX}`, limit);
  const options = body[2]!;
  const optionsMax = ScanOption.isBehind | otherOptions;
  check((options & ~optionsMax) === 0, "options", `0 to ${optionsMax}`, options);
  const isBehind = (options & ScanOption.isBehind) !== 0;
  const key = body.slice(SCAN_FIELDS_BYTES);
  const keyBytesMax = isBehind ? afterBytesMax : 0;
  check(key.length <= keyBytesMax, "after", `a key of at most ${keyBytesMax} bytes`, key.length);
  const hasCursor = (options & ScanOption.hasCursor) !== 0;
  return { prefix, limit, after: isBehind ? key : null, hasCursor };
}

/**
 * Splits the frame of a command on a prefix. A prefix is copied, as it outlives the message that the frame came in.
 *
 * @param bodyBytesMin of the fields that each body has
 * @throws Refusal `flags_invalid`, `body_invalid`
 */
export function readParts(
  frame: Uint8Array,
  bodyBytesMin: number,
): { prefix: Uint8Array; body: Uint8Array } {
  check(frame[1] === 0, "flags", "0", frame[1]!);
  const end = COMMAND_HEADER_BYTES + frame[2]!;
  const body = frame.subarray(end);
  check(body.length >= bodyBytesMin, "body", `at least ${bodyBytesMin} bytes`, body.length);
  return { prefix: frame.slice(COMMAND_HEADER_BYTES, end), body };
}

/**
 * Checks a field of a command that the scanner of frames does not: rights and the length of the frame were checked.
 *
 * @param expected the range of the field, for the message
 * @throws Refusal `<field>_invalid`
 */
export function check(
  isValid: boolean,
  field: string,
  expected: string,
  got: number | string,
): void {
  if (!isValid) throw new Refusal(`${field}_invalid: expected ${expected}, got ${got}`);
}

/** A plain object of arrays of their own: it goes along with calls. */
export function queryOf(
  prefix: Uint8Array,
  keyspace: Keyspace,
  { keyPrefixes }: Access,
): ScanQuery {
  return { keyspace, prefix, prefixes: keyPrefixes };
}

/**
 * Merges a scan of all shards. Each is asked for its share of a page, as the pages of all of them are in memory together; one that
 * has more of the first keys is asked again.
 *
 * @param after key to go on behind; null for the first page
 * @param isBounded a shard with many records says so instead of putting them in order
 */
export async function mergeScans(
  shards: ShardGroup,
  query: ScanQuery,
  limit: number,
  after: Uint8Array | null,
  isBounded = false,
): Promise<Merge> {
  return await Merge.open(
    await shards.sources(async ({ placement, stub, range }, behind) => {
      const rows = shareOfRows(limit, range, WHOLE);
      return await stub().scan(placement, query, behind ?? after, rows, isBounded);
    }),
  );
}

/**
 * Writes the reply to a command on all of a namespace.
 *
 * @param write writes the body of a success, or throws a Refusal, which becomes the reply instead
 */
export async function writeReply(write: (out: ByteWriter) => Promise<void>): Promise<Uint8Array> {
  const out = new ByteWriter(4096);
  try {
    out.u8(STATUS_SUCCESS);
    const sizeAt = out.reserve(REPLY_HEADER_BYTES - 1);
    await write(out);
    out.view.setUint32(sizeAt, out.length - REPLY_HEADER_BYTES, true);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    out.reset();
    writeError(out, error.message);
  }
  return out.take();
}

/**
 * Writes a page of what a merge has that has been opened: whether it is the last one, then rows.
 *
 * @param bytesMax of rows, at which the page ends; the row that crosses it is on it
 */
export async function writeMerged(
  merge: Merge,
  out: ByteWriter,
  rowsMax: number,
  bytesMax: number,
  writeRow: (entry: PageReader) => void,
): Promise<void> {
  const isLastAt = out.reserve(1);
  const endsAt = out.length + bytesMax;
  let rows = 0;
  let isLast = true;
  await merge.forEach(([entry]) => {
    if (rows === rowsMax || out.length >= endsAt) {
      isLast = false;
      return "end";
    }
    rows++;
    writeRow(entry!);
    return "next";
  });
  out.bytes[isLastAt] = isLast ? 1 : 0;
}
