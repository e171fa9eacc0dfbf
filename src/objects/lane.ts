/**
 * A lane: the way from one door to one shard, with at most one call under way.
 *
 * What arrives while a call is under way goes into the next one, whoever it comes from: a thousand
 * quiet clients cost a few calls, and the order of arrival is the order of application.
 */
import {
  BATCH_VERSION,
  PART_HEADER_BYTES,
  SECTION_HEADER_BYTES,
  writeBatchHeader,
  writeSection,
  type Placement,
} from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";

/** What one call carries at most, unless a single piece is larger. */
const CALL_BYTES_MAX = 4 << 20;

/** Whole frames of one caller for one shard. */
export interface Piece {
  readonly protocolCode: number;
  readonly frames: Uint8Array;
  /** The shard answers frames until their replies have reached so many bytes. */
  readonly replyBytesMax: number;
  /** Replies to the first `count` frames have arrived; the others were not applied. */
  answered(count: number, replies: Uint8Array): void;
  /** The call failed: whether the frames were applied is unknown. */
  failed(error: unknown): void;
}

/** The call to a shard. */
export type Call = (batch: Uint8Array) => Promise<Uint8Array>;

export class Lane {
  readonly #placement: Placement;
  readonly #connect: () => Call;
  #call: Call | null = null;
  #queue: Piece[] = [];
  #isBusy = false;

  /** @param connect makes a stub; again after a call has failed, since that has failed the stub */
  constructor(placement: Placement, connect: () => Call) {
    this.#placement = placement;
    this.#connect = connect;
  }

  submit(piece: Piece): void {
    this.#queue.push(piece);
    if (!this.#isBusy) void this.#run();
  }

  /** Takes back what has not been sent yet. */
  withdraw(piece: Piece): void {
    this.#queue = this.#queue.filter((queued) => queued !== piece);
  }

  async #run(): Promise<void> {
    this.#isBusy = true;
    while (this.#queue.length > 0) {
      const pieces = this.#nextPieces();
      try {
        this.#call ??= this.#connect();
        deliver(pieces, await this.#call(this.#batchOf(pieces)));
      } catch (error) {
        this.#call = null;
        for (const piece of pieces) piece.failed(error);
      }
    }
    this.#isBusy = false;
  }

  #nextPieces(): Piece[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && bytes < CALL_BYTES_MAX) {
      bytes += this.#queue[count++]!.frames.length;
    }
    return this.#queue.splice(0, count);
  }

  #batchOf(pieces: readonly Piece[]): Uint8Array {
    let bytes = 8;
    for (const { frames } of pieces) bytes += SECTION_HEADER_BYTES + frames.length;
    const out = new ByteWriter(bytes);
    writeBatchHeader(out, this.#placement);
    for (const piece of pieces) {
      writeSection(out, piece.protocolCode, piece.replyBytesMax, piece.frames);
    }
    return out.bytes;
  }
}

function deliver(pieces: readonly Piece[], answer: Uint8Array): void {
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
