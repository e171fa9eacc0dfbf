/**
 * The yrmcds protocol as its text has it: requests as bytes, and replies read from a stream. It shares no
 * code with what is tested.
 */
import { bytesOf, concat } from "./bytes.ts";

export const HEADER_BYTES = 12;

export const OPCODE = {
  noop: 0x00,
  get: 0x01,
  acquire: 0x02,
  release: 0x03,
  stats: 0x10,
  dump: 0x11,
} as const;

/** Statuses, with the text that is the body of such a reply. */
export const ERRORS = {
  notFound: [0x01, "Not found"],
  invalidArguments: [0x04, "Invalid arguments"],
  notAvailable: [0x21, "Resource not available"],
  notAcquired: [0x22, "Not acquired"],
  unknownCommand: [0x81, "Unknown command"],
} as const;

export interface RawFrame {
  magic: number;
  opcode: number;
  flags: number;
  reserved: number;
  opaque: number;
  body: Uint8Array;
}

/** The bytes of a frame; the body's length is announced as it is. */
export function rawFrame({ magic, opcode, flags, reserved, opaque, body }: RawFrame): Uint8Array {
  const frame = new Uint8Array(HEADER_BYTES + body.length);
  frame.set([magic, opcode, flags, reserved]);
  const view = new DataView(frame.buffer);
  view.setUint32(4, body.length);
  view.setUint32(8, opaque);
  frame.set(body, HEADER_BYTES);
  return frame;
}

/** A request with any body. */
export function requestFrame(opcode: number, opaque = 0, body = new Uint8Array(0)): Uint8Array {
  return rawFrame({ magic: 0x90, opcode, flags: 0, reserved: 0, opaque, body });
}

/** The numbers of a body, u32 each, and a name behind its length. */
export function namedBody(numbers: readonly number[], name: Uint8Array): Uint8Array<ArrayBuffer> {
  const body = new Uint8Array(4 * numbers.length + 2 + name.length);
  const view = new DataView(body.buffer);
  for (const [i, number] of numbers.entries()) view.setUint32(4 * i, number);
  view.setUint16(4 * numbers.length, name.length);
  body.set(name, 4 * numbers.length + 2);
  return body;
}

export const noop = (opaque = 0): Uint8Array => requestFrame(OPCODE.noop, opaque);

export const get = (name: string, opaque = 0): Uint8Array =>
  requestFrame(OPCODE.get, opaque, namedBody([], bytesOf(name)));

export const acquire = (name: string, resources: number, maximum: number, opaque = 0): Uint8Array =>
  requestFrame(OPCODE.acquire, opaque, namedBody([resources, maximum], bytesOf(name)));

export const release = (name: string, resources: number, opaque = 0): Uint8Array =>
  requestFrame(OPCODE.release, opaque, namedBody([resources], bytesOf(name)));

export const stats = (opaque = 0): Uint8Array => requestFrame(OPCODE.stats, opaque);

export const dump = (opaque = 0): Uint8Array => requestFrame(OPCODE.dump, opaque);

/** A header that announces so many bytes of a body, and nothing of the body. */
export function headerOf(bodyBytes: number, opcode: number = OPCODE.noop): Uint8Array {
  const header = requestFrame(opcode);
  new DataView(header.buffer).setUint32(4, bodyBytes);
  return header;
}

export interface YrmcdsReply {
  magic: number;
  opcode: number;
  status: number;
  reserved: number;
  opaque: number;
  body: Uint8Array;
  /** All of it. */
  bytes: Uint8Array;
}

/** More replies to the same Dump follow this one. */
export function isContinued({ opcode, status, body }: YrmcdsReply): boolean {
  return opcode === OPCODE.dump && status === 0 && body.length > 0;
}

export function textOfBody({ body }: YrmcdsReply): string {
  return String.fromCharCode(...body);
}

export function numberOfBody({ body }: YrmcdsReply): number {
  if (body.length !== 4) throw new Error(`a body of 4 bytes is expected, not of ${body.length}`);
  return new DataView(body.buffer, body.byteOffset, 4).getUint32(0);
}

/** Cuts a stream into replies. */
export class ReplyReader {
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #neededBytes = HEADER_BYTES;

