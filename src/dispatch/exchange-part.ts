/** Parts of an exchange: the frames of a run that one shard owns, and what it has answered of them. */
import { ByteWriter, kept } from "../wire/bytes.ts";
import type { Framing } from "../wire/framing.ts";
import { isWithin } from "../wire/range.ts";
import type { RangeMap } from "./range-map.ts";
import type { FramesPiece, ShardLane } from "./shard-lane.ts";

const NOTHING = new Uint8Array(0);

/** Gathers the frames of each range in a part of its own. */
export class Groups {
  readonly #view: RangeMap;
  readonly #parts: Part[];
  readonly #moves: number;
  /** Index of the part, by index of its range in the view. */
  readonly #partOf = new Map<number, number>();
  readonly #begin: number;
  readonly #writers: ByteWriter[] = [];

  /** @param parts gets the new parts behind those that it has */
  constructor(view: RangeMap, parts: Part[], moves = 0) {
    this.#view = view;
    this.#parts = parts;
    this.#moves = moves;
    this.#begin = parts.length;
  }

  /** Adds the frame `bytes[at, end)` to the part of a range; returns the index of the part. */
  add(range: number, bytes: Uint8Array, at: number, end: number): number {
    let index = this.#partOf.get(range);
    if (index === undefined) {
      const part = new Part(this.#view, range, bytes, 0);
      part.moves = this.#moves;
      index = this.#parts.push(part) - 1;
      this.#partOf.set(range, index);
      this.#writers.push(new ByteWriter(256));
    }
    this.#writers[index - this.#begin]!.copy(bytes, at, end);
    this.#parts[index]!.count++;
    return index;
  }

  /** Gives the new parts their frames, and returns them. */
  end(): Part[] {
    const parts = this.#parts.slice(this.#begin);
    parts.forEach((part, i) => {
      const { bytes, length } = this.#writers[i]!;
      part.frames = bytes.subarray(0, length);
    });
    return parts;
  }
}

/** The frames of an exchange that one shard owns. */
export class Part {
  /** The range of the shard: an index in the ranges of a view. */
  #view: RangeMap;
  index: number;
  /** The way to the shard; one call at a time, shared with other exchanges of this door. Null before the first call. */
  lane: ShardLane | null = null;
  /** What is still to be answered: `count` frames. */
  frames: Uint8Array;
  /** Frames in `frames`. */
  count: number;
  /** How often a shard has said that it does not own these frames: see `FramesPiece`. */
  moves = 0;
  /** What has been answered and not yet merged: `replies` from `at` on. */
  replies: Uint8Array = NOTHING;
  at = 0;
  /** The piece that is queued or under way. */
  piece: FramesPiece | null = null;
  /** A further call waits for room. */
  isWaiting = false;

  constructor(view: RangeMap, index: number, frames: Uint8Array, count: number) {
    this.#view = view;
    this.index = index;
    this.frames = frames;
    this.count = count;
  }

  /** Frames are left, or replies that have not been merged. */
  get isOpen(): boolean {
    return this.frames.length > 0 || this.at < this.replies.length;
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

  /** Takes another view; false where the range has split in it. */
  follow(view: RangeMap): boolean {
    if (view === this.#view) return true;
    const range = this.#view.at(this.index);
    const index = view.indexOf(range.from);
    if (!isWithin(range, view.at(index))) return false;
    this.#view = view;
    this.index = index;
    return true;
  }

  /** Other parts have the frames now. */
  empty(): void {
    this.frames = NOTHING;
    this.count = 0;
  }

  /** Lets the replies go: they have been merged. */
  release(): void {
    this.replies = NOTHING;
    this.at = 0;
  }

  /** Keeps what has not been merged, and lets the rest of the answer go. */
  keepRest(): void {
    if (this.at === this.replies.length) {
      this.release();
    } else if (this.at > 0) {
      this.replies = kept(this.replies.subarray(this.at));
      this.at = 0;
    }
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
