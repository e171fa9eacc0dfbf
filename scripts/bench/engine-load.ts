/**
 * UPDATEs on the engine alone, without a server around it: batches as a shard gets them, and the rows
 * that it would write taken.
 *
 * Takes an `EngineLoad` as JSON in its first argument and prints an `EngineMeasurement` as JSON. A process
 * measures one engine only: a second one would change how the code of both is compiled.
 */
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { applyBatch, batchesOf, engineOf, perProcessorS } from "./engine-batches.ts";
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

const protocol = protocolByName("7.3", "uint16")!;

/** Batches with a frame of each key. */
function batchesOfKeys({ keys, depth }: EngineLoad, frameOf: (key: Buffer) => Buffer) {
  const frames = Array.from({ length: keys }, (_, index) => frameOf(counterKey(index)));
  return batchesOf(protocol, frames, depth);
}

function measure(load: EngineLoad): EngineMeasurement {
  const { isCounting, keys, warmUpMs, durationMs } = load;
  const engine = engineOf(isCounting);
  for (const batch of batchesOfKeys(load, counterFrame)) applyBatch(engine, batch);
  if (engine.figures.records !== keys) throw new Error(`${engine.figures.records} records`);
  // Up, then down: the quota never leaves its range, and every update changes something.
  const rounds = [true, false].map((isUp) => batchesOfKeys(load, (key) => updateFrame(key, isUp)));
  const updateAll = (): number => {
    for (const batches of rounds) for (const batch of batches) applyBatch(engine, batch);
    return rounds.length * keys;
  };
  perProcessorS(updateAll, warmUpMs);
  return { opsPerS: perProcessorS(updateAll, durationMs), bytes: engine.figures.bytes };
}

process.stdout.write(JSON.stringify(measure(JSON.parse(process.argv[2]!) as EngineLoad)));
