/**
 * An exchange: a run of requests on keys goes to their shards, and the replies come back in the order of the requests.
 *
 * Frames are grouped by shard, one piece each, and replies are merged as they come in. It knows no platform: calls are
 * the business of lanes, and rights were turned into a `Refuser` before. A reader must know two limits first:
 *
 * - A shard stops a piece when its replies have reached `replyBytesMax`, for a few bytes of requests can ask for
 *   gigabytes. What it has not answered it has not applied, so the rest is sent again once the caller has room.
 * - Of a caller that has gone, only requests that write are still sent: they were promised, and reads cost for nothing.
 */
import { ByteWriter } from "../wire/bytes.ts";
import type { Framing } from "../wire/framing.ts";
import { framingOf } from "../wire/protocols.ts";
import type { Refuser } from "./refuser.ts";
import type { FramesPiece, ShardLane, ShardLanes } from "./shard-lane.ts";
import type { AnyFrames, Sink } from "./sink.ts";
import { turn } from "../base/turn.ts";

/** In place of a part's index: the frame is refused here. A run has at most 128 parts, as there are 128 shards. */
const REFUSED = 255;

/**
 * One run on keys, from its frames to its last reply. `Exchange` lives as long as its run; a connection has one at a
 * time.
 */
export class Exchange {
  /** The run as it came: parts are cut out of it, refusals are written from it. */
  readonly #frames: AnyFrames;
  /** Gets the replies, in the order of the frames. */
  readonly #sink: Sink;
  /**
   * Bytes of replies after which a shard stops: what all parts together may have in memory is this times the shards.
   */
  readonly #replyBytesMax: number;
  /** Knows where frames end, which shard has a key, and how long a reply is: an exchange knows no protocol. */
  readonly #framing: Framing;
  /** One for each shard that the run concerns, in the order of its first frame there. */
  readonly #parts: Part[] = [];
  /**
   * Per frame: its first byte, which says how long its reply is, and index into `#parts` or `REFUSED`. Two bytes a
   * frame, where objects would take a hundred: runs have up to some hundred thousand frames. Empty when the run goes
   * to one shard as a whole.
   */
  #types = new Uint8Array(0);
  #owners = new Uint8Array(0);
  /** Frames whose replies, or refusals, the sink has got. */
  #answered = 0;
  /** Where the frame `#seekFrame` begins: see `#frameAt`. */
  #seekFrame = 0;
  #seekAt = 0;
  /** The sink has got its last reply, or an error: answers that still come are dropped. */
  #isOver = false;
  /** Null when every frame is allowed. */
  #refuser: Refuser | null = null;

  constructor(frames: AnyFrames, sink: Sink, replyBytesMax: number) {
    this.#frames = frames;
    this.#sink = sink;
    this.#replyBytesMax = replyBytesMax;
    this.#framing = framingOf(frames.protocol);
  }

  /** @param refuser answers frames that are not allowed; null when all are */
  start(lanes: ShardLanes, refuser: Refuser | null): void {
    this.#refuser = refuser;
    // With nothing to split or refuse, the frames go as they are and their replies pass through.
    const isWhole = this.#frames.count === 1 || lanes.map.shards === 1;
    if (isWhole && refuser === null) this.#sendWhole(lanes);
    else this.#split(lanes);
    for (const part of this.#parts) this.#submit(part);
    // No call will come back where nothing was sent: every frame was refused, or the caller has gone.
    if (this.#parts.every(({ piece }) => piece === null)) this.#merge();
  }

  /** All frames are for the shard of the first one: they are not copied. */
  #sendWhole(lanes: ShardLanes): void {
    const { bytes, count, holder } = this.#frames;
    const shard = this.#framing.shardOf(lanes.map, bytes, 0);
    holder?.note(shard);
    this.#parts.push(new Part(lanes.to(shard), bytes, count));
  }

  /** Copies the frames of each shard into a piece of its own, in their order: a shard applies what it gets in order. */
  #split(lanes: ShardLanes): void {
    const { map } = lanes;
    const { bytes, count, holder } = this.#frames;
    const framing = this.#framing;
    const refuser = this.#refuser;
    this.#types = new Uint8Array(count);
    this.#owners = new Uint8Array(count);
    const partOfShard = new Int16Array(map.shards).fill(-1);
    const writers: ByteWriter[] = [];
    for (let frame = 0, at = 0; frame < count; frame++) {
      const end = framing.frameEnd(bytes, at);
      this.#types[frame] = bytes[at]!;
      if (refuser === null || !refuser.isRefused(bytes, at)) {
        const shard = framing.shardOf(map, bytes, at);
        let part = partOfShard[shard]!;
        if (part < 0) {
          holder?.note(shard);
          part = partOfShard[shard] = writers.push(new ByteWriter(256)) - 1;
          this.#parts.push(new Part(lanes.to(shard), bytes, 0));
        }
        writers[part]!.copy(bytes, at, end);
        this.#parts[part]!.count++;
        this.#owners[frame] = part;
      } else {
        this.#owners[frame] = REFUSED;
      }
      at = end;
    }
    writers.forEach((writer, part) => {
      this.#parts[part]!.frames = writer.bytes.subarray(0, writer.length);
    });
  }

