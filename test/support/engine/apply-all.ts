/** Many commands: a shard executes a bounded number in each call. */
import type { Engine } from "../../../src/engine/engine.ts";
import { SHARD_CALL_FRAMES_MAX } from "../../../src/engine/sizes.ts";
import { edgeBatch } from "../frames/index.ts";

export function applyAll(engine: Engine, frames: readonly Uint8Array[], nowMs: number): void {
  for (let from = 0; from < frames.length; from += SHARD_CALL_FRAMES_MAX)
    engine.apply(edgeBatch(frames.slice(from, from + SHARD_CALL_FRAMES_MAX)), nowMs);
}
