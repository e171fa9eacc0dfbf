/** What the benchmark asks a server about splits, over HTTP. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Overview } from "../../src/wire/overview.ts";
import type { Shards } from "../../src/wire/shards.ts";

const POLL_MS = 10;
const SPLIT_MS_MAX = 60_000;

/**
 * Splits the first shard, and returns once the new one serves its range.
 *
 * @returns how long that took, in milliseconds
 */
export async function splitAndWait(httpPort: number): Promise<number> {
  const startMs = performance.now();
  await ask(httpPort, "/v1/shards/split", { namespace: "default", shard: "0" });
  for (;;) {
    const { shards } = await ask<Shards>(httpPort, "/v1/shards");
    const tookMs = performance.now() - startMs;
    if (shards.length === 2 && shards[0]!.split === null) return tookMs;
    if (tookMs > SPLIT_MS_MAX)
      throw new Error(`the split has not ended: ${JSON.stringify(shards[0])}`);
    await sleep(POLL_MS);
  }
}

/** Rows that the shards have written since they were started. */
export async function rowsWritten(httpPort: number): Promise<number[]> {
  const { shards } = await ask<Overview>(httpPort, "/v1/overview");
  return shards.map((shard) => {
    if (shard.isUnreachable) throw new Error(`shard ${shard.shard}: ${shard.code}`);
    return shard.rowsWritten;
  });
}

/** Memory that the records of the first shard use. */
export async function firstShardBytes(httpPort: number): Promise<number> {
  return (await ask<Shards>(httpPort, "/v1/shards")).shards[0]!.bytes;
}

async function ask<T>(httpPort: number, path: string, body?: object): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${httpPort}${path}`, {
    ...(body && { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json" },
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}
