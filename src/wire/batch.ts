/**
 * What a door and a Shard say to each other: a batch of frames, and the replies to it.
 *
 *     batch  = version u8, reserved u8, shards u16, placement u32, section*
 *     section = protocol u8, flags u8 (`SectionFlag`), holder bytes u16, reply bytes max u32, length u32,
 *               [holder,] frames
 *     answer = version u8, part*               one part per section, in order
 *     part   = frames answered u32, length u32, replies
 *
 * All little-endian. Sections of the yrmcds protocol say who holds what their frames acquire. Frames
 * travel as the client sent them, so that nothing is encoded twice. The
 * Shard stops a section when its replies have reached the section's limit: fewer frames are answered
 * than were sent, the rest was not applied, and the door sends it again in a further call. Doors of
 * one release meet objects of another during every deployment: both sides check the version.
 */
import type { ByteWriter } from "./bytes.ts";
import { ThrottrError } from "./edge/error.ts";

export const BATCH_VERSION = 1;
export const BATCH_HEADER_BYTES = 8;
export const SECTION_HEADER_BYTES = 12;
export const PART_HEADER_BYTES = 8;

/** `hasEnded`: the holder is gone, and gives back all that it holds; such a section has no frames. */
export const SectionFlag = { hasEnded: 1 } as const;

/** Frames of one caller, and whose they are. */
export interface Section {
  readonly protocolCode: number;
  readonly frames: Uint8Array;
  /** The shard answers frames until their replies have reached this many bytes. */
  readonly replyBytesMax: number;
  /** Of sections of the yrmcds protocol. */
  readonly holder?: Uint8Array;
  readonly hasEnded?: boolean;
}

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

const NO_HOLDER = new Uint8Array(0);

export function writeSection(out: ByteWriter, section: Section): void {
  const { protocolCode, frames, replyBytesMax, holder = NO_HOLDER, hasEnded = false } = section;
  out.u8(protocolCode);
  out.u8(hasEnded ? SectionFlag.hasEnded : 0);
  out.u16(holder.length);
  out.u32(replyBytesMax);
  out.u32(holder.length + frames.length);
  out.copy(holder);
  out.copy(frames);
}

/**
 * Reads the header of a batch.
 *
 * @throws ThrottrError when the batch is cut short or of a version that this release does not know
 */
export function readPlacement(batch: DataView): Placement {
  if (batch.byteLength < BATCH_HEADER_BYTES || batch.getUint8(0) !== BATCH_VERSION) {
    throw new ThrottrError(
      "batch_version",
      `expected a batch of version ${BATCH_VERSION}; the deployment is being updated: try again`,
    );
  }
  return { shards: batch.getUint16(2, true), fingerprint: batch.getUint32(4, true) };
}
