/**
 * An exchange: a run of requests on keys, and their replies in the same order.
 *
 * Frames are grouped by shard, one piece each; replies are merged as they come in. Replies that reach
 * the limit of a piece stop it: the rest is sent in a further call once the caller has room.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { COMMANDS_START, writeError } from "../wire/edge/command.ts";
import { replyLength } from "../wire/throttr/replies.ts";
import { keyLength, layoutsOf, STATUS_FAILURE, type Layout } from "../wire/throttr/requests.ts";
import { frameEnd } from "../wire/throttr/scanner.ts";
import { isUnrestricted, refusalOf, refusalText, type Access } from "./access.ts";
import type { ShardMap } from "./placement.ts";
import type { FramesPiece, ShardLane } from "./shard-lane.ts";
import type { Frames, Sink } from "./sink.ts";

/** In place of a part's index: the frame is refused here. */
const REFUSED = 255;

export class Exchange {
  readonly #frames: Frames;
  readonly #sink: Sink;
  readonly #replyBytesMax: number;
  readonly #layouts: readonly (Layout | undefined)[];
  readonly #parts: Part[] = [];
  /** Per frame: request type, and index into `#parts` or `REFUSED`. Empty when one shard has it all. */
  #types = new Uint8Array(0);
  #owners = new Uint8Array(0);
  #answered = 0;
  #seekFrame = 0;
  #seekAt = 0;
  #isOver = false;
  #access: Access | null = null;

  constructor(frames: Frames, sink: Sink, replyBytesMax: number) {
    this.#frames = frames;
    this.#sink = sink;
    this.#replyBytesMax = replyBytesMax;
    this.#layouts = layoutsOf(frames.protocol);
  }

  start(map: ShardMap, lanes: readonly ShardLane[], access: Access): void {
    const isOpen = isUnrestricted(access, this.#frames.protocol);
    this.#access = access;
    if (map.shards === 1 && isOpen) {
      this.#parts.push(new Part(lanes[0]!, this.#frames.bytes, this.#frames.count));
    } else {
      this.#split(map, lanes, isOpen ? null : access);
    }
    for (const part of this.#parts) this.#submit(part);
    if (this.#parts.length === 0) this.#merge();
  }

  /** @param access what frames are checked against; null when all are allowed */
  #split(map: ShardMap, lanes: readonly ShardLane[], access: Access | null): void {
    const { bytes, count } = this.#frames;
    this.#types = new Uint8Array(count);
    this.#owners = new Uint8Array(count);
    const partOfShard = new Int16Array(map.shards).fill(-1);
    const writers: ByteWriter[] = [];
    for (let frame = 0, at = 0; frame < count; frame++) {
      const layout = this.#layouts[bytes[at]!]!;
      const end = frameEnd(this.#layouts, bytes, at);
      this.#types[frame] = bytes[at]!;
      if (access === null || refusalOf(access, layout, bytes, at) === null) {
        const keyBytes = keyLength(layout, bytes, at);
        const shard = map.shardOf(layout.keyspace, bytes, at + layout.keyAt, keyBytes);
        let part = partOfShard[shard]!;
        if (part < 0) {
          part = partOfShard[shard] = writers.push(new ByteWriter(256)) - 1;
          this.#parts.push(new Part(lanes[shard]!, bytes, 0));
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

  #submit(part: Part): void {
    const piece: FramesPiece = {
      bytes: part.frames.length,
      protocolCode: this.#frames.protocol.code,
      frames: part.frames,
      replyBytesMax: this.#replyBytesMax,
      answered: (count, replies) => {
        part.piece = null;
        if (this.#isOver) return;
        part.skip(this.#layouts, count);
        part.replies = replies;
        part.at = 0;
        this.#merge();
      },
      failed: (error) => {
        part.piece = null;
        this.#fail(error);
      },
    };
    part.piece = piece;
    part.lane.submit(piece);
  }

  #merge(): void {
    if (this.#owners.length === 0) this.#pass(this.#parts[0]!);
    else this.#mergeParts();
    if (this.#isOver) return;
    const idle = this.#parts.filter((part) => part.needsCall);
    if (idle.length === 0) return;
    const room = this.#sink.room();
    if (room === null) for (const part of idle) this.#submit(part);
    else {
      for (const part of idle) part.isWaiting = true;
      room.then(
        () => {
          for (const part of idle) {
            part.isWaiting = false;
            if (!this.#isOver) this.#submit(part);
          }
        },
        (error: unknown) => this.#fail(error),
      );
    }
  }

  /** One shard has it all: its replies are in order already. */
  #pass(part: Part): void {
    part.at = part.replies.length;
    if (part.at > 0) this.#emit(part.replies, part.frames.length === 0);
  }

  #mergeParts(): void {
    const { protocol, count } = this.#frames;
    const out = new ByteWriter(256);
    while (this.#answered < count) {
      const owner = this.#owners[this.#answered]!;
      if (owner === REFUSED) {
        this.#refuse(out);
      } else {
        const part = this.#parts[owner]!;
        const { replies, at } = part;
        if (at === replies.length) break;
        const length = replyLength(
          protocol,
          this.#types[this.#answered]!,
          replies,
          at,
          replies.length,
        );
        out.copy(replies, at, at + length);
        part.at += length;
      }
      this.#answered++;
    }
    const isLast = this.#answered === count;
    if (out.length > 0 || isLast) this.#emit(out.bytes.subarray(0, out.length), isLast);
  }

  /** The failure of the next frame, which nobody was asked about. */
  #refuse(out: ByteWriter): void {
    const { protocol, bytes } = this.#frames;
    const { requestIdBytes } = protocol;
    const type = this.#types[this.#answered]!;
    if (type >= COMMANDS_START) {
      const layout = this.#layouts[type]!;
      const refusal = refusalOf(this.#access!, layout, bytes, this.#frameAt(this.#answered))!;
      writeError(out, refusalText(refusal, layout));
      return;
    }
    if (requestIdBytes > 0) {
      const at = this.#frameAt(this.#answered) + 1;
      out.copy(bytes, at, at + requestIdBytes);
    }
    out.u8(STATUS_FAILURE);
  }

  /** Where a frame begins; frames are asked for in ascending order. */
  #frameAt(frame: number): number {
    const { bytes } = this.#frames;
    for (; this.#seekFrame < frame; this.#seekFrame++) {
      this.#seekAt = frameEnd(this.#layouts, bytes, this.#seekAt);
    }
    return this.#seekAt;
  }

  #emit(replies: Uint8Array, isLast: boolean): void {
    if (isLast) this.#isOver = true;
    this.#sink.reply(replies, isLast);
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const part of this.#parts) if (part.piece !== null) part.lane.withdraw(part.piece);
    this.#sink.failed(error);
  }
}

/** The frames of an exchange that one shard owns. */
class Part {
  readonly lane: ShardLane;
  /** What is still to be answered: `count` frames. */
  frames: Uint8Array;
  count: number;
  /** What has been answered and not yet merged: `replies` from `at` on. */
  replies: Uint8Array = new Uint8Array(0);
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

  get needsCall(): boolean {
    return (
      this.piece === null &&
      !this.isWaiting &&
      this.frames.length > 0 &&
      this.at === this.replies.length
    );
  }

  /** Drops the first `count` frames. */
  skip(layouts: readonly (Layout | undefined)[], count: number): void {
    const { frames } = this;
    this.count -= count;
    let at = this.count === 0 ? frames.length : 0;
    if (at === 0) {
      for (let i = 0; i < count; i++) at = frameEnd(layouts, frames, at);
    }
    this.frames = frames.subarray(at);
  }
}
