/**
 * The framing of the yrmcds protocol: finds runs of frames in a stream, and the names that place them.
 *
 * Stats and Dump concern all shards, so each is a run of its own. See `wire/framing.ts` for what a framing is.
 */
import type { Framing, KeyHasher } from "../framing.ts";
import { Keyspace } from "../keyspace.ts";
import { FRAME_TOO_LARGE, type Run } from "../throttr/scanner.ts";
import { Opcode } from "./protocol.ts";
import { RequestView } from "./request.ts";
import { frameLength, scanRun } from "./scanner.ts";

export class YrmcdsFraming implements Framing {
  readonly #request = new RequestView();

  scanRun(bytes: Uint8Array, at: number, end: number, frameBytesMax: number): Run {
    return scanRun(bytes, at, end, frameBytesMax);
  }

  frameEnd(bytes: Uint8Array, at: number): number {
    return at + frameLength(bytes, at, bytes.length, Infinity);
  }

  /** What it does not know is answered with an error. */
  isWrite(bytes: Uint8Array, at: number): boolean {
    const { opcode } = this.#requestAt(bytes, at);
    return opcode === Opcode.acquire || opcode === Opcode.release;
  }

  /** Frames without a name may go to any shard: one that is always the same. */
  hashOf(hasher: KeyHasher, bytes: Uint8Array, at: number): number {
    const request = this.#requestAt(bytes, at);
    return hasher.hashOf(Keyspace.semaphores, bytes, request.nameAt, request.nameBytes);
  }

  replyLength(_type: number, bytes: Uint8Array, at: number, end: number): number {
    const length = frameLength(bytes, at, end, Infinity);
    return length === FRAME_TOO_LARGE || at + length > end ? 0 : length;
  }

  #requestAt(bytes: Uint8Array, at: number): RequestView {
    this.#request.read(bytes, at);
    return this.#request;
  }
}
