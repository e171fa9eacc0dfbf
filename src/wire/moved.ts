/**
 * Moved: the answer of a Shard to a batch for a range of hashes that it does not own. Nothing of the batch was applied.
 *
 *     moved = 255 u8, reserved u8, shards u16, from u32, to u32, begin u32*
 *
 * Little-endian. The begins are those of other ranges that the shard knows of, ascending: of what it has given away by
 * splitting, and of what its children have, as far as they have said so. The first shard of a namespace adds the ranges
 * that the namespace began with.
 */
import { ByteWriter } from "./bytes.ts";
import type { Range } from "./range.ts";

/** No version of an answer. */
const MOVED = 255;
const HEADER_BYTES = 12;

/** What a shard knows of the ranges of its namespace. */
export interface ShardRanges {
  /** Ranges that the namespace began with; 0 where it has not begun. */
  readonly shards: number;
  /** What the shard owns. */
  readonly range: Range;
  /** Where other ranges begin, ascending. */
  readonly begins: readonly number[];
}

/** Where all ranges begin that a shard knows of. */
export function beginsOf({ range, begins }: ShardRanges): number[] {
  return [range.from, range.to, ...begins];
}

export function writeMoved({ shards, range, begins }: ShardRanges): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(HEADER_BYTES + 4 * begins.length);
  out.u8(MOVED);
  out.u8(0);
  out.u16(shards);
  out.u32(range.from);
  out.u32(range.to);
  for (const begin of begins) out.u32(begin);
  return out.take();
}

/** What a shard says of ranges in its answer to a batch; null where it has applied the batch. */
export function readMoved(answer: DataView): ShardRanges | null {
  if (answer.getUint8(0) !== MOVED) return null;
  const begins: number[] = [];
  for (let at = HEADER_BYTES; at < answer.byteLength; at += 4)
    begins.push(answer.getUint32(at, true));
  return {
    shards: answer.getUint16(2, true),
    range: { from: answer.getUint32(4, true), to: answer.getUint32(8, true) },
    begins,
  };
}
