/**
 * The lanes from a door to the Shards of a namespace: pieces of frames become batches, answers their replies.
 *
 * A lane is made when the first piece is for its shard. A door over RPC or HTTP lives for one request, which most
 * often concerns one shard: it pays for that one alone.
 *
 * When a shard has split, its lane learns it from the answer to a batch, of which nothing was applied. The frames of that
 * batch, and of all pieces that wait behind it, then go to the shards that have them now: in their order and in one turn, so
 * that no newer request comes before an older one. For the same reason the lanes have a view of the ranges of their own. What
 * other doors of the isolate learn must not lead past a lane that still has older requests for the same keys.
 */
import { presentMs } from "../base/clock.ts";
import { refusalOf } from "../base/failure.ts";
import { logError } from "../base/log.ts";
import { turn } from "../base/turn.ts";
import { LANES_KEPT_MAX, MOVES_MAX, OLD_BATCHES_MS } from "../engine/sizes.ts";
import {
  batchHeaderBytes,
  BatchVersion,
  PART_HEADER_BYTES,
  SECTION_HEADER_BYTES,
  writeBatchHeader,
  writeSection,
  type Placement,
  type Section,
} from "../wire/batch.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { readMoved } from "../wire/moved.ts";
import { endOf, initialIndexOf, type Range } from "../wire/range.ts";
import { Lane, type Piece } from "./lane.ts";
import type { RangeMap } from "./range-map.ts";
import type { ShardMap } from "./shard-map.ts";

/** Whole frames of one caller for one shard, or the end of a holder. */
export interface FramesPiece extends Piece, Section {
  /** How often a shard has said that it does not own the keys of these frames. */
  moves: number;
  /** Replies to the first `count` frames have arrived; the others were not applied. */
  answer(count: number, replies: Uint8Array): void;
  /** The shard does not own the keys, and has applied nothing: submits the frames again, by the view as it is now. */
  divide(): void;
  /**
   * The shard is of a release before 0.5.0. If it does not know the type of a frame, the door answers that frame with a
   * refusal, and submits the others again.
   *
   * @returns false, and nothing is done, where the shard knows all types
   */
  refuseUnknownTypes(): boolean;
}

/** The call to a shard. */
export type Call = (batch: Uint8Array) => Promise<Uint8Array>;

export type ShardLane = Lane<FramesPiece>;

/** All lanes of one door or Hub. */
export class ShardLanes {
  readonly map: ShardMap;
  /** Makes the call to a shard, by the hash at which its range begins, for a stretch of work. */
  readonly #connect: (from: number) => Call;
  /** By the hash at which the range begins. */
  readonly #lanes = new Map<number, ShardLane>();
  /** Lanes that have a call under way. */
  #busy = 0;
  #view: RangeMap;
  /** Shards of the last release, with the time until which they are not asked whether they still are. */
  readonly #old = new Map<number, number>();

  /** @param connect makes a stub of a shard, whenever there is something to carry again: see `Lane` */
  constructor(map: ShardMap, connect: (from: number) => Call) {
    this.map = map;
    this.#connect = connect;
    this.#view = map.ranges;
  }

