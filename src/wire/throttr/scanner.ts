/**
 * Frame boundaries: the length of the frame that begins here, if the protocol has such a frame.
 *
 * The scanner keeps no state of its own. It answers from the bytes that have arrived, so any cut of a stream
 * gives the same frames: the caller keeps the bytes of an incomplete frame.
 */
import { keyLength, Target, type Layout } from "./requests.ts";

/** The length is not known before more bytes arrive. */
export const FRAME_INCOMPLETE = 0;
/** The first byte is not a request type of this protocol: the stream can't be read further. */
export const FRAME_UNKNOWN = -1;
/** The frame announces more bytes than the limit: the stream can't be read further. */
export const FRAME_TOO_LARGE = -2;
/** The next frame belongs to another run. */
export const RUN_ENDS = -3;

/**
 * Length in bytes of the frame at `at`, header included. The bytes that have arrived may end before it does.
 *
 * @param layouts rows of the protocol, by request type
 * @param bytes the stream
 * @param at where the frame begins
 * @param end where the bytes end that have arrived
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
  if (layout.keySizeAt === 0) return layout.headerBytes;
  let length = layout.keyAt + keyLength(layout, bytes, at);
  if (layout.valueSizeAt !== 0) length += valueLength(layout, bytes, at);
  return length > frameBytesMax ? FRAME_TOO_LARGE : length;
}

/** Where the whole frame at `at` ends. */
export function frameEnd(
  layouts: readonly (Layout | undefined)[],
  bytes: Uint8Array,
  at: number,
): number {
  return at + frameLength(layouts, bytes, at, bytes.length, Infinity);
}

/** Length of the value, or the payload, of the frame at `at`; its header must be complete. */
export function valueLength(layout: Layout, bytes: Uint8Array, at: number): number {
  const sizeAt = at + layout.valueSizeAt;
  let length = 0;
  // A double holds any u64 closely enough to compare it with a limit far below 2^53.
  for (let i = 0, weight = 1; i < layout.valueSizeBytes; i++, weight *= 256) {
    length += bytes[sizeAt + i]! * weight;
  }
  return length;
}

/** What `scanRun` found. */
export interface Run {
  /** Who answers the frames; without meaning when there are none. */
  target: Target;
  /** Whole frames before `end`. */
  frames: number;
  /** Where the last whole frame ends. */
  end: number;
  /** Why the scan stopped at `end`: `FRAME_INCOMPLETE` also when nothing is left. */
  stop: typeof FRAME_INCOMPLETE | typeof FRAME_UNKNOWN | typeof FRAME_TOO_LARGE | typeof RUN_ENDS;
  /** Bytes, from `end` on, without which scanning again finds no further frame. */
  needed: number;
}

/**
 * Finds the run that begins at `at`: whole frames in a row that have one target, a single one when the
 * target is the namespace.
 *
 * @param counts gets the number of frames of each type added
 */
export function scanRun(
  layouts: readonly (Layout | undefined)[],
  bytes: Uint8Array,
  at: number,
  end: number,
  frameBytesMax: number,
  counts: Float64Array,
): Run {
  let frames = 0;
  let target: Target = Target.nobody;
  for (;;) {
    const length = frameLength(layouts, bytes, at, end, frameBytesMax);
    if (length > 0 && at + length <= end) {
      const type = bytes[at]!;
      const next = layouts[type]!.target;
      if (frames > 0 && (next !== target || next === Target.namespace)) {
        return { target, frames, end: at, stop: RUN_ENDS, needed: 1 };
      }
      target = next;
      counts[type]!++;
      frames++;
      at += length;
      continue;
    }
    if (length > 0) return { target, frames, end: at, stop: FRAME_INCOMPLETE, needed: length };
    const stop = length as Run["stop"];
    const header = at < end ? (layouts[bytes[at]!]?.headerBytes ?? 1) : 1;
    return { target, frames, end: at, stop, needed: header };
  }
}
