/**
 * The framing of a Throttr protocol: finds runs of frames in a stream, and the keys that place them.
 *
 * See `wire/framing.ts` for what a framing is.
 */
import type { Framing, KeyHasher } from "../framing.ts";
import type { Protocol } from "./protocol.ts";
import { replyLength } from "./replies.ts";
import { isWrite, keyLength, layoutsOf, type Layout } from "./requests.ts";
import { frameEnd, scanRun, type Run } from "./scanner.ts";

export class ThrottrFraming implements Framing {
  readonly #protocol: Protocol;
  readonly #layouts: readonly (Layout | undefined)[];

  constructor(protocol: Protocol) {
    this.#protocol = protocol;
    this.#layouts = layoutsOf(protocol);
  }

  scanRun(
    bytes: Uint8Array,
    at: number,
    end: number,
    frameBytesMax: number,
    counts: Float64Array,
  ): Run {
    return scanRun(this.#layouts, bytes, at, end, frameBytesMax, counts);
  }

  frameEnd(bytes: Uint8Array, at: number): number {
    return frameEnd(this.#layouts, bytes, at);
  }

  isWrite(bytes: Uint8Array, at: number): boolean {
    const type = bytes[at]!;
    return isWrite(this.#layouts[type]!, type);
  }

  hashOf(hasher: KeyHasher, bytes: Uint8Array, at: number): number {
    const layout = this.#layouts[bytes[at]!]!;
    return hasher.hashOf(layout.keyspace, bytes, at + layout.keyAt, keyLength(layout, bytes, at));
  }

  replyLength(type: number, bytes: Uint8Array, at: number, end: number): number {
    return replyLength(this.#protocol, type, bytes, at, end);
  }
}
