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
import { writeReply, readParts, queryOf } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";
import { Refusal } from "../engine/refusal.ts";

/** Limit, bytes and options. */
const EXPORT_FIELDS_BYTES = 7;
const EXPORT_OPTIONS = ExportOption.isBehind | ExportOption.isPairs;
const PAIR_SIZES_BYTES = 2;

export class Exports {
  readonly #shards: ShardGroup;

  constructor(shards: ShardGroup) {
    this.#shards = shards;
  }

  /** Answers an EXPORT. */
  async answer(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    return await writeReply(async (out) => await this.#export(readExport(frame), access, out));
  }

  async #export(
    { prefix, limit, bytesMax, keyspace, after }: ExportParts,
    access: Access,
    out: ByteWriter,
  ): Promise<void> {
    const query = queryOf(prefix, keyspace, access);
    const { map, placement } = this.#shards;
    const isLastAt = out.reserve(1);
    const rowsAt = out.length;
    let index = after === null ? 0 : this.#shards.indexOf(keyspace, after);
    let recordsLeft = limit;
    let isShardDone = false;
    for (let behind = after; ; index++, behind = null) {
      const bytesLeft = bytesMax - (out.length - rowsAt);
      if (index === map.shards || recordsLeft === 0 || bytesLeft <= 0) break;
      const shard = this.#shards.stub(index);
      const page = await shard.exportPage(placement, query, behind, recordsLeft, bytesLeft);
      recordsLeft -= page[1]! | (page[2]! << 8);
      out.copy(page, EXPORT_PAGE_HEADER_BYTES);
      isShardDone = page[0] === 1;
      if (!isShardDone) break;
    }
    out.bytes[isLastAt] = isShardDone && index === map.shards ? 1 : 0;
  }
}

interface ExportParts {
  readonly prefix: Uint8Array;
  readonly limit: number;
  readonly bytesMax: number;
  readonly keyspace: Keyspace;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
}

/** @throws Refusal */
function readExport(frame: Uint8Array): ExportParts {
  const { prefix, body } = readParts(frame);
  if (body.length < EXPORT_FIELDS_BYTES) {
    throw new Refusal(
      `body_invalid: expected at least ${EXPORT_FIELDS_BYTES} bytes, got ${body.length}`,
    );
  }
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const limit = view.getUint16(0, true);
  if (limit < 1 || limit > EXPORT_RECORDS_MAX) {
    throw new Refusal(`limit_invalid: expected 1 to ${EXPORT_RECORDS_MAX}, got ${limit}`);
  }
  const bytesMax = view.getUint32(2, true);
  if (bytesMax < 1 || bytesMax > EXPORT_BYTES_MAX) {
    throw new Refusal(`bytes_max_invalid: expected 1 to ${EXPORT_BYTES_MAX}, got ${bytesMax}`);
  }
  const options = body[6]!;
  if ((options & ~EXPORT_OPTIONS) !== 0) {
    throw new Refusal(`options_invalid: expected 0 to ${EXPORT_OPTIONS}, got ${options}`);
  }
  const isPairs = (options & ExportOption.isPairs) !== 0;
  const isBehind = (options & ExportOption.isBehind) !== 0;
  const key = body.slice(EXPORT_FIELDS_BYTES);
  if (!isKey(key, isBehind, isPairs)) {
    throw new Refusal(`after_invalid: ${expectedKey(isBehind, isPairs)}, got ${key.length} bytes`);
  }
  const keyspace = isPairs ? Keyspace.throttrPairs : Keyspace.throttr;
  return { prefix, limit, bytesMax, keyspace, after: isBehind ? key : null };
}

function isKey(key: Uint8Array, isBehind: boolean, isPairs: boolean): boolean {
  if (!isBehind) return key.length === 0;
  if (!isPairs) return key.length <= KEY_BYTES_MAX;
  return key.length >= PAIR_SIZES_BYTES && key.length === PAIR_SIZES_BYTES + key[0]! + key[1]!;
}

function expectedKey(isBehind: boolean, isPairs: boolean): string {
  if (!isBehind) return "expected no key";
  return isPairs
    ? "expected two sizes and the two names of a pair"
    : `expected a key of at most ${KEY_BYTES_MAX} bytes`;
}
