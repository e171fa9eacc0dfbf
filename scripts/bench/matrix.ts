/**
 * The matrix: every combination of operation, depth, connections and shards, with the yardsticks
 * measured right beside the server, since a machine's speed drifts.
 */
import type { Operation } from "./frames.ts";
import type { Lab, Target, ThrottrTarget } from "./lab.ts";
import type { Measurement } from "./load.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";

/** What a cell was measured as. Echo and Redis know no shards, the echo no operations. */
export interface Cell {
  readonly operation: Operation;
  readonly depth: number;
  readonly connections: number;
  readonly shards: number;
  readonly server: Measurement;
  readonly echo: Measurement;
  /** With a file that is synced every second; null when Redis is not installed. */
  readonly redis: Measurement | null;
  /** With a file that is synced before each reply. */
  readonly redisAlways: Measurement | null;
}

/** Redis with both ways of syncing its file; null when it is not installed. */
export interface Redises {
  readonly everySecond: Target | null;
  readonly always: Target | null;
}

interface Targets {
  readonly echo: Target;
  readonly redis: Redises;
  readonly servers: ReadonlyMap<number, ThrottrTarget>;
}

/** Cells that differ in operation and shards only: measured together. */
export interface Group {
  readonly depth: number;
  readonly connections: number;
}

/** The largest that is allowed: records inserted at full speed stay for more than a second. */
export const SHARD_BYTES_MAX = 112 << 20;
/** An alarm collects expired records once a second. */
const COLLECTED_AFTER_MS = 1500;
/** Redis writes its file in the background. */
const REDIS_SETTLED_AFTER_MS = 300;
const FIRST_WARM_UP_MS = 1000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Measures the matrix.
 *
 * @param onGroup is called before each group, as a sign of progress
 */
export async function measureMatrix(
  lab: Lab,
  redis: Redises,
  options: Options,
  onGroup: (group: Group) => void,
): Promise<Cell[]> {
  const targets: Targets = {
    echo: await lab.startEcho(),
    redis,
    servers: await startServers(lab, options.shards),
  };
  const matrix = new Matrix(lab, targets, options);
  await matrix.warmUp();
  const cells: Cell[] = [];
  for (const connections of options.connections) {
    for (const depth of options.depths) {
      onGroup({ depth, connections });
      cells.push(...(await matrix.measureGroup({ depth, connections })));
    }
  }
  for (const server of targets.servers.values()) await server.kill();
  return cells;
}

async function startServers(
  lab: Lab,
  shardCounts: readonly number[],
): Promise<Map<number, ThrottrTarget>> {
  const servers = new Map<number, ThrottrTarget>();
  for (const shards of shardCounts) {
    const variables = { SHARDS: String(shards), SHARD_BYTES_MAX: String(SHARD_BYTES_MAX) };
    servers.set(shards, await lab.startThrottr(`shards-${shards}`, variables));
  }
  return servers;
}

class Matrix {
  readonly #lab: Lab;
  readonly #targets: Targets;
  readonly #options: Options;

  constructor(lab: Lab, targets: Targets, options: Options) {
    this.#lab = lab;
    this.#targets = targets;
    this.#options = options;
  }

  /** Lets every server compile what it runs often. */
  async warmUp(): Promise<void> {
    const load = { depth: 1024, connections: 1, warmUpMs: 1, durationMs: FIRST_WARM_UP_MS };
    await this.#lab.measure(this.#targets.echo, { ...load, operation: "UPDATE" });
    for (const server of this.#targets.servers.values()) {
      for (const operation of this.#options.operations) {
        await this.#lab.measure(server, { ...load, operation });
      }
    }
    await sleep(COLLECTED_AFTER_MS);
  }

  async measureGroup(group: Group): Promise<Cell[]> {
    const rounds: Cell[][] = [];
    for (let round = 0; round < this.#options.rounds; round++) {
      rounds.push(await this.#measureRound(group));
    }
    return rounds[0]!.map((cell, index) =>
      medianCell(
        rounds.map((round) => round[index]!),
        cell,
      ),
    );
  }

  async #measureRound(group: Group): Promise<Cell[]> {
    const echo = await this.#measure(this.#targets.echo, "UPDATE", group);
    const cells: Cell[] = [];
    for (const operation of this.#options.operations) {
      const servers = new Map<number, Measurement>();
      for (const [shards, server] of this.#targets.servers) {
        servers.set(shards, await this.#measure(server, operation, group));
        if (operation === "INSERT") await sleep(COLLECTED_AFTER_MS);
      }
      const { everySecond, always } = this.#targets.redis;
      const redis = await this.#measureRedis(everySecond, operation, group);
      const redisAlways = await this.#measureRedis(always, operation, group);
      for (const [shards, server] of servers) {
        cells.push({ operation, ...group, shards, server, echo, redis, redisAlways });
      }
    }
    return cells;
  }

  async #measureRedis(
    redis: Target | null,
    operation: Operation,
    group: Group,
  ): Promise<Measurement | null> {
    if (redis === null) return null;
    const measurement = await this.#measure(redis, operation, group);
    await this.#lab.flushRedis(redis);
    await sleep(REDIS_SETTLED_AFTER_MS);
    return measurement;
  }

  async #measure(target: Target, operation: Operation, group: Group): Promise<Measurement> {
    const { warmUpMs, durationMs } = this.#options;
    return await this.#lab.measure(target, { ...group, operation, warmUpMs, durationMs });
  }
}

function medianCell(cells: readonly Cell[], first: Cell): Cell {
  return {
    ...first,
    server: medianMeasurement(cells.map((cell) => cell.server)),
    echo: medianMeasurement(cells.map((cell) => cell.echo)),
    redis: first.redis && medianMeasurement(cells.map((cell) => cell.redis!)),
    redisAlways: first.redisAlways && medianMeasurement(cells.map((cell) => cell.redisAlways!)),
  };
}

function medianMeasurement(measurements: readonly Measurement[]): Measurement {
  return {
    opsPerS: median(measurements.map((measurement) => measurement.opsPerS)),
    p50Ms: median(measurements.map((measurement) => measurement.p50Ms)),
    p99Ms: median(measurements.map((measurement) => measurement.p99Ms)),
    refusedShare: median(measurements.map((measurement) => measurement.refusedShare)),
  };
}
