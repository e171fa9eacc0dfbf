/** SCAN and REMOVE: commands on all records of a prefix, over all shards. */
import type { ScanQuery } from "../engine/scan.ts";
import type { Placement } from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";
import {
  COMMAND_HEADER_BYTES,
  REPLY_HEADER_BYTES,
  RemoveOption,
  SCAN_RECORDS_MAX,
  writeError,
} from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import type { Access } from "./access.ts";
import { Merge } from "./merge.ts";
import type { Shard, ShardRemoval } from "./shard.ts";

export class Scans {
  readonly #placement: Placement;
  readonly #shards: () => DurableObjectStub<Shard>[];

  /** @param shards makes stubs of all shards */
  constructor(placement: Placement, shards: () => DurableObjectStub<Shard>[]) {
    this.#placement = placement;
    this.#shards = shards;
  }

  /** Answers a SCAN. */
  async scan(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    const { prefix, body } = partsOf(frame);
    if (body.length < 2) return errorReply("body_invalid: SCAN needs a limit of 2 bytes");
    const limit = body[0]! | (body[1]! << 8);
    if (limit < 1 || limit > SCAN_RECORDS_MAX) {
      return errorReply(
        `limit_invalid: 1 to ${SCAN_RECORDS_MAX} records are possible, got ${limit}`,
      );
    }
    const after = body.length === 2 ? null : body.slice(2);
    const query = queryOf(prefix, Keyspace.throttr, access);
    const merge = new Merge(
      this.#shards().map((shard) => {
        return async (behind) => await shard.scan(this.#placement, query, behind ?? after, limit);
      }),
    );
    await merge.open();
    const out = new ByteWriter(4096);
    const start = beginReply(out);
    const isLastAt = out.reserve(1);
    let rows = 0;
    let isLast = true;
    await merge.forEach(([entry]) => {
      if (rows === limit) {
        isLast = false;
        return false;
      }
      rows++;
      const { bytes, rowAt, keyAt, keyLength } = entry!;
      out.u8(keyLength);
      out.copy(bytes, rowAt, keyAt + keyLength);
      return null;
    });
    out.bytes[isLastAt] = isLast ? 1 : 0;
    return endReply(out, start);
  }

  /** Answers a REMOVE: shard after shard, a step at a time, so that others come between. */
  async remove(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    const { prefix, body } = partsOf(frame);
    if (body.length !== 1) return errorReply("body_invalid: REMOVE needs its options, 1 byte");
    const isEverything = (body[0]! & RemoveOption.everything) !== 0;
    const keyspaces = isEverything ? [Keyspace.throttr, Keyspace.throttrPairs] : [Keyspace.throttr];
    const counts = await Promise.all(
      this.#shards().flatMap((shard) =>
        keyspaces.map(async (keyspace) => {
          return await this.#removeFrom(shard, queryOf(prefix, keyspace, access));
        }),
      ),
    );
    const out = new ByteWriter(16);
    const start = beginReply(out);
    const at = out.reserve(8);
    const removed = counts.reduce((sum, count) => sum + count, 0);
    out.view.setFloat64(at, removed, true);
    return endReply(out, start);
  }

  async #removeFrom(shard: DurableObjectStub<Shard>, query: ScanQuery): Promise<number> {
    let removed = 0;
    let hashes: string | null = null;
    for (let cursor: number | null = 0; cursor !== null;) {
      const step: ShardRemoval = await shard.remove(this.#placement, query, hashes, cursor);
      removed += step.removed;
      hashes = step.hashes;
      cursor = step.cursor;
    }
    return removed;
  }
}

function partsOf(frame: Uint8Array): { prefix: Uint8Array; body: Uint8Array } {
  const end = COMMAND_HEADER_BYTES + frame[2]!;
  return { prefix: frame.slice(COMMAND_HEADER_BYTES, end), body: frame.subarray(end) };
}

/** A plain object of arrays of their own: it goes along with calls. */
function queryOf(prefix: Uint8Array, keyspace: number, { keyPrefixes }: Access): ScanQuery {
  return { keyspace, prefix, prefixes: keyPrefixes };
}

function beginReply(out: ByteWriter): number {
  out.u8(STATUS_SUCCESS);
  const start = out.length;
  out.u32(0);
  return start;
}

function endReply(out: ByteWriter, start: number): Uint8Array {
  out.view.setUint32(start, out.length - start - (REPLY_HEADER_BYTES - 1), true);
  return out.take();
}

function errorReply(message: string): Uint8Array {
  const out = new ByteWriter(message.length + 8);
  writeError(out, message);
  return out.take();
}
