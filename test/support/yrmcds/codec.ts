/**
 * Requests and replies as values: the client's side of the protocol.
 *
 * Source: yrmcds protocol reference, "Packet specifications".
 */
import { binaryString } from "../../../src/wire/bytes.ts";
import { readU16, readU32, writeU16, writeU32 } from "../../../src/wire/yrmcds/big-endian.ts";
import { ENTRY_BYTES, type DumpForm } from "../../../src/wire/yrmcds/dump.ts";
import {
  HEADER_BYTES,
  NAME_BYTES_MAX,
  Opcode,
  REPLY_MAGIC,
  REQUEST_MAGIC,
} from "../../../src/wire/yrmcds/protocol.ts";
import { ACQUIRE_BYTES, GET_BYTES, RELEASE_BYTES } from "../../../src/wire/yrmcds/request.ts";

/** A request. Names have 1 to 65,535 bytes, resources and maximum are u32. */
export type Request =
  | { type: "noop" | "stats" | "dump" }
  | { type: "get"; name: Uint8Array }
  | { type: "acquire"; name: Uint8Array; resources: number; maximum: number }
  | { type: "release"; name: Uint8Array; resources: number };

const FIXED_BYTES: Readonly<Record<Request["type"], number>> = {
  noop: 0,
  get: GET_BYTES,
  acquire: ACQUIRE_BYTES,
  release: RELEASE_BYTES,
  stats: 0,
  dump: 0,
};

/**
 * The frame of a request.
 *
 * @param opaque u32 that comes back with the reply
 * @throws RangeError with the field's name when a number or the name does not fit the protocol
 */
export function encodeRequest(request: Request, opaque: number): Uint8Array<ArrayBuffer> {
  const fixedBytes = FIXED_BYTES[request.type];
  const name = "name" in request ? request.name : null;
  if (name !== null && (name.length === 0 || name.length > NAME_BYTES_MAX)) {
    throw new RangeError(`name: expected 1 to ${NAME_BYTES_MAX} bytes, got ${name.length}`);
  }
  const bodyBytes = fixedBytes + (name?.length ?? 0);
  const frame = new Uint8Array(HEADER_BYTES + bodyBytes);
  frame[0] = REQUEST_MAGIC;
  frame[1] = Opcode[request.type];
  writeU32(frame, 4, bodyBytes);
  putU32(frame, 8, opaque, "opaque");
  if ("resources" in request) putU32(frame, HEADER_BYTES, request.resources, "resources");
  if ("maximum" in request) putU32(frame, HEADER_BYTES + 4, request.maximum, "maximum");
  if (name !== null) {
    writeU16(frame, HEADER_BYTES + fixedBytes - 2, name.length);
    frame.set(name, HEADER_BYTES + fixedBytes);
  }
  return frame;
}

function putU32(frame: Uint8Array, at: number, value: number, field: string): void {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) {
    throw new RangeError(`${field}: expected a whole number from 0 to 4294967295, got ${value}`);
  }
  writeU32(frame, at, value);
}

/** A reply. The body of an error is its text. */
export interface Reply {
  opcode: number;
  status: number;
  opaque: number;
  body: Uint8Array;
}

/**
 * Reads the whole reply at `at`: `frameLength` of the scanner tells that it is whole. The body is a view.
 *
 * @throws RangeError when no reply begins there
 */
export function decodeReply(bytes: Uint8Array, at: number): Reply {
  if (bytes[at] !== REPLY_MAGIC) throw new RangeError(`magic: expected 0x91, got ${bytes[at]}`);
  const bodyAt = at + HEADER_BYTES;
  return {
    opcode: bytes[at + 1]!,
    status: bytes[at + 2]!,
    opaque: readU32(bytes, at + 8),
    body: bytes.subarray(bodyAt, bodyAt + readU32(bytes, at + 4)),
  };
}

/** Body of a successful Get, or Acquire, as a number. */
export function decodeNumber(body: Uint8Array): number {
  return readU32(body, 0);
}

/** Names and values of a successful Stats, in its order. */
export function decodeStats(body: Uint8Array): [name: string, value: string][] {
  const items: [string, string][] = [];
  for (let at = 0; at < body.length;) {
    const nameBytes = readU16(body, at);
    const valueBytes = readU16(body, at + 2);
    at += 4;
    items.push([binaryString(body, at, nameBytes), binaryString(body, at + nameBytes, valueBytes)]);
    at += nameBytes + valueBytes;
  }
  return items;
}

/** An entry of Dump. */
export interface DumpEntry {
  consumption: number;
  maximum: number;
  name: Uint8Array;
}

/** Reads the body of a reply to Dump; null for the one without a body, which ends the answer. */
export function decodeDumpEntry(body: Uint8Array, form: DumpForm): DumpEntry | null {
  if (body.length === 0) return null;
  const nameAt = ENTRY_BYTES[form];
  return {
    consumption: readU32(body, 0),
    maximum: readU32(body, nameAt - 6),
    name: body.subarray(nameAt, nameAt + readU16(body, nameAt - 2)),
  };
}
