/**
 * EXPORT: the records of a namespace with their values, a page at a time.
 *
 * The shards are gone through one after the other, so values are never in memory for more than a page. The last key of
 * a page says where to go on: its hash finds the shard that it came from, so nothing is kept between two pages.
 */
import { EXPORT_PAGE_HEADER_BYTES } from "../engine/export.ts";
import type { ByteWriter } from "../wire/bytes.ts";
import {
  EXPORT_BYTES_MAX,
  EXPORT_RECORDS_MAX,
  ExportOption,
  KEY_BYTES_MAX,
} from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { Access } from "../base/access.ts";
import { check, readParts, queryOf } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";

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
  const { prefix, limit, bytesMax, keyspace, after } = readExport(frame);
  const query = queryOf(prefix, keyspace, access);
  const { map, placement } = shards;
  const isLastAt = out.reserve(1);
  const rowsAt = out.length;
  let index = after === null ? 0 : shards.indexOf(keyspace, after);
  let recordsLeft = limit;
  let isShardDone = false;
  for (let behind = after; ; index++, behind = null) {
    const bytesLeft = bytesMax - (out.length - rowsAt);
    if (index === map.shards || recordsLeft === 0 || bytesLeft <= 0) break;
    const shard = shards.stub(index);
    const page = await shard.exportPage(placement, query, behind, recordsLeft, bytesLeft);
    // A shard gives its first record whatever its size: one that is too large for the rest of this page begins the next one.
    const pageBytes = page.length - EXPORT_PAGE_HEADER_BYTES;
    if (pageBytes > bytesLeft && out.length > rowsAt) {
      isShardDone = false;
      break;
    }
    // The head of a shard's page: whether it is the last one, and the count of its records, u16.
    recordsLeft -= page[1]! | (page[2]! << 8);
    out.copy(page, EXPORT_PAGE_HEADER_BYTES);
    isShardDone = page[0] === 1;
    if (!isShardDone) break;
  }
  out.bytes[isLastAt] = isShardDone && index === map.shards ? 1 : 0;
}

/** Which records are asked for. */
interface ExportParts {
  readonly prefix: Uint8Array;
  /** Records of a page, 1 to `EXPORT_RECORDS_MAX`. */
  readonly limit: number;
  /** At which a page ends, 1 to `EXPORT_BYTES_MAX`. */
  readonly bytesMax: number;
  readonly keyspace: Keyspace;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
}

/** @throws Refusal */
function readExport(frame: Uint8Array): ExportParts {
  const { prefix, body } = readParts(frame, EXPORT_FIELDS_BYTES);
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const limit = view.getUint16(0, true);
  check(limit >= 1 && limit <= EXPORT_RECORDS_MAX, "limit", `1 to ${EXPORT_RECORDS_MAX}`, limit);
  const bytesMax = view.getUint32(2, true);
  const isPage = bytesMax >= 1 && bytesMax <= EXPORT_BYTES_MAX;
  check(isPage, "bytes_max", `1 to ${EXPORT_BYTES_MAX}`, bytesMax);
  const options = body[6]!;
  check((options & ~EXPORT_OPTIONS) === 0, "options", `0 to ${EXPORT_OPTIONS}`, options);
  const isPairs = (options & ExportOption.isPairs) !== 0;
  const isBehind = (options & ExportOption.isBehind) !== 0;
  const key = body.slice(EXPORT_FIELDS_BYTES);
  const isValid = isKey(key, isBehind, isPairs);
  check(isValid, "after", expectedKey(isBehind, isPairs), `${key.length} bytes`);
  const keyspace = isPairs ? Keyspace.throttrPairs : Keyspace.throttr;
  return { prefix, limit, bytesMax, keyspace, after: isBehind ? key : null };
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
