/** SCAN and REMOVE: commands on all records of a prefix, over all shards. */
import type { ScanQuery } from "../engine/scan.ts";
import type { Placement } from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";
import {
  COMMAND_HEADER_BYTES,
  REPLY_HEADER_BYTES,
  RemoveOption,
  SCAN_RECORDS_MAX,
  ScanOption,
  writeError,
} from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { PageReader } from "../wire/page.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import type { Access } from "./access.ts";
import { Merge } from "./merge.ts";
import type { Shard, ShardRemoval } from "./shard.ts";

/** Limit and options. */
const SCAN_FIELDS_BYTES = 3;
const KEY_BYTES_MAX = 255;

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
    return await answerOf(
      async (out) => await this.#scan(scanOf(frame, KEY_BYTES_MAX), access, out),
    );
  }

  /** Answers a REMOVE: all shards at once, each a step at a time, so that others come between. */
  async remove(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    return await answerOf(async (out) => await this.#remove(removalOf(frame), access, out));
  }

  async #scan({ prefix, limit, after }: ScanParts, access: Access, out: ByteWriter): Promise<void> {
    const query = queryOf(prefix, Keyspace.throttr, access);
    const merge = new Merge(
      this.#shards().map((shard) => {
        return async (behind) => await shard.scan(this.#placement, query, behind ?? after, limit);
      }),
    );
    await writeMerged(merge, out, limit, Infinity, ({ bytes, rowAt, keyAt, keyLength }) => {
      out.u8(keyLength);
      out.copy(bytes, rowAt, keyAt + keyLength);
    });
  }

  /** Answers are forgotten with everything, and are no records that count. */
  async #remove(
    { prefix, isEverything }: RemovalParts,
    access: Access,
    out: ByteWriter,
  ): Promise<void> {
    const keyspaces = isEverything
      ? [Keyspace.throttr, Keyspace.throttrPairs, Keyspace.answers]
      : [Keyspace.throttr];
    const counts = await Promise.all(
      this.#shards().flatMap((shard) =>
        keyspaces.map(async (keyspace) => {
          const count = await this.#removeFrom(shard, queryOf(prefix, keyspace, access));
          return keyspace === Keyspace.answers ? 0 : count;
        }),
      ),
    );
    out.f64(counts.reduce((sum, count) => sum + count, 0));
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

/** Which rows are asked for. */
export interface ScanParts {
  readonly prefix: Uint8Array;
  readonly limit: number;
  /** Null for the first page. */
  readonly after: Uint8Array | null;
}

interface RemovalParts {
  readonly prefix: Uint8Array;
  readonly isEverything: boolean;
}

/** A command that is refused. The message begins with a stable code. */
export class Refusal extends Error {}

/**
 * @param afterBytesMax of the key to go on behind
 * @throws Refusal
 */
export function scanOf(frame: Uint8Array, afterBytesMax: number): ScanParts {
  const { prefix, body } = partsOf(frame);
  if (body.length < SCAN_FIELDS_BYTES) {
    throw new Refusal(
      `body_invalid: at least ${SCAN_FIELDS_BYTES} bytes are expected, got ${body.length}`,
    );
  }
  const limit = body[0]! | (body[1]! << 8);
  if (limit < 1 || limit > SCAN_RECORDS_MAX) {
    throw new Refusal(`limit_invalid: 1 to ${SCAN_RECORDS_MAX} are possible, got ${limit}`);
  }
  const isBehind = isSet(body[2]!, ScanOption.isBehind);
  const key = body.slice(SCAN_FIELDS_BYTES);
  const keyBytesMax = isBehind ? afterBytesMax : 0;
  if (key.length > keyBytesMax) {
    throw new Refusal(
      `after_invalid: a key of at most ${keyBytesMax} bytes is expected, got ${key.length}`,
    );
  }
  return { prefix, limit, after: isBehind ? key : null };
}

/** @throws Refusal */
function removalOf(frame: Uint8Array): RemovalParts {
  const { prefix, body } = partsOf(frame);
  if (body.length !== 1) {
    throw new Refusal(`body_invalid: 1 byte is expected, got ${body.length}`);
  }
  return { prefix, isEverything: isSet(body[0]!, RemoveOption.everything) };
}

export function partsOf(frame: Uint8Array): { prefix: Uint8Array; body: Uint8Array } {
  const flags = frame[1]!;
  if (flags !== 0) throw new Refusal(`flags_invalid: 0 is expected, got ${flags}`);
  const end = COMMAND_HEADER_BYTES + frame[2]!;
  return { prefix: frame.slice(COMMAND_HEADER_BYTES, end), body: frame.subarray(end) };
}

/** Whether the one option that there is is set. */
function isSet(options: number, option: number): boolean {
  if ((options & ~option) === 0) return options !== 0;
  throw new Refusal(`options_invalid: 0 and ${option} are possible, got ${options}`);
}

/** A plain object of arrays of their own: it goes along with calls. */
export function queryOf(prefix: Uint8Array, keyspace: number, { keyPrefixes }: Access): ScanQuery {
  return { keyspace, prefix, prefixes: keyPrefixes };
}

/** @param write writes the body of a success, or throws a Refusal */
export async function answerOf(write: (out: ByteWriter) => Promise<void>): Promise<Uint8Array> {
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
 * Writes a page of what a merge has: whether it is the last one, then rows.
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
  await merge.open();
  const isLastAt = out.reserve(1);
  const endsAt = out.length + bytesMax;
  let rows = 0;
  let isLast = true;
  await merge.forEach(([entry]) => {
    if (rows === rowsMax || out.length >= endsAt) {
      isLast = false;
      return false;
    }
    rows++;
    writeRow(entry!);
    return null;
  });
  out.bytes[isLastAt] = isLast ? 1 : 0;
}
