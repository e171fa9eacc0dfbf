/**
 * The requests of the yrmcds protocol that one shard answers: reads frames in place, changes semaphores, writes replies.
 *
 * Source: yrmcds protocol reference, "Packet specifications".
 */
import type { ByteWriter } from "../../wire/bytes.ts";
import { Opcode, Status } from "../../wire/yrmcds/protocol.ts";
import { writeError, writeNumber, writeSuccess } from "../../wire/yrmcds/replies.ts";
import { RequestView } from "../../wire/yrmcds/request.ts";
import { FRAME_INCOMPLETE } from "../../wire/throttr/scanner.ts";
import { frameLength } from "../../wire/yrmcds/scanner.ts";
import {
  TALLY_YRMCDS_ACQUIRE,
  TALLY_YRMCDS_GET,
  TALLY_YRMCDS_NOOP,
  TALLY_YRMCDS_RELEASE,
} from "../tally.ts";
import { ABSENT, type Semaphores } from "./semaphores.ts";

/** Counts of well-formed requests, refused ones included. */
export interface RequestCounts {
  noop: number;
  get: number;
  acquire: number;
  release: number;
}

export class SemaphoreRequests {
  readonly #semaphores: Semaphores;
  readonly #totals: Float64Array;
  readonly #request = new RequestView();

  /** @param totals of a tally: requests are counted there, too */
  constructor(semaphores: Semaphores, totals: Float64Array) {
    this.#semaphores = semaphores;
    this.#totals = totals;
  }

  get counts(): RequestCounts {
    const totals = this.#totals;
    return {
      noop: totals[TALLY_YRMCDS_NOOP]!,
      get: totals[TALLY_YRMCDS_GET]!,
      acquire: totals[TALLY_YRMCDS_ACQUIRE]!,
      release: totals[TALLY_YRMCDS_RELEASE]!,
    };
  }

  /**
   * Executes the frames of one connection in `bytes[at, end)` until all are answered or their replies
   * reach `replyBytesMax`; the reply that crosses the limit is still written.
   *
   * @param holder the connection
   * @returns the number of frames answered
   * @throws RangeError when the bytes are not whole frames, or one of them is Stats or Dump, which concern
   * all shards: no door sends either
   */
  execute(
    bytes: Uint8Array,
    at: number,
    end: number,
    holder: Uint8Array,
    out: ByteWriter,
    replyBytesMax: number,
    nowMs: number,
  ): number {
    const limit = out.length + replyBytesMax;
    let frames = 0;
    while (at < end && out.length < limit) {
      const length = frameLength(bytes, at, end, Infinity);
      if (length === FRAME_INCOMPLETE || at + length > end) {
        throw new RangeError("frames: not whole");
      }
      this.#request.read(bytes, at);
      this.#answer(bytes, holder, out, nowMs);
      at += length;
      frames++;
    }
    return frames;
  }

  #answer(bytes: Uint8Array, holder: Uint8Array, out: ByteWriter, nowMs: number): void {
    const { status, opcode, opaque } = this.#request;
    if (status !== Status.success) return writeError(out, opcode, opaque, status);
    switch (opcode) {
      case Opcode.noop:
        this.#totals[TALLY_YRMCDS_NOOP]!++;
        return writeSuccess(out, opcode, opaque);
      case Opcode.get:
        this.#totals[TALLY_YRMCDS_GET]!++;
        return this.#get(bytes, out, nowMs);
      case Opcode.acquire:
        this.#totals[TALLY_YRMCDS_ACQUIRE]!++;
        return this.#acquire(bytes, holder, out, nowMs);
      case Opcode.release:
        this.#totals[TALLY_YRMCDS_RELEASE]!++;
        return this.#release(bytes, holder, out, nowMs);
      default:
        throw new RangeError(`frames: opcode 0x${opcode.toString(16)} is not for a shard`);
    }
  }

  #get(bytes: Uint8Array, out: ByteWriter, nowMs: number): void {
    const { opcode, opaque, nameAt, nameBytes } = this.#request;
    const consumption = this.#semaphores.get(bytes, nameAt, nameBytes, nowMs);
    if (consumption === ABSENT) writeError(out, opcode, opaque, Status.notFound);
    else writeNumber(out, opcode, opaque, consumption);
  }

  #acquire(bytes: Uint8Array, holder: Uint8Array, out: ByteWriter, nowMs: number): void {
    const request = this.#request;
    const { opcode, opaque, resources } = request;
    const status = this.#semaphores.acquire(bytes, request, holder, nowMs);
    if (status === Status.success) writeNumber(out, opcode, opaque, resources);
    else writeError(out, opcode, opaque, status);
  }

  #release(bytes: Uint8Array, holder: Uint8Array, out: ByteWriter, nowMs: number): void {
    const request = this.#request;
    const { opcode, opaque } = request;
    const status = this.#semaphores.release(bytes, request, holder, nowMs);
    if (status === Status.success) writeSuccess(out, opcode, opaque);
    else writeError(out, opcode, opaque, status);
  }
}
