/**
 * What a door and a Shard say to each other: a batch of frames, and the replies to it.
 *
 *     batch  = version u8, reserved u8, shards u16, placement u32, [from u32, to u32,] section*
 *     section = protocol u8, flags u8 (`SectionFlag`), holder bytes u16, reply bytes max u32, length u32,
 *               [holder,] frames
 *     answer = version u8 of the batch, part*  one part per section, in order
 *     part   = frames answered u32, length u32, replies
 *
 * Version 2 says for which range of hashes the door takes the shard. If the shard owns another one, nothing of the batch is
 * applied, and the answer is what `moved.ts` describes. Version 1 is what releases before 0.5.0 speak: there a namespace has
 * `shards` equal ranges for good.
 *
 * All little-endian. Sections of the yrmcds protocol say who holds what their frames acquire. Frames
 * travel as the client sent them, so that nothing is encoded twice. The
 * Shard stops a section when its replies have reached the section's limit: fewer frames are answered
 * than were sent, the rest was not applied, and the door sends it again in a further call. Doors of
 * one release meet objects of another during every deployment: both sides check the version.
 */
import type { ByteWriter } from "./bytes.ts";
import { ThrottrError } from "./edge/error.ts";
import type { Range } from "./range.ts";

/** Batches without a range, and those with one. */
export const BatchVersion = { withoutRange: 1, withRange: 2 } as const;

const HEADER_BYTES = 8;
const RANGE_BYTES = 8;
/** Of the header, by version. */
const MIN_BYTES = [undefined, HEADER_BYTES, HEADER_BYTES + RANGE_BYTES];
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

/** Where a call belongs: what a Shard compares with what its data was written under, and with what it owns. */
export interface Placement {
  /**
   * Number of ranges that the namespace begins with, 1 to 65,535. Beside a range it counts for the first write of the
   * namespace alone.
   */
  readonly shards: number;
  /** u32 that changes with the hash that chooses the shard. */
  readonly fingerprint: number;
  /** Which range the caller takes the shard for; releases before 0.5.0 leave it out. */
  readonly range?: Range;
}

/** Bytes of a batch before its sections. */
export function batchHeaderBytes({ range }: Placement): number {
  return range === undefined ? HEADER_BYTES : HEADER_BYTES + RANGE_BYTES;
}

/** The version that a batch with a placement has. */
export function batchVersionOf({ range }: Placement): number {
  return range === undefined ? BatchVersion.withoutRange : BatchVersion.withRange;
}

/** Writes a batch of version 2 where the placement has a range, else of version 1. */
export function writeBatchHeader(out: ByteWriter, placement: Placement): void {
  const { shards, fingerprint, range } = placement;
  out.u8(batchVersionOf(placement));
  out.u8(0);
  out.u16(shards);
  out.u32(fingerprint);
  if (range === undefined) return;
  out.u32(range.from);
  out.u32(range.to);
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
  const version = batch.byteLength === 0 ? 0 : batch.getUint8(0);
  const bytesMin = MIN_BYTES[version];
  if (bytesMin === undefined || batch.byteLength < bytesMin) throw batchVersion();
  const shards = batch.getUint16(2, true);
  const fingerprint = batch.getUint32(4, true);
  if (version === BatchVersion.withoutRange) return { shards, fingerprint };
  const range = { from: batch.getUint32(8, true), to: batch.getUint32(12, true) };
  return { shards, fingerprint, range };
}

/** The refusal of a batch in a version that the shard does not take. */
export function batchVersion(): ThrottrError {
  return new ThrottrError(
    "batch_version",
    `expected a batch of version ${BatchVersion.withRange}; the deployment is being updated: try again`,
  );
}
