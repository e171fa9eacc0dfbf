/**
 * The lanes from a door to the Shards of a namespace: pieces of frames become batches, answers their replies.
 *
 * A lane is made when the first piece is for its shard. A door over RPC or HTTP lives for one request, which most
 * often concerns one shard: it pays for that one alone.
 */
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
import type { ShardMap } from "./placement.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** Whole frames of one caller for one shard, or the end of a holder. */
export interface FramesPiece extends Piece, Section {
  /** Replies to the first `count` frames have arrived; the others were not applied. */
  answer(count: number, replies: Uint8Array): void;
}

/** The call to a shard. */
export type Call = (batch: Uint8Array) => Promise<Uint8Array>;

export type ShardLane = Lane<FramesPiece>;

/** All lanes of one door or Hub. */
export class ShardLanes {
  readonly map: ShardMap;
  /** Makes the call to a shard, for a stretch of work. */
  readonly #connect: (shard: number) => Call;
  /** By index of the shard. */
  readonly #lanes: (ShardLane | undefined)[] = [];

  /** @param connect makes a stub of a shard, whenever there is something to carry again: see `Lane` */
  constructor(map: ShardMap, connect: (shard: number) => Call) {
    this.map = map;
    this.#connect = connect;
  }

  /** The lane to a shard, by its index. */
  to(shard: number): ShardLane {
    return (this.#lanes[shard] ??= this.#open(shard));
  }

  /** Makes the lane to a shard: a batch for all pieces of a call, an answer for each. */
  #open(shard: number): ShardLane {
    const { placement } = this.map;
    return new Lane<FramesPiece>(() => {
      const call = this.#connect(shard);
      return async (pieces) => answerPieces(pieces, await call(writeBatch(placement, pieces)));
    });
  }
}

/**
 * A batch says which placement its frames were spread by. A shard whose data were written under another number of
 * shards, or another seed, refuses it as a whole, instead of looking for keys where they are not.
 */
function writeBatch(placement: Placement, pieces: readonly FramesPiece[]): Uint8Array {
  let bytes = 8;
  for (const piece of pieces) bytes += SECTION_HEADER_BYTES + piece.bytes;
  const out = new ByteWriter(bytes);
  writeBatchHeader(out, placement);
  for (const piece of pieces) writeSection(out, piece);
  return out.bytes;
}

/** Gives each piece its part of the answer. */
function answerPieces(pieces: readonly FramesPiece[], answer: Uint8Array): void {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  if (view.getUint8(0) !== BATCH_VERSION)
    throw new ThrottrError("answer_version", "the shard runs another release");
  let at = 1;
  for (const piece of pieces) {
    const count = view.getUint32(at, true);
    const from = at + PART_HEADER_BYTES;
    at = from + view.getUint32(at + 4, true);
    piece.answer(count, answer.subarray(from, at));
  }
}
