/**
 * EXPORT and EXPORT_LEASES: the records of a namespace with their values, and its leases, a page at a time.
 *
 * The ranges that the namespace began with are gone through one after the other, so values are never in memory for more than
 * a page. The last key of a page says where to go on: its hash finds the range that it came from, so nothing is kept between
 * two pages. Where a range has split since, the pages of all shards that have it are merged in the order of keys: so it does
 * not matter when it has split. Any of them may have the next key, so each is asked for each page, for its share of it.
 */
import { EXPORT_PAGE_HEADER_BYTES } from "../engine/export.ts";
import type { ByteWriter } from "../wire/bytes.ts";
import {
  EXPORT_BYTES_MAX,
  EXPORT_RECORDS_MAX,
  ExportOption,
  KEY_BYTES_MAX,
  LEASE_ID_BYTES,
} from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { CIRCLE, initialRange } from "../wire/range.ts";
import type { Access } from "../base/access.ts";
import { refuseUnknown } from "../base/unknown-method.ts";
import { EXPORT_PAGES_BYTES } from "../engine/sizes.ts";
import { ExportCalls, ExportPages } from "./export-pages.ts";
import { check, readParts, queryOf } from "./scans.ts";
import type { AskedShard, ShardGroup } from "./shard-group.ts";
import { shareOfRows } from "./share-of-rows.ts";

/** Limit, bytes and options. */
const EXPORT_FIELDS_BYTES = 7;
const EXPORT_OPTIONS = ExportOption.isBehind | ExportOption.isPairs;
/** In front of the two names of a pair: the size of each, u8. */
const PAIR_SIZES_BYTES = 2;

/**
 * Writes the answer to an EXPORT: whether the page is the last one, then records.
 *
 * @throws Refusal
 */
export async function exportPage(
  shards: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, keyspace, ...asked } = readExport(frame);
  const query = queryOf(prefix, keyspace, access);
  await writePages(
    shards,
    asked,
    {
      placeOf: (key) => shards.map.hashOf(keyspace, key, 0, key.length),
      ask: async ({ placement, stub }, after, recordsMax, bytesMax) =>
        await stub().exportPage(placement, query, after, recordsMax, bytesMax),
    },
    out,
  );
}

/**
 * Writes the answer to an EXPORT_LEASES, in the same form. A lease lies where its semaphore does.
 *
 * @throws Refusal
 */
export async function exportLeases(
  shards: ShardGroup,
  frame: Uint8Array,
  { keyPrefixes }: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, ...asked } = readLeaseExport(frame);
  const query = { prefix, prefixes: keyPrefixes };
  const { semaphores } = Keyspace;
  await writePages(
    shards,
    asked,
    {
      placeOf: (key) =>
        shards.map.hashOf(semaphores, key, LEASE_ID_BYTES, key.length - LEASE_ID_BYTES),
      ask: async ({ placement, stub }, after, leasesMax, bytesMax) =>
        await refuseUnknown(stub().exportLeases(placement, query, after, leasesMax, bytesMax)),
    },
    out,
  );
}

/** Whose pages are put together. */
interface ExportSource {
  /** Placement hash of a row by its key. */
  readonly placeOf: (key: Uint8Array) => number;
  /** Asks a shard for its rows behind a key, in the order of keys. */
  readonly ask: (
    shard: AskedShard,
    after: Uint8Array | null,
    rowsMax: number,
    bytesMax: number,
  ) => Promise<Uint8Array>;
}

/** Writes a page of all shards: whether it is the last one, then rows. */
async function writePages(
  shards: ShardGroup,
  asked: ExportAsked,
  source: ExportSource,
  out: ByteWriter,
): Promise<void> {
  await shards.findShards();
  for (;;) {
    const { shards: known } = shards.map;
    const page = await gather(shards, asked, source);
    // A namespace that has begun meanwhile has other ranges than were gone through.
    if (shards.map.shards !== known) continue;
    out.u8(page.isLast ? 1 : 0);
    for (const rows of page.rows) out.copy(rows);
    return;
  }
}

