/**
 * Frame boundaries: how long is the frame that begins here, and is it one that we can read?
 *
 * The scanner keeps no state of its own. It answers from the bytes at hand, so any cut of a stream
 * gives the same frames: whoever calls it keeps the bytes it asked more for.
 */
import type { Layout } from "./requests.ts";

/** More bytes are needed before the length can be told. */
export const FRAME_INCOMPLETE = 0;
/** The first byte is no request type of this protocol: the stream can't be read further. */
export const FRAME_UNKNOWN = -1;
/** The frame announces more bytes than the limit: the stream can't be read further. */
export const FRAME_TOO_LARGE = -2;

/**
 * Length in bytes of the frame at `at`, header included. The bytes at hand may end before it does.
 *
 * @param layouts rows of the protocol, by request type
 * @param bytes the stream
 * @param at where the frame begins
 * @param end where the bytes at hand end
 * @param frameBytesMax limit of one frame, in bytes
 * @returns the length, or one of `FRAME_INCOMPLETE`, `FRAME_UNKNOWN`, `FRAME_TOO_LARGE`
 */
export function frameLength(
  layouts: readonly (Layout | undefined)[],
  bytes: Uint8Array,
  at: number,
  end: number,
  frameBytesMax: number,
): number {
  if (at >= end) return FRAME_INCOMPLETE;
  const layout = layouts[bytes[at]!];
  if (layout === undefined) return FRAME_UNKNOWN;
  if (at + layout.headerBytes > end) return FRAME_INCOMPLETE;
  let length = layout.headerBytes + bytes[at + layout.keySizeAt]!;
  if (layout.valueSizeAt !== 0) {
    const sizeAt = at + layout.valueSizeAt;
    // A double holds any u64 closely enough to compare it with a limit far below 2^53.
    for (let i = 0, weight = 1; i < layout.valueSizeBytes; i++, weight *= 256) {
      length += bytes[sizeAt + i]! * weight;
    }
  }
  return length > frameBytesMax ? FRAME_TOO_LARGE : length;
}

/** What `scanFrames` found. */
export interface Scan {
  /** Whole frames before `end`. */
  frames: number;
  /** Where the last whole frame ends. */
  end: number;
  /** Why the scan stopped at `end`: `FRAME_INCOMPLETE` also when nothing is left. */
  stop: typeof FRAME_INCOMPLETE | typeof FRAME_UNKNOWN | typeof FRAME_TOO_LARGE;
  /** Bytes, from `end` on, without which scanning again finds no further frame. */
  needed: number;
}

/** Counts the whole frames of `bytes` in `[at, end)` and says where and why they stop. */
export function scanFrames(
  layouts: readonly (Layout | undefined)[],
  bytes: Uint8Array,
  at: number,
  end: number,
  frameBytesMax: number,
): Scan {
  let frames = 0;
  for (;;) {
    const length = frameLength(layouts, bytes, at, end, frameBytesMax);
    if (length > 0 && at + length <= end) {
      frames++;
      at += length;
      continue;
    }
    if (length > 0) return { frames, end: at, stop: FRAME_INCOMPLETE, needed: length };
    const stop = length as Scan["stop"];
    const header = at < end ? (layouts[bytes[at]!]?.headerBytes ?? 1) : 1;
    return { frames, end: at, stop, needed: header };
  }
}
