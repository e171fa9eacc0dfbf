/**
 * An exchange: a run of requests on keys goes to their shards, and the replies come back in the order of the requests.
 *
 * Frames are grouped by shard, one piece each, and replies are merged as they come in. It knows no platform: calls are
 * the business of lanes, and rights were turned into a `Refuser` before. Where a shard has split, the frames that it has not
 * answered are grouped again. A reader must know two limits first:
 *
 * - A shard stops a piece when its replies have reached `replyBytesMax`, for a few bytes of requests can ask for
 *   gigabytes. What it has not answered it has not applied, so the rest is sent again once the caller has room.
 * - Of a caller that has gone, only requests that write are still sent: they were promised, and reads cost for nothing.
 */
import { failureOfPart, refusalOf } from "../base/failure.ts";
import { ByteWriter, kept } from "../wire/bytes.ts";
import { COMMANDS_SINCE_0_5, writeError } from "../wire/edge/command.ts";
import type { Framing } from "../wire/framing.ts";
import { framingOf } from "../wire/protocols.ts";
import { Groups, Part } from "./exchange-part.ts";
import type { RangeMap } from "./range-map.ts";
import type { Refuser } from "./refuser.ts";
import type { FramesPiece, ShardLanes } from "./shard-lane.ts";
import type { AnyFrames, Sink } from "./sink.ts";
import { turn } from "../base/turn.ts";
import { EXCHANGE_ANSWER_BYTES_MIN, EXCHANGE_FULL_ANSWERS } from "../engine/sizes.ts";

/** In place of a part's index: the frame is refused here, as the caller lacks the right to it. */
const REFUSED = 65_535;
/** The same, as the shard is of a release that does not know the type of the frame. */
const UNKNOWN = 65_534;
/** Each range of a map may be divided again, and again. */
const PARTS_MAX = UNKNOWN;
/** Bytes of merged replies that the sink gets at once: one buffer for all that wait would be made anew for each answer. */
const MERGED_BYTES = 256 << 10;
/** How long the refusal of a shard waits for others that have been asked: one may hang. */
const OTHERS_MS = 2000;

/**
 * One run on keys, from its frames to its last reply. `Exchange` lives as long as its run; a connection has one at a
 * time.
 */
export class Exchange {
  /** The run as it came, or what is left of it: parts are cut out of it, refusals are written from it. */
  #frames: AnyFrames;
  readonly #lanes: ShardLanes;
  /** Gets the replies, in the order of the frames. */
  readonly #sink: Sink;
  /** Bytes of replies after which a shard stops at the latest. Many shards have less each: see `#shareOfReplies`. */
  readonly #replyBytesMax: number;
  /** Knows where frames and replies end, and where a key lies on the circle: an exchange knows no protocol. */
  readonly #framing: Framing;
  /** One for each shard that the run concerns, in the order of its first frame there; behind them those of splits. */
  #parts: Part[] = [];
  /**
   * Per frame: its first byte, which says how long its reply is, and index into `#parts`, `REFUSED` or `UNKNOWN`. Three bytes a
   * frame, where objects would take a hundred: runs have up to some hundred thousand frames. Empty when the run goes
   * to one shard as a whole.
   */
  #types = new Uint8Array(0);
  #owners = new Uint16Array(0);
  /** Frames whose replies, or refusals, the sink has got. */
  #answered = 0;
  /** Where the frame `#seekFrame` begins: see `#frameAt`. */
  #seekFrame = 0;
  #seekAt = 0;
  /** A shard has applied its part, or the beginning of it. */
  #isBegun = false;
  /** A shard has refused its part while calls to others are under way. What the caller gets depends on how these end. */
  #refusal: Refused | null = null;
  /** The sink has got its last reply, or an error: answers that still come are dropped. */
  #isOver = false;
  /** Null when every frame is allowed. */
  #refuser: Refuser | null = null;

  /** @param lanes the ways to the shards, and the ranges that they own */
  constructor(lanes: ShardLanes, frames: AnyFrames, sink: Sink, replyBytesMax: number) {
    this.#lanes = lanes;
    this.#frames = frames;
    this.#sink = sink;
    this.#replyBytesMax = replyBytesMax;
    this.#framing = framingOf(frames.protocol);
  }

  /** @param refuser answers frames that are not allowed; null when all are */
  start(refuser: Refuser | null): void {
    this.#refuser = refuser;
    this.#frames.holder?.beginExchange();
    const { view } = this.#lanes;
    // With nothing to split or refuse, the frames go as they are and their replies pass through.
    const isWhole = this.#frames.count === 1 || view.count === 1;
    if (isWhole && refuser === null) this.#takeWhole(view);
    else this.#group(view);
    this.#submitAll(this.#parts);
  }

