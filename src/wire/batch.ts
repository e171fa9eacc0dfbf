/**
 * What a door and a Shard say to each other: a batch of frames, and the replies to it.
 *
 *     batch  = version u8, reserved u8, shards u16, placement u32, section*
 *     section = protocol u8, reserved u8, reserved u16, reply bytes max u32, length u32, frames
 *     answer = version u8, part*               one part per section, in order
 *     part   = frames answered u32, length u32, replies
 *
 * All little-endian. Frames travel as the client sent them, so that nothing is encoded twice. The
 * Shard stops a section when its replies have reached the section's limit: fewer frames are answered
 * than were sent, the rest was not applied, and the door sends it again in a further call. Doors of
 * one release meet objects of another during every deployment: both sides check the version.
 */
import type { ByteWriter } from "./bytes.ts";

export const BATCH_VERSION = 1;
export const BATCH_HEADER_BYTES = 8;
export const SECTION_HEADER_BYTES = 12;
export const PART_HEADER_BYTES = 8;

/** Where a batch belongs: what a Shard compares with what its data was written under. */
export interface Placement {
  /** Number of shards that the door spreads keys over, 1 to 65,535. */
  readonly shards: number;
  /** u32 that changes with the hash that chooses the shard. */
  readonly fingerprint: number;
}

export function writeBatchHeader(out: ByteWriter, placement: Placement): void {
  out.u8(BATCH_VERSION);
  out.u8(0);
  out.u16(placement.shards);
  out.u32(placement.fingerprint);
}

export function writeSection(
  out: ByteWriter,
  protocolCode: number,
  replyBytesMax: number,
  frames: Uint8Array,
): void {
  out.u8(protocolCode);
  out.u8(0);
  out.u16(0);
  out.u32(replyBytesMax);
  out.u32(frames.length);
  out.copy(frames);
}

/**
 * Reads the header of a batch.
 *
 * @throws RangeError when the batch is cut short or of a version that this release does not know
 */
export function readPlacement(batch: DataView): Placement {
  if (batch.byteLength < BATCH_HEADER_BYTES || batch.getUint8(0) !== BATCH_VERSION) {
    throw new RangeError(`batch_version: expected ${BATCH_VERSION}`);
  }
  return { shards: batch.getUint16(2, true), fingerprint: batch.getUint32(4, true) };
}
