/** Batches, as doors send them to a shard, and the parts of its answer. */
import {
  BatchVersion,
  writeBatchHeader,
  writeSection,
  type Placement,
} from "../../../src/wire/batch.ts";
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { protocolByName, type Protocol } from "../../../src/wire/throttr/protocol.ts";
import type { ModelProtocol } from "../models/requests.ts";
import { concat } from "./bytes.ts";
import { protocolOf } from "./throttr.ts";

export interface Section {
  protocol: ModelProtocol;
  frames: readonly Uint8Array[];
  replyBytesMax?: number;
}

export const ONE_SHARD: Placement = { shards: 1, fingerprint: 0 };
export const EDGE: Protocol = protocolByName("edge", undefined)!;

const REPLY_BYTES_MAX = 1 << 23;

export function batchOf(
  sections: readonly Section[],
  placement: Placement = ONE_SHARD,
): Uint8Array<ArrayBuffer> {
  return written(
    sections.map((section) => ({ ...section, protocol: protocolOf(section.protocol) })),
    placement,
  );
}

/** A batch of one section, unless a placement is given for a shard alone. */
export function edgeBatch(
  frames: readonly Uint8Array[],
  replyBytesMax = REPLY_BYTES_MAX,
  placement = ONE_SHARD,
): Uint8Array {
  return written([{ protocol: EDGE, frames, replyBytesMax }], placement);
}

export function batchIn(
  sections: readonly { protocol: Protocol; frames: readonly Uint8Array[] }[],
  replyBytesMax = REPLY_BYTES_MAX,
): Uint8Array {
  return written(
    sections.map((section) => ({ ...section, replyBytesMax })),
    ONE_SHARD,
  );
}

interface WholeSection {
  protocol: Protocol;
  frames: readonly Uint8Array[];
  replyBytesMax?: number;
}

function written(sections: readonly WholeSection[], placement: Placement): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter();
  writeBatchHeader(out, placement);
  for (const { protocol, frames, replyBytesMax = REPLY_BYTES_MAX } of sections) {
    writeSection(out, { protocolCode: protocol.code, replyBytesMax, frames: concat(frames) });
  }
  return out.take();
}

/** The parts of an answer: frames answered and their replies. */
export function partsOf(answer: Uint8Array): { count: number; replies: Uint8Array }[] {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  if (view.getUint8(0) > BatchVersion.withRange) throw new Error("version");
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
