/**
 * Semaphores: pairs of an Acquire and its Release over TCP, on one connection, beside the original server
 * of the protocol where it is installed.
 */
import type { Lab, Target } from "./lab.ts";
import type { Measurement } from "./load.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import { yrmcdsdVersion } from "./yrmcdsd.ts";

export interface SemaphoreFigures {
  /** Version of the original server; null when it is not installed. */
  readonly yrmcdsd: string | null;
  readonly cells: readonly SemaphoreCell[];
}

/** Operations are pairs; `depth` of them are under way. */
export interface SemaphoreCell {
  readonly depth: number;
  readonly shards: number;
  readonly server: Measurement;
  /** Null when it is not installed. */
  readonly yrmcdsd: Measurement | null;
}

const DEPTHS = [1, 32, 1024];
const FIRST_WARM_UP_MS = 1000;

export async function measureSemaphores(lab: Lab, options: Options): Promise<SemaphoreFigures> {
  const yrmcdsd = await lab.startYrmcdsd();
  const servers = new Map<number, Target>();
  for (const shards of options.shards) {
    const variables = { SHARDS: String(shards) };
    servers.set(shards, await lab.startSemaphores(`semaphores-${shards}`, variables));
  }
  const measure = async (target: Target, depth: number, durationMs: number): Promise<Measurement> =>
    await lab.measure(target, {
      operation: "UPDATE",
      depth,
      connections: 1,
      warmUpMs: options.warmUpMs,
      durationMs,
    });
  const all = yrmcdsd === null ? [...servers.values()] : [...servers.values(), yrmcdsd];
  for (const target of all) await measure(target, DEPTHS.at(-1)!, FIRST_WARM_UP_MS);
  const cells: SemaphoreCell[] = [];
  for (const depth of DEPTHS) {
    // In turns, since a machine's speed drifts.
    const rounds = new Map(all.map((target): [Target, Measurement[]] => [target, []]));
    for (let round = 0; round < options.rounds; round++) {
      for (const target of all) {
        rounds.get(target)!.push(await measure(target, depth, options.durationMs));
      }
    }
    const original = yrmcdsd && medianOf(rounds.get(yrmcdsd)!);
    for (const [shards, target] of servers) {
      cells.push({ depth, shards, server: medianOf(rounds.get(target)!), yrmcdsd: original });
    }
  }
  return { yrmcdsd: yrmcdsd && yrmcdsdVersion(), cells };
}

function medianOf(measurements: readonly Measurement[]): Measurement {
  return {
    opsPerS: median(measurements.map(({ opsPerS }) => opsPerS)),
    p50Ms: median(measurements.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(measurements.map(({ p99Ms }) => p99Ms)),
    refusedShare: median(measurements.map(({ refusedShare }) => refusedShare)),
  };
}
