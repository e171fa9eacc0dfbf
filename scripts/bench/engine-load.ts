/**
 * UPDATEs on the engine alone, without a server around it: batches as a shard gets them, and the rows
 * that it would write taken.
 *
 * Takes an `EngineLoad` as JSON in its first argument and prints an `EngineMeasurement` as JSON. A process
 * measures one engine only: a second one would change how the code of both is compiled.
 */
import { Engine } from "../../src/engine/engine.ts";
import { writeBatchHeader, writeSection } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { counterFrame, updateFrame } from "./frames.ts";
import { counterKey } from "./million.ts";

export interface EngineLoad {
  readonly isCounting: boolean;
  readonly keys: number;
  /** Frames of a batch. */
  readonly depth: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}

export interface EngineMeasurement {
  readonly opsPerS: number;
  /** Memory of the record table. */
  readonly bytes: number;
}

const BYTES_MAX = 512 << 20;
/** As in `src/objects/journal.ts`. */
const ROW_BYTES_MAX = 1_900_000;
const HASH_KEY = { low: 0x9e3779b9, high: 0x7f4a7c15 };

const protocol = protocolByName("7.3", "uint16")!;

function batchOf(frames: readonly Buffer[]): Uint8Array {
  const out = new ByteWriter();
  writeBatchHeader(out, { shards: 1, fingerprint: 0 });
  writeSection(out, protocol.code, frames.length, Buffer.concat(frames));
  return out.take();
}

/** Batches with a frame of each key. */
function batchesOf({ keys, depth }: EngineLoad, frameOf: (key: Buffer) => Buffer): Uint8Array[] {
  return Array.from({ length: Math.ceil(keys / depth) }, (_, batch) => {
    const from = batch * depth;
    const count = Math.min(depth, keys - from);
    return batchOf(Array.from({ length: count }, (__, i) => frameOf(counterKey(from + i))));
  });
}

function apply(engine: Engine, batch: Uint8Array): void {
  engine.apply(batch, Date.now());
  if (engine.isDirty) engine.takeCommit(ROW_BYTES_MAX);
}

/**
 * Updates all keys again and again for a while; returns how many updates that were in a second of this
 * thread's time on a processor: what others take of the machine is not counted.
 */
function run(engine: Engine, rounds: readonly Uint8Array[][], keys: number, forMs: number): number {
  const start = process.threadCpuUsage();
  let updates = 0;
  for (;;) {
    for (const batches of rounds) {
      for (const batch of batches) apply(engine, batch);
      updates += keys;
    }
    const { user, system } = process.threadCpuUsage(start);
    const tookMs = (user + system) / 1000;
    if (tookMs >= forMs) return (updates / tookMs) * 1000;
  }
}

function measure(load: EngineLoad): EngineMeasurement {
  const { isCounting, keys, warmUpMs, durationMs } = load;
  const engine = new Engine({ hashKey: HASH_KEY, bytesMax: BYTES_MAX, isCounting });
  for (const batch of batchesOf(load, counterFrame)) apply(engine, batch);
  if (engine.figures.records !== keys) throw new Error(`${engine.figures.records} records`);
  // Up, then down: the quota never leaves its range, and every update changes something.
  const rounds = [true, false].map((isUp) => batchesOf(load, (key) => updateFrame(key, isUp)));
  run(engine, rounds, keys, warmUpMs);
  return { opsPerS: run(engine, rounds, keys, durationMs), bytes: engine.figures.bytes };
}

process.stdout.write(JSON.stringify(measure(JSON.parse(process.argv[2]!) as EngineLoad)));
