/** The engine of a shard, as its settings want it. */
import type { Settings } from "../../base/settings.ts";
import { Engine } from "../../engine/engine.ts";
import type { HashKey } from "../../engine/hash.ts";

/** @param hashKey seed of the table */
export function newEngine(settings: Settings, hashKey: HashKey): Engine {
  return new Engine({
    hashKey,
    // Which slots a hash leads to changes with every start, so keys that collide can't be collected over time.
    homeSalt: crypto.getRandomValues(new Uint32Array(1))[0]!,
    drawSalt: crypto.getRandomValues(new Uint32Array(1))[0]! >>> 12,
    bytesMax: settings.SHARD_BYTES_MAX,
    isCounting: settings.METRICS === "on",
    answerTtlMs: settings.IDEMPOTENCY_TTL_MS,
    semaphoreIntervalMs: settings.YRMCDS_STATS_INTERVAL_MS,
  });
}
