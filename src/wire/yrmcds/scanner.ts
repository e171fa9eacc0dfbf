/**
 * Frame boundaries: how long is the frame that begins here, and which frames are answered together?
 *
 * As of the Throttr protocol, the scanner keeps no state: any cut of a stream gives the same frames. A
 * length that a header announces is compared with the limit and reserves nothing.
 */
import { Target } from "../throttr/requests.ts";
import { FRAME_INCOMPLETE, FRAME_TOO_LARGE, RUN_ENDS, type Run } from "../throttr/scanner.ts";
import { readU32 } from "./big-endian.ts";
import { HEADER_BYTES, Opcode, REQUEST_MAGIC } from "./protocol.ts";

/**
 * Length in bytes of the frame at `at`, request or reply, header included. The bytes that have arrived may end
 * before it does. There is no unknown frame: one of a wrong magic has a length, too.
 *
 * @param end where the bytes end that have arrived
 * @param frameBytesMax limit of one frame, in bytes, header included
 * @returns the length, or one of `FRAME_INCOMPLETE`, `FRAME_TOO_LARGE`
 */
export function frameLength(
  bytes: Uint8Array,
  at: number,
  end: number,
  frameBytesMax: number,
): number {
  if (at + HEADER_BYTES > end) return FRAME_INCOMPLETE;
  const length = HEADER_BYTES + readU32(bytes, at + 4);
  return length > frameBytesMax ? FRAME_TOO_LARGE : length;
}

/** Who answers the request at `at`: the namespace for Stats and Dump, shards for any other. */
export function targetOf(bytes: Uint8Array, at: number): Target {
  const opcode = bytes[at + 1]!;
  const isOnAll = opcode === Opcode.stats || opcode === Opcode.dump;
  return isOnAll && bytes[at] === REQUEST_MAGIC ? Target.namespace : Target.shard;
}

/**
 * Finds the run that begins at `at`: whole frames in a row that have one target, a single one when the
 * target is the namespace.
 */
export function scanRun(bytes: Uint8Array, at: number, end: number, frameBytesMax: number): Run {
  let target: Target = Target.nobody;
  for (let frames = 0; ; frames++) {
    const length = frameLength(bytes, at, end, frameBytesMax);
    if (length === FRAME_TOO_LARGE || length === FRAME_INCOMPLETE) {
      return { target, frames, end: at, stop: length, needed: HEADER_BYTES };
    }
    if (at + length > end) {
      return { target, frames, end: at, stop: FRAME_INCOMPLETE, needed: length };
    }
    const next = targetOf(bytes, at);
    if (frames > 0 && (next !== target || next === Target.namespace)) {
      return { target, frames, end: at, stop: RUN_ENDS, needed: 1 };
    }
    target = next;
    at += length;
  }
}
