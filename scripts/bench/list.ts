/**
 * LIST of a million keys over TCP and HTTP, beside KEYS of Redis: how long it takes, and what memory it
 * takes of the runtime.
 */
import { redisCommand } from "./frames.ts";
import type { Lab, Target } from "./lab.ts";
import type { ListLoad, ListMeasurement } from "./list-load.ts";
import { COUNTERS, fillCounters, KEY_BYTES } from "./million.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import type { MemoryGrowth } from "./runtime.ts";

export interface ListFigures {
  readonly keys: number;
  readonly keyBytes: number;
  readonly shards: number;
  readonly tcp: ListDoorFigures;
  readonly http: ListDoorFigures;
  /** Null when Redis is not installed. */
  readonly redis: ListMeasurement | null;
}

export interface ListDoorFigures extends ListMeasurement {
  /** Memory of the runtime in the round in which it grew most; null where the system does not tell. */
  readonly growth: MemoryGrowth | null;
}

type Door = "tcp" | "http";

interface Round {
  readonly result: ListMeasurement;
  readonly growth: MemoryGrowth | null;
}

const SHARDS = 4;
const ROUNDS = 5;
const QUICK_ROUNDS = 2;
const FRAGMENT_BYTES_MAX = 2048;
/** A LIST is given up when it takes longer. */
const LIST_MS = 60_000;
const FILL_SCRIPT = `for i = 0, ${COUNTERS - 1} do
  redis.call('SET', string.rep('k', ${KEY_BYTES} - #tostring(i)) .. i, '1000', 'EX', 10000)
end`;

/** Shards have the memory that they have by default; an INSERT that is refused ends the run. */
export async function measureList(
  lab: Lab,
  redis: Target | null,
  options: Options,
): Promise<ListFigures> {
  const server = await lab.startThrottr("list", { SHARDS: String(SHARDS) });
  await fillCounters(server.port);
  if (redis !== null) await lab.tellRedis(redis, redisCommand("EVAL", FILL_SCRIPT, "0"));
  const runtime = server.runtime();
  const ports = { tcp: server.port, http: server.httpPort };
  const rounds: Record<Door, Round[]> = { tcp: [], http: [] };
  const redisRounds: ListMeasurement[] = [];
  for (let round = 0; round < (options.isQuick ? QUICK_ROUNDS : ROUNDS); round++) {
    for (const door of ["tcp", "http"] as const) {
      const load = { door, port: ports[door] };
      const measured: Round =
        runtime === null
          ? { result: await ask(lab, load), growth: null }
          : await runtime.sample(() => ask(lab, load));
      assertFragments(measured.result);
      rounds[door].push(measured);
    }
    if (redis !== null) redisRounds.push(await ask(lab, { door: "redis", port: redis.port }));
  }
  await server.kill();
  if (redis !== null) await lab.flushRedis(redis);
  return {
    keys: COUNTERS,
    keyBytes: KEY_BYTES,
    shards: SHARDS,
    tcp: { ...medianOf(results(rounds.tcp)), growth: largestGrowth(rounds.tcp) },
    http: { ...medianOf(results(rounds.http)), growth: largestGrowth(rounds.http) },
    redis: redis && medianOf(redisRounds),
  };
}

async function ask(lab: Lab, load: ListLoad): Promise<ListMeasurement> {
  return await lab.generate<ListMeasurement>("list-load.ts", load, LIST_MS);
}

function results(rounds: readonly Round[]): ListMeasurement[] {
  return rounds.map(({ result }) => result);
}

function assertFragments({ fragmentBytesMax }: ListMeasurement): void {
  if (fragmentBytesMax <= FRAGMENT_BYTES_MAX) return;
  throw new Error(`a fragment has ${fragmentBytesMax} bytes of rows and keys`);
}

/** Times are medians; sizes are those of the first round. */
function medianOf(measurements: readonly ListMeasurement[]): ListMeasurement {
  return {
    ...measurements[0]!,
    firstByteMs: median(measurements.map(({ firstByteMs }) => firstByteMs)),
    tookMs: median(measurements.map(({ tookMs }) => tookMs)),
  };
}

function largestGrowth(rounds: readonly Round[]): MemoryGrowth | null {
  const grown = ({ peakBytes, beforeBytes }: MemoryGrowth): number => peakBytes - beforeBytes;
  const growths = rounds.flatMap(({ growth }) => (growth === null ? [] : [growth]));
  return growths.toSorted((a, b) => grown(b) - grown(a))[0] ?? null;
}
