/** The lane from a door to a Shard: pieces of frames become batches, answers become their replies. */
import {
  BATCH_VERSION,
  PART_HEADER_BYTES,
  SECTION_HEADER_BYTES,
  writeBatchHeader,
  writeSection,
  type Placement,
  type Section,
} from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { Lane, type Piece } from "./lane.ts";

/** Whole frames of one caller for one shard, or the end of a holder. */
export interface FramesPiece extends Piece, Section {
  /** Replies to the first `count` frames have arrived; the others were not applied. */
  answered(count: number, replies: Uint8Array): void;
}

/** The call to a shard. */
export type Call = (batch: Uint8Array) => Promise<Uint8Array>;

export type ShardLane = Lane<FramesPiece>;

export function openShardLane(placement: Placement, connect: () => Call): ShardLane {
  return new Lane<FramesPiece>(() => {
    const call = connect();
    return async (pieces) => deliver(pieces, await call(batchOf(placement, pieces)));
  });
}

function batchOf(placement: Placement, pieces: readonly FramesPiece[]): Uint8Array {
  let bytes = 8;
  for (const piece of pieces) bytes += SECTION_HEADER_BYTES + piece.bytes;
  const out = new ByteWriter(bytes);
  writeBatchHeader(out, placement);
  for (const piece of pieces) writeSection(out, piece);
  return out.bytes;
}

function deliver(pieces: readonly FramesPiece[], answer: Uint8Array): void {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  if (view.getUint8(0) !== BATCH_VERSION) throw new RangeError("answer_version: not known here");
  let at = 1;
  for (const piece of pieces) {
    const count = view.getUint32(at, true);
    const from = at + PART_HEADER_BYTES;
    at = from + view.getUint32(at + 4, true);
    piece.answered(count, answer.subarray(from, at));
  }
}
