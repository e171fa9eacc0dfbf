/** Frames, batches and answers as the tests speak them. */
import {
  BATCH_VERSION,
  writeBatchHeader,
  writeSection,
  type Placement,
} from "../../../src/wire/batch.ts";
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { encodeRequest, type Request } from "../../../src/wire/throttr/encode.ts";
import { protocolByName, type Protocol } from "../../../src/wire/throttr/protocol.ts";
import type { ModelProtocol, ModelRequest } from "../engine/model.ts";

/** A key of the tests: one character a byte. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

export function protocolOf({ dialect, valueSize }: ModelProtocol): Protocol {
  return protocolByName(dialect, `uint${8 * valueSize}`) ?? protocolByName(dialect, undefined)!;
}

export function frameOf(protocol: ModelProtocol, request: ModelRequest): Uint8Array<ArrayBuffer> {
  const typed: Request = { ...request, key: bytesOf(request.key) };
  return encodeRequest(protocolOf(protocol), typed);
}

export interface Section {
  protocol: ModelProtocol;
  frames: readonly Uint8Array[];
  replyBytesMax?: number;
}

export const ONE_SHARD: Placement = { shards: 1, fingerprint: 0 };

export function batchOf(
  sections: readonly Section[],
  placement: Placement = ONE_SHARD,
): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter();
  writeBatchHeader(out, placement);
  for (const { protocol, frames, replyBytesMax = 1 << 23 } of sections) {
    writeSection(out, {
      protocolCode: protocolOf(protocol).code,
      replyBytesMax,
      frames: concat(frames),
    });
  }
  return out.take();
}

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter();
  for (const part of parts) out.copy(part);
  return out.take();
}

/** The parts of an answer: frames answered and their replies. */
export function partsOf(answer: Uint8Array): { count: number; replies: Uint8Array }[] {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  if (view.getUint8(0) !== BATCH_VERSION) throw new Error("version");
  const parts = [];
  for (let at = 1; at < answer.length;) {
    const length = view.getUint32(at + 4, true);
    parts.push({
      count: view.getUint32(at, true),
      replies: answer.subarray(at + 8, at + 8 + length),
    });
    at += 8 + length;
  }
  return parts;
}

export function hex(bytes: Iterable<number>): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function unhex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