  /** Takes the next bytes of the stream, and returns the replies that end in them. */
  push(chunk: Uint8Array): YrmcdsReply[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#neededBytes) return [];
    const bytes = concat(this.#chunks);
    const view = new DataView(bytes.buffer);
    const replies: YrmcdsReply[] = [];
    let at = 0;
    this.#neededBytes = HEADER_BYTES;
    while (at + this.#neededBytes <= bytes.length) {
      this.#neededBytes = HEADER_BYTES + view.getUint32(at + 4);
      const end = at + this.#neededBytes;
      if (end > bytes.length) break;
      replies.push({
        magic: view.getUint8(at),
        opcode: view.getUint8(at + 1),
        status: view.getUint8(at + 2),
        reserved: view.getUint8(at + 3),
        opaque: view.getUint32(at + 8),
        body: bytes.subarray(at + HEADER_BYTES, end),
        bytes: bytes.subarray(at, end),
      });
      at = end;
      this.#neededBytes = HEADER_BYTES;
    }
    this.#chunks = [bytes.slice(at)];
    this.#bytes = bytes.length - at;
    return replies;
  }

  /** Bytes of a reply that has not ended. */
  get unreadBytes(): number {
    return this.#bytes;
  }
}

export type DumpEntryForm = "document" | "today";

export interface YrmcdsEntry {
  consumption: number;
  maximum: number;
}

/**
 * The entries of a whole answer to Dump, by name; all but the last reply have one.
 *
 * @throws Error when the answer is no such answer, or names a semaphore twice
 */
export function entriesOf(
  replies: readonly YrmcdsReply[],
  form: DumpEntryForm,
  opaque = 0,
): Map<string, YrmcdsEntry> {
  const entries = new Map<string, YrmcdsEntry>();
  for (const [i, reply] of replies.entries()) {
    const { body } = reply;
    const isSame = reply.opcode === OPCODE.dump && reply.status === 0 && reply.opaque === opaque;
    const isLast = i === replies.length - 1;
    if (!isSame || (body.length === 0) !== isLast) {
      throw new Error(`reply ${i} is no part of the answer to Dump ${opaque}`);
    }
    if (isLast) break;
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const maximumAt = form === "document" ? 8 : 4;
    if (form === "document" && view.getUint32(4) !== 0) throw new Error("reserved is not 0");
    const nameAt = maximumAt + 6;
    const nameBytes = view.getUint16(maximumAt + 4);
    if (body.length !== nameAt + nameBytes) throw new Error("the length of the name is wrong");
    const name = new TextDecoder("latin1").decode(body.subarray(nameAt));
    if (entries.has(name)) throw new Error(`a semaphore came twice: ${name}`);
    entries.set(name, { consumption: view.getUint32(0), maximum: view.getUint32(maximumAt) });
  }
  return entries;
}

/** The items of Stats, in order. */
export const STATS_ITEMS = [
  "objects",
  "total_objects",
  "used_memory",
  "conflicts",
  "gc_count",
  "last_gc_elapsed",
  "total_gc_elapsed",
  "curr_connections",
  "total_connections",
  "command:noop",
  "command:get",
  "command:acquire",
  "command:release",
  "command:stats",
  "command:dump",
] as const;
export type StatsItem = (typeof STATS_ITEMS)[number];

/**
 * The items of an answer to Stats.
 *
 * @throws Error when they are not exactly those of the protocol, in its order, and decimal
 */
export function statsOf({ body }: YrmcdsReply): Record<StatsItem, number> {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  const items: [string, number][] = [];
  for (let at = 0; at < body.length;) {
    const [nameBytes, valueBytes] = [view.getUint16(at), view.getUint16(at + 2)];
    const valueAt = at + 4 + nameBytes;
    const value = String.fromCharCode(...body.subarray(valueAt, valueAt + valueBytes));
    if (!/^(?:0|[1-9][0-9]*)$/.test(value)) throw new Error(`not decimal: ${value}`);
    items.push([String.fromCharCode(...body.subarray(at + 4, valueAt)), Number(value)]);
    at = valueAt + valueBytes;
  }
  const names = items.map(([name]) => name).join();
  if (names !== STATS_ITEMS.join()) throw new Error(`items of Stats: ${names}`);
  return Object.fromEntries(items) as Record<StatsItem, number>;
}
