/**
 * Replies: the server's side of the protocol.
 *
 * Source: yrmcds protocol reference, "Response header" and "Packet specifications".
 */
import { copyBytes, type ByteWriter } from "../bytes.ts";
import { writeU32 } from "./big-endian.ts";
import { errorBody, HEADER_BYTES, Opcode, REPLY_MAGIC, Status } from "./protocol.ts";

/**
 * Appends the header of a reply and room for its body, all of which the caller writes.
 *
 * @returns where the body begins
 */
export function beginReply(
  out: ByteWriter,
  opcode: number,
  status: number,
  opaque: number,
  bodyBytes: number,
): number {
  const at = out.reserve(HEADER_BYTES + bodyBytes);
  const { bytes } = out;
  bytes[at] = REPLY_MAGIC;
  bytes[at + 1] = opcode;
  bytes[at + 2] = status;
  bytes[at + 3] = 0;
  writeU32(bytes, at + 4, bodyBytes);
  writeU32(bytes, at + 8, opaque);
  return at + HEADER_BYTES;
}

/** Appends a success without a body: of Noop and Release, and the end of a Dump. */
export function writeSuccess(out: ByteWriter, opcode: number, opaque: number): void {
  beginReply(out, opcode, Status.success, opaque, 0);
}

/** Appends a success with a u32: the consumption that Get asks for, the resources that Acquire got. */
export function writeNumber(out: ByteWriter, opcode: number, opaque: number, value: number): void {
  const at = beginReply(out, opcode, Status.success, opaque, 4);
  writeU32(out.bytes, at, value);
}

/** Appends an error. */
export function writeError(out: ByteWriter, opcode: number, opaque: number, status: number): void {
  const body = errorBody(status);
  const replied = status === Status.unknownCommand ? Opcode.unknown : opcode;
  const at = beginReply(out, replied, status, opaque, body.length);
  copyBytes(body, 0, out.bytes, at, body.length);
}