  /** The ranges by which frames are divided now. */
  get view(): RangeMap {
    if (this.#busy === 0) this.#view = this.map.ranges;
    return this.#view;
  }

  /** Sends a piece for keys of a range of the view, and returns the lane that it waits in. */
  submit(from: number, piece: FramesPiece): ShardLane {
    const lane = this.#lanes.get(from) ?? this.#open(from);
    if (!lane.isBusy) this.#busy++;
    lane.submit(piece);
    return lane;
  }

  /** Makes the lane to a shard: a batch for all pieces of a call, an answer for each. */
  #open(from: number): ShardLane {
    const lane: ShardLane = new Lane<FramesPiece>(
      () => {
        const call = this.#connect(from);
        return (pieces) => this.#carry(from, lane, call, pieces);
      },
      () => {
        this.#busy--;
        if (this.#lanes.size > LANES_KEPT_MAX) this.#lanes.delete(from);
      },
    );
    this.#lanes.set(from, lane);
    return lane;
  }

  async #carry(
    from: number,
    lane: ShardLane,
    call: Call,
    pieces: readonly FramesPiece[],
  ): Promise<void> {
    // Answers of an object in the same process are always ready: shards that disagree would let nothing else be served.
    if (pieces.some(({ moves }) => moves > 1)) await turn();
    const range = this.#view.rangeOf(from);
    const placement = this.#placementOf(range);
    const isOld = placement.range === undefined;
    const sent = isOld ? pieces.filter((piece) => !piece.refuseUnknownTypes()) : pieces;
    if (sent.length === 0) return;
    try {
      const answer = await call(writeBatch(placement, sent));
      const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
      const moved = readMoved(view);
      if (moved === null) {
        answerPieces(sent, answer, view);
        return;
      }
      this.map.learn(moved);
    } catch (error) {
      if (!this.#isOfOtherRelease(from, placement, error)) throw error;
    }
    this.#refine(range);
    divideAll([...sent, ...lane.takeQueue()], this.map);
  }

  /** What a batch says of where it belongs. Releases before 0.5.0 know no ranges, and never split one. */
  #placementOf(range: Range): Placement {
    const untilMs = this.#old.get(range.from);
    if (untilMs === undefined) return this.map.placementOf(range);
    if (presentMs() < untilMs && this.#isInitial(range)) return this.map.oldPlacement;
    this.#old.delete(range.from);
    return this.map.placementOf(range);
  }

  #isInitial({ from, to }: Range): boolean {
    const { shards } = this.map;
    if (shards === 0) return false;
    const index = initialIndexOf(from, shards);
    return index >= 0 && (to === 0 ? shards : initialIndexOf(to, shards)) === index + 1;
  }

  /** Whether a shard has refused a batch as it is of an earlier release, or no longer of one; notes which. */
  #isOfOtherRelease(from: number, { range }: Placement, error: unknown): boolean {
    const code = refusalOf(error)?.code;
    if (code === "shards_mismatch") return range === undefined && this.map.assumeDefaultBefore();
    if (code !== "batch_version") return false;
    if (range === undefined) {
      this.#old.delete(from);
    } else {
      this.#old.set(from, presentMs() + OLD_BATCHES_MS);
      this.map.assumeInitial();
    }
    return true;
  }

  /** Takes over what is now known of a range. Of others only where no lane has requests for their keys: see `view`. */
  #refine(range: Range): void {
    const known = this.map.ranges;
    const end = endOf(range);
    const finer = this.#view.with(known.froms.filter((from) => from > range.from && from < end));
    // The map lacks ranges of the view only where it was begun anew, as all that was known was wrong.
    this.#view = known.with(finer.froms) === known ? finer : known;
  }
}

/** Pieces move in their order: so do the requests of each caller on a key. */
function divideAll(pieces: readonly FramesPiece[], map: ShardMap): void {
  for (const piece of pieces) {
    if (++piece.moves <= MOVES_MAX) {
      piece.divide();
      continue;
    }
    logError("shards_unsettled", { namespace: map.namespace });
    map.forget();
    piece.fail(
      new ThrottrError(
        "shards_unsettled",
        "the shards of this namespace do not agree who has these keys; nothing was applied: try again",
      ),
    );
  }
}

function writeBatch(placement: Placement, pieces: readonly FramesPiece[]): Uint8Array {
  let bytes = batchHeaderBytes(placement);
  for (const piece of pieces) bytes += SECTION_HEADER_BYTES + piece.bytes;
  const out = new ByteWriter(bytes);
  writeBatchHeader(out, placement);
  for (const piece of pieces) writeSection(out, piece);
  return out.bytes;
}

/** Gives each piece its part of the answer. */
function answerPieces(pieces: readonly FramesPiece[], answer: Uint8Array, view: DataView): void {
  if (view.getUint8(0) > BatchVersion.withRange)
    throw new ThrottrError("answer_version", "the shard runs another release");
  let at = 1;
  for (const piece of pieces) {
    const count = view.getUint32(at, true);
    const from = at + PART_HEADER_BYTES;
    at = from + view.getUint32(at + 4, true);
    piece.answer(count, answer.subarray(from, at));
  }
}