  /** Queues what is left of a part. Called from answers: the reader may have gone since the last call. */
  #submit(part: Part): void {
    if (!this.#sink.hasReader) part.keepWrites(this.#framing);
    if (part.frames.length === 0) return;
    const { protocol, holder } = this.#frames;
    const piece: FramesPiece = {
      bytes: part.frames.length + (holder === undefined ? 0 : holder.bytes.length),
      protocolCode: protocol.code,
      frames: part.frames,
      replyBytesMax: this.#replyBytesMax,
      ...(holder === undefined ? {} : { holder: holder.bytes }),
      answer: (count, replies) => {
        part.piece = null;
        if (this.#isOver) return;
        part.skip(this.#framing, count);
        part.replies = replies;
        part.at = 0;
        this.#merge();
      },
      fail: (error) => {
        part.piece = null;
        this.#fail(error);
      },
    };
    part.piece = piece;
    part.lane.submit(piece);
  }

  /** Gives the sink what is there in order, then goes on with the parts that are exhausted. */
  #merge(): void {
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
    for (const part of parts) {
      part.isWaiting = false;
      if (!this.#isOver) this.#submit(part);
    }
    // Where nothing is left to send for a caller that has gone, no answer will come, either.
    if (!this.#isOver && !this.#sink.hasReader) this.#merge();
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
    // As much as there may be: a writer that grows takes twice what it holds.
    const unmerged = this.#parts.reduce((sum, part) => sum + part.replies.length - part.at, 0);
    const out = new ByteWriter(256 + unmerged);
    while (this.#answered < count) {
      const owner = this.#owners[this.#answered]!;
      if (owner === REFUSED) {
        this.#refuse(out);
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
    }
    const isLast = this.#answered === count;
    for (const part of this.#parts) if (part.at === part.replies.length) part.release();
    if (out.length > 0 || isLast) this.#emit(out.bytes.subarray(0, out.length), isLast);
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
    if (isLast) this.#isOver = true;
    this.#sink.reply(replies, isLast);
  }

  /**
   * The first failure ends the exchange: what of it was applied can't be told. What is still queued is taken back.
   */
  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const part of this.#parts) if (part.piece !== null) part.lane.withdraw(part.piece);
    this.#sink.fail(error);
  }
}

const NOTHING = new Uint8Array(0);

/** The frames of an exchange that one shard owns. */
class Part {
  /** The way to the shard; one call at a time, shared with other exchanges of this door. */
  readonly lane: ShardLane;
  /** What is still to be answered: `count` frames. */
  frames: Uint8Array;
  /** Frames in `frames`. */
  count: number;
  /** What has been answered and not yet merged: `replies` from `at` on. */
  replies: Uint8Array = NOTHING;
  at = 0;
  /** The piece that is queued or under way. */
  piece: FramesPiece | null = null;
  /** A further call waits for room. */
  isWaiting = false;

  constructor(lane: ShardLane, frames: Uint8Array, count: number) {
    this.lane = lane;
    this.frames = frames;
    this.count = count;
  }

  /**
   * Frames are left, nothing is under way, and all replies so far were merged: only then is more asked for, so that
   * no shard runs far ahead of the slowest one.
   */
  get needsCall(): boolean {
    return (
      this.piece === null &&
      !this.isWaiting &&
      this.frames.length > 0 &&
      this.at === this.replies.length
    );
  }

  /** Lets the replies go: they have been merged. */
  release(): void {
    this.replies = NOTHING;
    this.at = 0;
  }

  /** Drops the frames that only read. */
  keepWrites(framing: Framing): void {
    const { frames } = this;
    const writes = new ByteWriter(256);
    this.count = 0;
    for (let at = 0; at < frames.length;) {
      const end = framing.frameEnd(frames, at);
      if (framing.isWrite(frames, at)) {
        writes.copy(frames, at, end);
        this.count++;
      }
      at = end;
    }
    this.frames = writes.bytes.subarray(0, writes.length);
  }

  /** Drops the first `count` frames. */
  skip(framing: Framing, count: number): void {
    const { frames } = this;
    this.count -= count;
    let at = this.count === 0 ? frames.length : 0;
    if (at === 0) {
      for (let i = 0; i < count; i++) at = framing.frameEnd(frames, at);
    }
    this.frames = frames.subarray(at);
  }
}
