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
import type { ShardCalls, ShardRows } from "../base/calls/shard.ts";
import { turn } from "../base/turn.ts";
import { refusalOf } from "../base/failure.ts";
import { Refusal } from "../engine/refusal.ts";

/** Limit and options. */
const SCAN_FIELDS_BYTES = 3;
/**
 * Calls to shards for one page: a page with fewer records than asked for ends there. A rare prefix among many records
 * would else keep one request busy with the whole namespace; the platform allows a request 10,000 calls.
 */
const CALLS_MAX = 16;

export class Scans {
  readonly #shards: ShardGroup;

  constructor(shards: ShardGroup) {
    this.#shards = shards;
  }

  /** Answers a SCAN. */
  async scan(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    return await writeReply(async (out) => {
      const parts = readScan(frame, SCAN_CURSOR_BYTES_MAX, ScanOption.hasCursor);
      if (parts.hasCursor) await this.#scanFrom(parts, access, out);
      else await this.#scanOrdered(parts, access, out);
    });
  }

  /** Answers a REMOVE: all shards at once, each a step at a time, so that others come between. */
  async remove(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    return await writeReply(async (out) => await this.#remove(readRemoval(frame), access, out));
  }

  /** A page in the order of keys, whatever that costs, for clients of releases before 0.5.0. */
  async #scanOrdered(
    { prefix, limit, after }: ScanParts,
    access: Access,
    out: ByteWriter,
  ): Promise<void> {
    if (after !== null && isTableCursor(after)) {
      throw new Refusal(
        `after_invalid: expected a key of at most ${KEY_BYTES_MAX} bytes, got ${after.length}`,
      );
    }
    const query = queryOf(prefix, Keyspace.throttr, access);
    const merge = mergeScans(this.#shards, query, limit, after);
    await merge.open();
    await writeMerged(merge, out, limit, Infinity, (entry) => writeScanRow(out, entry));
  }

  /** A page that is bounded work: in the order of keys while every shard has few records, as people expect it. */
  async #scanFrom(parts: ScanParts, access: Access, out: ByteWriter): Promise<void> {
    const { after } = parts;
    const query = queryOf(parts.prefix, Keyspace.throttr, access);
    if (after !== null && isTableCursor(after)) {
      const cursor = readTableCursor(after);
      if (cursor === null || cursor.shard >= this.#shards.map.shards) throw cursorInvalid();
      await this.#writeTablePage(query, parts.limit, cursor, out);
    } else if (!(await this.#writeOrderedPage(query, parts, out))) {
      await this.#writeTablePage(query, parts.limit, startOf(0, after), out);
    }
  }

  /** False, and nothing written, when a shard has too many records for it. */
  async #writeOrderedPage(
    query: ScanQuery,
    { limit, after }: ScanParts,
    out: ByteWriter,
  ): Promise<boolean> {
    const merge = mergeScans(this.#shards, query, limit, after, true);
    await merge.open();
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
   * A page in the order of the table: one shard after the other. A rare prefix gives pages with few records or
   * none, so that the caller, and not the server, goes on as long as it wants to.
   */
  async #writeTablePage(
    query: ScanQuery,
    limit: number,
    from: TableCursor,
    out: ByteWriter,
  ): Promise<void> {
    const { placement, map } = this.#shards;
    const rows = new ByteWriter(4096);
    let cursor: TableCursor | null = from;
    let recordsLeft = limit;
    for (let calls = 0; calls < CALLS_MAX && recordsLeft > 0 && cursor !== null; calls++) {
      if (calls > 0) await turn();
      const { shard, order, place, behind }: TableCursor = cursor;
      const page: ShardRows = await refuseLostCursor(
        this.#shards
          .stub(shard)
          .rows(placement, { ...query, behind }, order === "" ? null : order, place, recordsLeft),
      );
      rows.copy(page.rows);
      recordsLeft -= page.count;
      if (page.next !== null) cursor = { shard, order: page.hashes, place: page.next, behind };
      else cursor = shard + 1 < map.shards ? startOf(shard + 1, behind) : null;
    }
    writePageHead(out, cursor === null ? null : writeTableCursor(cursor));
    out.copy(rows.bytes, 0, rows.length);
  }

  /** With everything, answers of idempotency keys are removed too; callers count records, so these don't count. */
  async #remove(
    { prefix, isEverything }: RemovalParts,
    access: Access,
    out: ByteWriter,
  ): Promise<void> {
    const keyspaces = isEverything
      ? [Keyspace.throttr, Keyspace.throttrPairs, Keyspace.answers]
      : [Keyspace.throttr];
    const counts = await Promise.all(
      this.#shards.all().flatMap((shard) =>
        keyspaces.map(async (keyspace) => {
          const count = await this.#removeFrom(shard, queryOf(prefix, keyspace, access));
          return keyspace === Keyspace.answers ? 0 : count;
        }),
      ),
    );
    out.f64(counts.reduce((sum, count) => sum + count, 0));
  }

