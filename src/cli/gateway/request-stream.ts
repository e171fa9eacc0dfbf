/** The stream of requests from a client: where frames begin and end, whatever way the stream is cut. */
import { FRAME_INCOMPLETE } from "../../wire/throttr/scanner.ts";
import type { FrameForm } from "./spoken.ts";

/** No header is longer, with all that tells the length of its frame: INSERT of dialect 2 has 24 bytes. */
const HEADER_BYTES_MAX = 32;

/** Who is told of frames. A kind is the byte of a frame that says what is asked. */
export interface RequestVisitor {
  /** Whether a frame may be sent now. It is not asked of one whose header comes in pieces. */
  mayBegin(kind: number): boolean;
  /** A frame has ended, so many bytes behind the beginning of those that are read. */
  ended(kind: number, endBytes: number): void;
}

export class RequestStream {
  readonly #form: FrameForm;
  readonly #visitor: RequestVisitor;
  /** Of the frame under way: its first bytes while they don't tell its length, then what is to come of it. */
  readonly #header = new Uint8Array(HEADER_BYTES_MAX);
  #headerBytes = 0;
  #restBytes = 0;
  #kind = 0;
  #isReadable = true;

  constructor(form: FrameForm, visitor: RequestVisitor) {
    this.#form = form;
    this.#visitor = visitor;
  }

  /**
   * Reads the next bytes, up to a frame that may not begin. Behind one that the server can't read either,
   * all are read and none is a frame: the server answers what came before, and closes.
   *
   * @returns how many were read
   */
  read(bytes: Uint8Array): number {
    let at = 0;
    while (at < bytes.length) {
      if (!this.#isReadable) return bytes.length;
      if (this.#restBytes > 0) {
        const read = Math.min(this.#restBytes, bytes.length - at);
        at += read;
        this.#restBytes -= read;
        if (this.#restBytes === 0) this.#visitor.ended(this.#kind, at);
      } else if (this.#headerBytes > 0) {
        this.#gather(bytes[at++]!, at);
      } else {
        const next = this.#begin(bytes, at);
        if (next === at) return at;
        at = next;
      }
    }
    return at;
  }

  /** A frame begins at `at`. Gives where to go on: there, when it may not begin. */
  #begin(bytes: Uint8Array, at: number): number {
    const { lengthOf, kindAt } = this.#form;
    const length = lengthOf(bytes, at, bytes.length);
    if (length === FRAME_INCOMPLETE) {
      this.#header.set(bytes.subarray(at));
      this.#headerBytes = bytes.length - at;
      return bytes.length;
    }
    if (length < 0) {
      this.#isReadable = false;
      return bytes.length;
    }
    this.#kind = bytes[at + kindAt]!;
    if (!this.#visitor.mayBegin(this.#kind)) return at;
    if (at + length > bytes.length) {
      this.#restBytes = at + length - bytes.length;
      return bytes.length;
    }
    this.#visitor.ended(this.#kind, at + length);
    return at + length;
  }

  /** One more byte of a header that did not tell the length; the bytes go on at `at`. */
  #gather(byte: number, at: number): void {
    const { lengthOf, kindAt } = this.#form;
    this.#header[this.#headerBytes++] = byte;
    const length = lengthOf(this.#header, 0, this.#headerBytes);
    if (length === FRAME_INCOMPLETE) return;
    this.#isReadable = length > 0;
    this.#kind = this.#header[kindAt]!;
    this.#restBytes = Math.max(0, length - this.#headerBytes);
    this.#headerBytes = 0;
    if (this.#isReadable && this.#restBytes === 0) this.#visitor.ended(this.#kind, at);
  }
}
