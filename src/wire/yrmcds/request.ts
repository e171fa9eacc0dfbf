/**
 * A request, read in place: one view goes from frame to frame, and no object is made for any.
 *
 * Source: yrmcds protocol reference, "Packet specifications".
 */
import { readU16, readU32 } from "./big-endian.ts";
import { HEADER_BYTES, Opcode, REQUEST_MAGIC, Status } from "./protocol.ts";

/** Bytes of a body before the name. */
export const GET_BYTES = 2;
export const ACQUIRE_BYTES = 10;
export const RELEASE_BYTES = 6;

export class RequestView {
  opcode = 0;
  opaque = 0;
  /** Of the whole frame, in bytes. */
  length = 0;
  /**
   * `success` for a well-formed request; else `invalidArguments` or `unknownCommand`, which is the
   * answer to it.
   */
  status: Status = Status.success;
  /** Of Acquire and Release. */
  resources = 0;
  /** Of Acquire. */
  maximum = 0;
  /** Where the name lies, of a well-formed Get, Acquire or Release; its length is 0 for any other. */
  nameAt = 0;
  nameBytes = 0;

  /** Reads the whole frame at `at`. */
  read(bytes: Uint8Array, at: number): void {
    const bodyBytes = readU32(bytes, at + 4);
    this.opcode = bytes[at + 1]!;
    this.opaque = readU32(bytes, at + 8);
    this.length = HEADER_BYTES + bodyBytes;
    this.nameBytes = 0;
    this.status =
      bytes[at] === REQUEST_MAGIC
        ? this.#readBody(bytes, at + HEADER_BYTES, bodyBytes)
        : Status.invalidArguments;
  }

  #readBody(bytes: Uint8Array, at: number, length: number): Status {
    switch (this.opcode) {
      case Opcode.noop:
      case Opcode.stats:
      case Opcode.dump:
        return Status.success;
      case Opcode.get:
        return this.#readNamed(bytes, at, length, GET_BYTES);
      case Opcode.acquire:
        return this.#readNamed(bytes, at, length, ACQUIRE_BYTES);
      case Opcode.release:
        return this.#readNamed(bytes, at, length, RELEASE_BYTES);
      default:
        return Status.unknownCommand;
    }
  }

  /** @param fixedBytes of the body: its numbers, and the length of the name in the last two */
  #readNamed(bytes: Uint8Array, at: number, length: number, fixedBytes: number): Status {
    if (length < fixedBytes) return Status.invalidArguments;
    if (fixedBytes >= RELEASE_BYTES) this.resources = readU32(bytes, at);
    if (fixedBytes >= ACQUIRE_BYTES) {
      this.maximum = readU32(bytes, at + 4);
      if (this.resources === 0 || this.maximum < this.resources) return Status.invalidArguments;
    }
    const nameBytes = readU16(bytes, at + fixedBytes - 2);
    if (nameBytes === 0 || nameBytes > length - fixedBytes) return Status.invalidArguments;
    this.nameAt = at + fixedBytes;
    this.nameBytes = nameBytes;
    return Status.success;
  }
}