  async #removeFrom(shard: DurableObjectStub<ShardCalls>, query: ScanQuery): Promise<number> {
    let removed = 0;
    const { placement } = this.#shards;
    const steps = walk((hashes, cursor) => shard.remove(placement, query, hashes, cursor));
    for await (const step of steps) removed += step.removed;
    return removed;
  }
}

/** Which rows are asked for. */
export interface ScanParts {
  readonly prefix: Uint8Array;
  readonly limit: number;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
  /** The reply says where to go on. */
  readonly hasCursor: boolean;
}

interface RemovalParts {
  readonly prefix: Uint8Array;
  readonly isEverything: boolean;
}

const cursorInvalid = (): Refusal =>
  new Refusal("after_invalid: expected a cursor of this namespace");

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
  const { prefix, body } = readParts(frame);
  if (body.length < SCAN_FIELDS_BYTES) {
    throw new Refusal(
      `body_invalid: expected at least ${SCAN_FIELDS_BYTES} bytes, got ${body.length}`,
    );
  }
  const limit = body[0]! | (body[1]! << 8);
  if (limit < 1 || limit > SCAN_RECORDS_MAX) {
    throw new Refusal(`limit_invalid: expected 1 to ${SCAN_RECORDS_MAX}, got ${limit}`);
  }
  const options = body[2]!;
  if ((options & ~(ScanOption.isBehind | otherOptions)) !== 0) {
    const optionsMax = ScanOption.isBehind | otherOptions;
    throw new Refusal(`options_invalid: expected 0 to ${optionsMax}, got ${options}`);
  }
  const isBehind = (options & ScanOption.isBehind) !== 0;
  const key = body.slice(SCAN_FIELDS_BYTES);
  const keyBytesMax = isBehind ? afterBytesMax : 0;
  if (key.length > keyBytesMax) {
    throw new Refusal(
      `after_invalid: expected a key of at most ${keyBytesMax} bytes, got ${key.length}`,
    );
  }
  const hasCursor = (options & ScanOption.hasCursor) !== 0;
  return { prefix, limit, after: isBehind ? key : null, hasCursor };
}

/** @throws Refusal */
function readRemoval(frame: Uint8Array): RemovalParts {
  const { prefix, body } = readParts(frame);
  if (body.length !== 1) {
    throw new Refusal(`body_invalid: expected 1 byte, got ${body.length}`);
  }
  return { prefix, isEverything: isSet(body[0]!, RemoveOption.everything) };
}

export function readParts(frame: Uint8Array): { prefix: Uint8Array; body: Uint8Array } {
  const flags = frame[1]!;
  if (flags !== 0) throw new Refusal(`flags_invalid: expected 0, got ${flags}`);
  const end = COMMAND_HEADER_BYTES + frame[2]!;
  return { prefix: frame.slice(COMMAND_HEADER_BYTES, end), body: frame.subarray(end) };
}

/** True when the only option is set. */
function isSet(options: number, option: number): boolean {
  if ((options & ~option) === 0) return options !== 0;
  throw new Refusal(`options_invalid: expected 0 or ${option}, got ${options}`);
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
 * Merges a scan of all shards.
 *
 * @param after key to go on behind; null for the first page
 * @param isBounded a shard with many records says so instead of putting them in order
 */
export function mergeScans(
  shards: ShardGroup,
  query: ScanQuery,
  limit: number,
  after: Uint8Array | null,
  isBounded = false,
): Merge {
  const { placement } = shards;
  return new Merge(
    shards.all().map((shard) => {
      return async (behind) => {
        return await shard.scan(placement, query, behind ?? after, limit, isBounded);
      };
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
