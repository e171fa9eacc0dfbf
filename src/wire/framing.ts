/**
 * Framing: what sessions and exchanges know of the frames of a protocol, whichever it is.
 */
import type { Run } from "./throttr/scanner.ts";

/** Places keys of a keyspace on the circle of hashes. */
export interface KeyHasher {
  hashOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number;
}

export interface Framing {
  /**
   * Finds the run that begins at `at`: whole frames in a row that have one target.
   *
   * @param counts gets the number of frames of each type added, where the protocol has types to count
   */
  scanRun(
    bytes: Uint8Array,
    at: number,
    end: number,
    frameBytesMax: number,
    counts: Float64Array,
  ): Run;
  /** Where the whole frame at `at` ends. */
  frameEnd(bytes: Uint8Array, at: number): number;
  /** Whether the whole frame at `at` may change something; else it only reads. */
  isWrite(bytes: Uint8Array, at: number): boolean;
  /** Hash of the key of the whole frame at `at`, which is for one shard: that which owns the hash answers it. */
  hashOf(hasher: KeyHasher, bytes: Uint8Array, at: number): number;
  /**
   * Length of the reply at `at`; 0 when it is not complete.
   *
   * @param type first byte of the frame that it answers
   */
  replyLength(type: number, bytes: Uint8Array, at: number, end: number): number;
}