  /** All frames are for the shard of the first one: they are not copied. */
  #takeWhole(view: RangeMap): void {
    const { bytes, count } = this.#frames;
    const index = this.#indexOf(view, bytes, 0);
    this.#parts.push(new Part(view, index, bytes, count));
  }

  /** Which range of a view has the key of the frame at `at`; nothing is hashed where there is one range. */
  #indexOf(view: RangeMap, bytes: Uint8Array, at: number): number {
    return view.count === 1 ? 0 : view.indexOf(this.#framing.hashOf(this.#lanes.map, bytes, at));
  }

  /** Copies the frames of each shard into a part of its own, in their order: a shard applies what it gets in order. */
  #group(view: RangeMap): void {
    const { bytes, count } = this.#frames;
    const refuser = this.#refuser;
    this.#types = new Uint8Array(count);
    this.#owners = new Uint16Array(count);
    const groups = new Groups(view, this.#parts);
    for (let frame = 0, at = 0; frame < count; frame++) {
      const end = this.#framing.frameEnd(bytes, at);
      this.#types[frame] = bytes[at]!;
      const isRefused = refuser !== null && refuser.isRefused(bytes, at);
      this.#owners[frame] = isRefused
        ? REFUSED
        : groups.add(this.#indexOf(view, bytes, at), bytes, at, end);
      at = end;
    }
    groups.end();
  }

  /**
   * Groups the frames of a part again that are not answered: their shard has split. What it has answered stays with the
   * part until it is merged.
   *
   * @param isOld the shard is of a release before 0.5.0, and frames of the edge dialect that it does not know are refused here
   */
  #divide(part: Part, isOld = false): void {
    const { view } = this.#lanes;
    const { frames, count, moves } = part;
    // Replies that have no reader are not merged, so it does not matter which part a frame is of.
    const at = this.#sink.hasReader ? this.#framesOf(part) : null;
    const groups = new Groups(view, this.#parts, moves);
    for (let i = 0, from = 0; i < count; i++) {
      const end = this.#framing.frameEnd(frames, from);
      const isUnknown = isOld && frames[from]! >= COMMANDS_SINCE_0_5;
      const owner = isUnknown
        ? UNKNOWN
        : groups.add(this.#indexOf(view, frames, from), frames, from, end);
      if (at !== null) this.#owners[at[i]!] = owner;
      from = end;
    }
    part.empty();
    const parts = groups.end();
    if (this.#parts.length > PARTS_MAX)
      this.#fail(new Error("exchange: its shards split too often"));
    else this.#submitAll(parts);
  }

  /** Where in the run the frames of a part are that are not answered. */
  #framesOf(part: Part): Uint32Array {
    if (this.#owners.length === 0) this.#beginMerging(part);
    const index = this.#parts.indexOf(part);
    const frames = new Uint32Array(part.count);
    // They come behind all that were answered, so they are found from the end.
    let left = part.count;
    for (let frame = this.#frames.count - 1; left > 0; frame--) {
      if (this.#owners[frame] === index) frames[--left] = frame;
    }
    return frames;
  }

  /** A run that went to one shard as a whole goes on as one of several parts. All its replies so far have been passed on. */
  #beginMerging(part: Part): void {
    const { frames: bytes, count } = part;
    this.#frames = { ...this.#frames, bytes, count };
    this.#types = new Uint8Array(count);
    this.#owners = new Uint16Array(count);
    for (let frame = 0, at = 0; frame < count; frame++) {
      this.#types[frame] = bytes[at]!;
      at = this.#framing.frameEnd(bytes, at);
    }
  }

  #submitAll(parts: readonly Part[]): void {
    const replyBytesMax = this.#shareOfReplies();
    for (const part of parts) this.#submit(part, replyBytesMax);
    // No call will come back where nothing was sent: every frame was refused, or the caller has gone.
    if (this.#parts.every(({ piece }) => piece === null)) this.#merge();
  }

  /**
   * Bytes of replies after which a shard stops, so that all parts together hold as many as `EXCHANGE_FULL_ANSWERS` full ones: an
   * isolate has 128 MB for all its callers. Parts end and shares grow, so what waits from before is within the share, too.
   */
  #shareOfReplies(): number {
    const open = this.#parts.filter((part) => part.isOpen).length;
    const share = Math.floor((this.#replyBytesMax * EXCHANGE_FULL_ANSWERS) / Math.max(1, open));
    return Math.min(this.#replyBytesMax, Math.max(EXCHANGE_ANSWER_BYTES_MIN, share));
  }

  /** Queues what is left of a part. Called from answers: the reader may have gone, and the shard split, since the last call. */
  #submit(part: Part, replyBytesMax: number): void {
    if (!this.#sink.hasReader) part.keepWrites(this.#framing);
    if (part.frames.length === 0) return;
    const { view } = this.#lanes;
    if (!part.follow(view)) {
      this.#divide(part);
      return;
    }
    const { protocol, holder } = this.#frames;
    holder?.note(view.at(part.index));
    const piece: FramesPiece = {
      bytes: part.frames.length + (holder === undefined ? 0 : holder.bytes.length),
      protocolCode: protocol.code,
      frames: part.frames,
      replyBytesMax,
      ...(holder === undefined ? {} : { holder: holder.bytes }),
      moves: part.moves,
      answer: (count, replies) => {
        part.piece = null;
        if (this.#isOver) return;
        if (count > 0) this.#isBegun = true;
        if (this.#refusal !== null) {
          this.#failPart(this.#refusal.error);
          return;
        }
        part.moves = 0;
        part.skip(this.#framing, count);
        // What waits for another shard must not keep the replies to other callers, which came in the same answer.
        part.replies = this.#owners.length === 0 ? replies : kept(replies);
        part.at = 0;
        // The answer was full of replies to others: they would come first again if this part waited for a turn, as they do.
        if (count === 0) this.#submit(part, replyBytesMax);
        this.#merge();
      },
      divide: () => this.#takeBack(part, piece, false),
      refuseUnknownTypes: () => {
        const isUnknown = this.#hasSince05(part.frames);
        if (isUnknown) void this.#takeBackLater(part, piece);
        return isUnknown;
      },
      fail: (error) => {
        // Taken back before the call: its frames are in other pieces.
        if (part.piece !== piece) return;
        part.piece = null;
        this.#failPart(error);
      },
    };
    part.piece = piece;
    part.lane = this.#lanes.submit(view.froms[part.index]!, piece);
  }

  /** A piece was not applied: its frames are grouped again. */
  #takeBack(part: Part, { moves }: FramesPiece, isOld: boolean): void {
    part.piece = null;
    // Of an exchange that has failed nothing is waited for.
    if (this.#isOver) return;
    if (this.#refusal !== null) {
      this.#failPart(this.#refusal.error);
      return;
    }
    part.moves = moves;
    this.#divide(part, isOld);
  }

  /** Not within the `submit` of a free lane: the other parts would not have been submitted yet, and this one twice. */
  async #takeBackLater(part: Part, piece: FramesPiece): Promise<void> {
    await Promise.resolve();
    this.#takeBack(part, piece, true);
  }

  /** Whether one of the frames is of a type that shards before 0.5.0 do not know. */
  #hasSince05(frames: Uint8Array): boolean {
    if (this.#frames.protocol.dialect !== "edge") return false;
    for (let at = 0; at < frames.length; at = this.#framing.frameEnd(frames, at)) {
      if (frames[at]! >= COMMANDS_SINCE_0_5) return true;
    }
    return false;
  }

  /** Gives the sink what is there in order, then goes on with the parts that are exhausted. */
  #merge(): void {
    if (this.#isOver) return;
    if (!this.#sink.hasReader) this.#drop();
    else if (this.#owners.length === 0) this.#pass(this.#parts[0]!);
    else this.#mergeParts();
    if (this.#isOver) return;
    const idle = this.#parts.filter((part) => part.needsCall);
    if (idle.length > 0) void this.#callAgain(idle);
  }

  /** Sends what is left of parts once there is room, and others have had their turn. */
  async #callAgain(parts: readonly Part[]): Promise<void> {
    for (const part of parts) part.isWaiting = true;
    try {
      const room = this.#sink.room();
      if (room !== null) await room;
      // A caller that always has room would else keep every other one from being served.
      await turn();
    } catch (error) {
      this.#fail(error);
      return;
    }
    const replyBytesMax = this.#shareOfReplies();
    for (const part of parts) {
      part.isWaiting = false;
      if (!this.#isOver) this.#submit(part, replyBytesMax);
    }
    // Where nothing is left to send for a caller that has gone, no answer will come, either.
    if (!this.#sink.hasReader) this.#merge();
  }

  /** The caller has gone: replies end here, and the exchange with the last call. */
  #drop(): void {
    for (const part of this.#parts) part.release();
    const isEnd = this.#parts.every(({ frames, piece }) => frames.length === 0 && piece === null);
    if (isEnd) this.#emit(NOTHING, true);
  }

  /** One shard has it all: its replies are in order already. */
  #pass(part: Part): void {
    const { replies } = part;
    part.release();
    if (replies.length > 0) this.#emit(replies, part.frames.length === 0);
  }

  /** Merges up to the first frame whose reply has not come yet. */
  #mergeParts(): void {
    const { count } = this.#frames;
    const next = this.#parts[this.#owners[this.#answered]!];
    // Of many shards most answer before their replies are next: that must cost nothing.
    if (next !== undefined && next.at === next.replies.length) return;
    const unmerged = this.#parts.reduce((sum, part) => sum + part.replies.length - part.at, 256);
    const capacity = Math.min(MERGED_BYTES, unmerged);
    let out = new ByteWriter(capacity);
    while (this.#answered < count) {
      const owner = this.#owners[this.#answered]!;
      if (owner === REFUSED) {
        this.#refuse(out);
      } else if (owner === UNKNOWN) {
        writeError(out, UNKNOWN_TYPE);
      } else {
        const part = this.#parts[owner]!;
        const { replies, at } = part;
        if (at === replies.length) break;
        const type = this.#types[this.#answered]!;
        const length = this.#framing.replyLength(type, replies, at, replies.length);
        out.copy(replies, at, at + length);
        part.at += length;
      }
      this.#answered++;
      if (out.length >= MERGED_BYTES && this.#answered < count) {
        this.#emit(out.bytes.subarray(0, out.length), false);
        out = new ByteWriter(capacity);
      }
    }
    const isLast = this.#answered === count;
    for (const part of this.#parts) part.keepRest();
    if (out.length > 0 || isLast) this.#emit(kept(out.bytes.subarray(0, out.length)), isLast);
  }

  /** Writes the refusal of the next frame, which was not sent to a shard. */
  #refuse(out: ByteWriter): void {
    this.#refuser!.write(out, this.#frames.bytes, this.#frameAt(this.#answered));
  }

  /** Where a frame begins. Refusals come in ascending order, so frames are walked over once, and only where needed. */
  #frameAt(frame: number): number {
    const { bytes } = this.#frames;
    for (; this.#seekFrame < frame; this.#seekFrame++) {
      this.#seekAt = this.#framing.frameEnd(bytes, this.#seekAt);
    }
    return this.#seekAt;
  }

  /** `#isOver` is set first: the sink may begin the next run within this call. */
  #emit(replies: Uint8Array, isLast: boolean): void {
    if (isLast) this.#end();
    this.#sink.reply(replies, isLast);
  }

  /**
   * A call has failed. A shard that has refused its part has applied nothing of it, but others may have applied theirs: of those that
   * have been asked, each says so. The caller gets the refusal where none has applied anything.
   */
  #failPart(error: unknown): void {
    if (this.#isOver) return;
    const isRefused = refusalOf(error) !== null;
    const isAlone = this.#withdraw();
    if (!isRefused || this.#isBegun) {
      this.#fail(failureOfPart(error));
      return;
    }
    if (isAlone) this.#fail(this.#refusal?.error ?? error);
    else this.#refusal ??= this.#waitForOthers(error);
  }

  #waitForOthers(error: unknown): Refused {
    const timer = setTimeout(() => {
      this.#fail(failureOfPart(error));
    }, OTHERS_MS);
    return { error, timer };
  }

  /** The first failure ends the exchange: what of it was applied can't be told. */
  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#withdraw();
    this.#end();
    this.#sink.fail(error);
  }

  /** Takes back what is still queued; returns false where calls are under way. */
  #withdraw(): boolean {
    for (const part of this.#parts) {
      if (part.piece !== null && part.lane?.withdraw(part.piece) === true) part.piece = null;
    }
    return this.#parts.every(({ piece }) => piece === null);
  }

  #end(): void {
    this.#isOver = true;
    if (this.#refusal !== null) clearTimeout(this.#refusal.timer);
    this.#frames.holder?.endExchange();
  }
}

/** The first refusal of a part, and what ends the wait for the others. */
interface Refused {
  readonly error: unknown;
  readonly timer: ReturnType<typeof setTimeout>;
}

const NOTHING = new Uint8Array(0);

const UNKNOWN_TYPE =
  "request_type_unknown: a shard still runs a release before 0.5.0, which does not know this request; nothing was applied";
