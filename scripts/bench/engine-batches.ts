/** An engine without a server around it: batches as a shard gets them, and the rows that it would write taken. */
import { Engine } from "../../src/engine/engine.ts";
import { writeBatchHeader, writeSection } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import type { Protocol } from "../../src/wire/throttr/protocol.ts";

const BYTES_MAX = 512 << 20;
/** As in `src/objects/shard/journal.ts`. */
const ROW_BYTES_MAX = 1_900_000;
const REPLY_BYTES_MAX = 2 << 20;
const HASH_KEY = { low: 0x9e3779b9, high: 0x7f4a7c15 };

export function engineOf(isCounting: boolean): Engine {
  return new Engine({ hashKey: HASH_KEY, bytesMax: BYTES_MAX, isCounting });
}

/** Batches of so many frames each, in order; the last one may have fewer. */
export function batchesOf(
  protocol: Protocol,
  frames: readonly Uint8Array[],
  depth: number,
): Uint8Array[] {
  return Array.from({ length: Math.ceil(frames.length / depth) }, (_, batch) =>
    batchOf(protocol, frames.slice(batch * depth, (batch + 1) * depth)),
  );
}

function batchOf(protocol: Protocol, frames: readonly Uint8Array[]): Uint8Array {
  const out = new ByteWriter();
  writeBatchHeader(out, { shards: 1, fingerprint: 0 });
  writeSection(out, {
    protocolCode: protocol.code,
    replyBytesMax: REPLY_BYTES_MAX,
    frames: Buffer.concat(frames),
  });
  return out.take();
}

/** Applies a batch and takes its commit. */
export function applyBatch(engine: Engine, batch: Uint8Array): Uint8Array {
  const answer = engine.apply(batch, Date.now());
  if (engine.isDirty) engine.takeCommit(ROW_BYTES_MAX);
  return answer;
}

/**
 * Does something again and again for a while; returns how many operations that were in a second of this
 * thread's time on a processor: what others take of the machine is not counted.
 *
 * @param turn gives how many operations it was
 */
export function perProcessorS(turn: () => number, forMs: number): number {
  const start = process.threadCpuUsage();
  let operations = 0;
  for (;;) {
    operations += turn();
    const { user, system } = process.threadCpuUsage(start);
    const tookMs = (user + system) / 1000;
    if (tookMs >= forMs) return (operations / tookMs) * 1000;
  }
}