/** Rows of some ranges, one after the other, until the page is full. */
async function gather(
  shards: ShardGroup,
  { limit, bytesMax, after }: ExportAsked,
  { placeOf, ask }: ExportSource,
): Promise<{ rows: Uint8Array[]; isLast: boolean }> {
  const { map } = shards;
  const count = Math.max(1, map.shards);
  const rows: Uint8Array[] = [];
  let index = after === null ? 0 : initialOf(placeOf(after), count);
  let [recordsLeft, bytesLeft] = [limit, bytesMax];
  let isRangeDone = false;
  const calls = new ExportCalls();
  for (let behind = after; ; index++, behind = null) {
    if (index === count || recordsLeft === 0 || bytesLeft <= 0) break;
    const initial = initialRange(index, count);
    const [records, bytes] = [recordsLeft, bytesLeft];
    const pages = new ExportPages(records, bytes);
    await shards.askWithin(initial, async (shard) => {
      await calls.begin();
      let isLarge = true;
      try {
        // Counted with each call: the answer of one shard may say that it has split into many.
        const bytesMax = pageBytesOf(bytes, map.ranges.countWithin(initial));
        const rowsMax = shareOfRows(records, shard.range, initial);
        const answer = await ask(shard, behind, rowsMax, bytesMax);
        isLarge = answer.length > EXPORT_PAGE_HEADER_BYTES + bytesMax;
        pages.add(answer);
      } finally {
        calls.end(isLarge);
      }
    });
    const page = pages.merged();
    // A shard gives its first record whatever its size: one that is too large for the rest of this page begins the next one.
    if (page.rows.length > bytesLeft && rows.length > 0) {
      isRangeDone = false;
      break;
    }
    recordsLeft -= page.count;
    bytesLeft -= page.rows.length;
    if (page.rows.length > 0) rows.push(page.rows);
    isRangeDone = page.isLast;
    if (!isRangeDone) break;
  }
  return { rows, isLast: isRangeDone && index === count };
}

/** How many bytes each of the shards may give, when all of them are asked at once. */
function pageBytesOf(bytesMax: number, shards: number): number {
  return Math.min(bytesMax, Math.ceil(EXPORT_PAGES_BYTES / shards));
}

/** Which of the ranges that a namespace began with has a hash. */
function initialOf(hash: number, count: number): number {
  return Math.floor((hash * count) / CIRCLE);
}

/** Which page is asked for. */
interface ExportAsked {
  /** Records of a page, 1 to `EXPORT_RECORDS_MAX`. */
  readonly limit: number;
  /** At which a page ends, 1 to `EXPORT_BYTES_MAX`. */
  readonly bytesMax: number;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
}

/** @throws Refusal */
function readExport(
  frame: Uint8Array,
): ExportAsked & { readonly prefix: Uint8Array; readonly keyspace: Keyspace } {
  const { prefix, options, key, ...asked } = readFields(frame, EXPORT_OPTIONS);
  const isPairs = (options & ExportOption.isPairs) !== 0;
  const isBehind = (options & ExportOption.isBehind) !== 0;
  const isValid = isKey(key, isBehind, isPairs);
  check(isValid, "after", expectedKey(isBehind, isPairs), `${key.length} bytes`);
  const keyspace = isPairs ? Keyspace.throttrPairs : Keyspace.throttr;
  return { ...asked, prefix, keyspace, after: isBehind ? key : null };
}

/** @throws Refusal */
function readLeaseExport(frame: Uint8Array): ExportAsked & { readonly prefix: Uint8Array } {
  const { prefix, options, key, ...asked } = readFields(frame, ExportOption.isBehind);
  if ((options & ExportOption.isBehind) === 0) {
    check(key.length === 0, "after", "no lease", `${key.length} bytes`);
    return { ...asked, prefix, after: null };
  }
  const isLease = key.length > LEASE_ID_BYTES && key.length <= LEASE_ID_BYTES + KEY_BYTES_MAX;
  check(isLease, "after", "the ID of a lease and a name", `${key.length} bytes`);
  return { ...asked, prefix, after: key };
}

/** The fields that both have. @throws Refusal */
function readFields(
  frame: Uint8Array,
  optionsMax: number,
): Omit<ExportAsked, "after"> & { prefix: Uint8Array; options: number; key: Uint8Array } {
  const { prefix, body } = readParts(frame, EXPORT_FIELDS_BYTES);
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const limit = view.getUint16(0, true);
  check(limit >= 1 && limit <= EXPORT_RECORDS_MAX, "limit", `1 to ${EXPORT_RECORDS_MAX}`, limit);
  const bytesMax = view.getUint32(2, true);
  const isPage = bytesMax >= 1 && bytesMax <= EXPORT_BYTES_MAX;
  check(isPage, "bytes_max", `1 to ${EXPORT_BYTES_MAX}`, bytesMax);
  const options = body[6]!;
  check((options & ~optionsMax) === 0, "options", `0 to ${optionsMax}`, options);
  return { prefix, limit, bytesMax, options, key: body.slice(EXPORT_FIELDS_BYTES) };
}

/** Whether the key to go on behind has the form that the options say: a key, the two names of a pair, or nothing. */
function isKey(key: Uint8Array, isBehind: boolean, isPairs: boolean): boolean {
  if (!isBehind) return key.length === 0;
  if (!isPairs) return key.length <= KEY_BYTES_MAX;
  return key.length >= PAIR_SIZES_BYTES && key.length === PAIR_SIZES_BYTES + key[0]! + key[1]!;
}

/** The same in words, for the refusal. */
function expectedKey(isBehind: boolean, isPairs: boolean): string {
  if (!isBehind) return "no key";
  return isPairs
    ? "two sizes and the two names of a pair"
    : `a key of at most ${KEY_BYTES_MAX} bytes`;
}
