/** Requests of the yrmcds protocol as simulated clients send them, and what their replies say. */
import { readU16, readU32, writeU16, writeU32 } from "../../../../src/wire/yrmcds/big-endian.ts";
import {
  HEADER_BYTES,
  Opcode,
  REQUEST_MAGIC,
  Status,
} from "../../../../src/wire/yrmcds/protocol.ts";
import type {
  SemaphoreOperation,
  SemaphoreOutcome,
  SemaphoreRow,
} from "../../checks/semaphore-calls.ts";
import type { Sent } from "../pipe.ts";

/** Bytes of an entry of a Dump before its name, at the door that speaks as the protocol's document does. */
const ENTRY_BYTES = 14;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function yrmcdsRequest(operation: SemaphoreOperation, opaque: number): Sent {
  const [opcode, numbers, name] = partsOf(operation);
  const isNamed = name !== null;
  const nameBytes = encoder.encode(name ?? "");
  const bodyBytes = 4 * numbers.length + (isNamed ? 2 + nameBytes.length : 0);
  const frame = new Uint8Array(HEADER_BYTES + bodyBytes);
  frame[0] = REQUEST_MAGIC;
  frame[1] = opcode;
  writeU32(frame, 4, bodyBytes);
  writeU32(frame, 8, opaque);
  numbers.forEach((number, i) => writeU32(frame, HEADER_BYTES + 4 * i, number));
  if (isNamed) {
    const at = HEADER_BYTES + 4 * numbers.length;
    writeU16(frame, at, nameBytes.length);
    frame.set(nameBytes, at + 2);
  }
  const replyLength = opcode === Opcode.dump ? dumpLength : lengthOfOne;
  return { frame, replyLength };
}

function partsOf(operation: SemaphoreOperation): [number, number[], string | null] {
  switch (operation.type) {
    case "acquire":
      return [Opcode.acquire, [operation.resources, operation.maximum], operation.name];
    case "release":
      return [Opcode.release, [operation.resources], operation.name];
    case "get":
      return [Opcode.get, [], operation.name];
    case "list":
      return [Opcode.dump, [], null];
    case "stats":
      return [Opcode.stats, [], null];
    default:
      throw new Error(`the yrmcds protocol has no ${operation.type}`);
  }
}

function lengthOfOne(bytes: Uint8Array, at: number, end: number): number {
  if (at + HEADER_BYTES > end) return 0;
  const length = HEADER_BYTES + readU32(bytes, at + 4);
  return at + length > end ? 0 : length;
}

/** Up to the reply without a body, or an error. */
function dumpLength(bytes: Uint8Array, at: number, end: number): number {
  for (let next = at; ;) {
    const length = lengthOfOne(bytes, next, end);
    if (length === 0) return 0;
    const isLast = length === HEADER_BYTES || bytes[next + 2] !== Status.success;
    next += length;
    if (isLast) return next - at;
  }
}

/** @throws Error for a reply that does not answer the request */
export function outcomeOfYrmcds(
  operation: SemaphoreOperation,
  opaque: number,
  reply: Uint8Array,
): SemaphoreOutcome {
  const status = reply[2]!;
  if (readU32(reply, 8) !== opaque) throw new Error(`the reply to ${opaque} has another opaque`);
  switch (status) {
    case Status.success:
      return successOf(operation, reply);
    case Status.resourceNotAvailable:
      return "unavailable";
    case Status.outOfMemory:
      return "no room";
    case Status.notAcquired:
      return "not acquired";
    case Status.notFound:
      return "not found";
    default:
      throw new Error(`${operation.type} was answered with status ${status}`);
  }
}

function successOf(operation: SemaphoreOperation, reply: Uint8Array): SemaphoreOutcome {
  switch (operation.type) {
    case "acquire":
      return "granted";
    case "release":
      return "released";
    case "get":
      return { consumption: readU32(reply, HEADER_BYTES), mostHeld: null };
    case "list":
      return { rows: rowsOf(reply) };
    default:
      return { objects: objectsOf(reply) };
  }
}

function rowsOf(replies: Uint8Array): SemaphoreRow[] {
  const rows: SemaphoreRow[] = [];
  for (let at = 0; at < replies.length;) {
    const length = lengthOfOne(replies, at, replies.length);
    const body = replies.subarray(at + HEADER_BYTES, at + length);
    at += length;
    if (body.length === 0) break;
    rows.push({
      consumption: readU32(body, 0),
      mostHeld: readU32(body, 8),
      name: decoder.decode(body.subarray(ENTRY_BYTES)),
    });
  }
  return rows;
}

/** Of the items of Stats, the first one. */
function objectsOf(reply: Uint8Array): number {
  const at = HEADER_BYTES;
  const nameEnd = at + 4 + readU16(reply, at);
  const value = reply.subarray(nameEnd, nameEnd + readU16(reply, at + 2));
  return Number(decoder.decode(value));
}
