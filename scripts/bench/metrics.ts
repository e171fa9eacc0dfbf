/**
 * What METRICS=on costs: UPDATEs a second, of a server and of the engine alone, and bytes per key.
 *
 * The two are measured in turns, and each pair is compared by itself: a machine's speed drifts by more
 * than what is looked for. Medians of the pairs count. Where the system tells it, time is that which the
 * runtime, or the engine's thread, is on a processor: what others take of the machine is not counted.
 */
import type { EngineLoad, EngineMeasurement } from "./engine-load.ts";
import { readFigures } from "./figures.ts";
import type { Lab, ThrottrTarget } from "./lab.ts";
import type { Measurement } from "./load.ts";
import { SHARD_BYTES_MAX } from "./matrix.ts";
import { COUNTERS, fillCounters, KEY_BYTES } from "./million.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";

export interface MetricsFigures {
  readonly server: readonly ServerCost[];
  readonly engine: readonly EngineCost[];
  readonly memory: MemoryCost;
}

export interface Cost {
  /** Where `isByProcessorTime`: in a second of time on processors. */
  readonly onOpsPerS: number;
  readonly offOpsPerS: number;
  /** Of the throughput without metrics, how much is lost: the median of the pairs. */
  readonly lostShare: number;
  /** Of each pair, in ascending order. */
  readonly lostShares: readonly number[];
}

export interface ServerCost extends Cost {
  readonly depth: number;
  readonly isByProcessorTime: boolean;
  /** By the clock on the wall: medians. */
  readonly onWallOpsPerS: number;
  readonly offWallOpsPerS: number;
}

export interface EngineCost extends Cost {
  readonly keys: number;
}

interface MemoryCost {
  readonly counters: number;
  readonly keyBytes: number;
  readonly onBytes: number;
  readonly offBytes: number;
  readonly bytesPerKey: number;
}

const DEPTHS = [1024, 8192];
const SERVER_PAIRS = 15;
const ENGINE_PAIRS = 9;
const QUICK_PAIRS = 5;
const ENGINE_KEYS = [4096, 1_000_000];
const ENGINE_DEPTH = 1024;
/** What an engine load takes to make its keys and batches. */
const ENGINE_SET_UP_MS = 10_000;
const FIRST_WARM_UP_MS = 1000;

export async function measureMetrics(lab: Lab, options: Options): Promise<MetricsFigures> {
  const variables = { SHARDS: "1", SHARD_BYTES_MAX: String(SHARD_BYTES_MAX) };
  const on = await lab.startThrottr("metrics-on", { ...variables, METRICS: "on" });
  const off = await lab.startThrottr("metrics-off", { ...variables, METRICS: "off" });
  const metrics = new Metrics(lab, options);
  await metrics.warmUp([on, off]);
  const server: ServerCost[] = [];
  for (const depth of DEPTHS) server.push(await metrics.serverCost(on, off, depth));
  await on.kill();
  await off.kill();
  const memory = await memoryCost(lab, variables);
  const engine: EngineCost[] = [];
  for (const keys of ENGINE_KEYS) engine.push(await metrics.engineCost(keys));
  return { server, engine, memory };
}

class Metrics {
  readonly #lab: Lab;
  readonly #options: Options;

  constructor(lab: Lab, options: Options) {
    this.#lab = lab;
    this.#options = options;
  }

  /** Lets servers compile what they run often. */
  async warmUp(servers: readonly ThrottrTarget[]): Promise<void> {
    for (const server of servers) await this.#update(server, DEPTHS[0]!, FIRST_WARM_UP_MS);
  }

  async serverCost(on: ThrottrTarget, off: ThrottrTarget, depth: number): Promise<ServerCost> {
    const { durationMs } = this.#options;
    const wallOpsPerS = { on: [] as number[], off: [] as number[] };
    let isByProcessorTime = true;
    const cost = await this.#compare(SERVER_PAIRS, async (isOn) => {
      const measured = await this.#update(isOn ? on : off, depth, durationMs);
      wallOpsPerS[isOn ? "on" : "off"].push(measured.opsPerS);
      isByProcessorTime &&= measured.opsPerProcessorS !== undefined;
      return measured.opsPerProcessorS ?? measured.opsPerS;
    });
    const onWallOpsPerS = median(wallOpsPerS.on);
    const offWallOpsPerS = median(wallOpsPerS.off);
    return { depth, isByProcessorTime, onWallOpsPerS, offWallOpsPerS, ...cost };
  }

  async engineCost(keys: number): Promise<EngineCost> {
    const { warmUpMs, durationMs } = this.#options;
    const cost = await this.#compare(ENGINE_PAIRS, async (isCounting) => {
      const load: EngineLoad = { isCounting, keys, depth: ENGINE_DEPTH, warmUpMs, durationMs };
      const measured = await this.#lab.generate<EngineMeasurement>(
        "engine-load.ts",
        load,
        warmUpMs + durationMs + ENGINE_SET_UP_MS,
      );
      return measured.opsPerS;
    });
    return { keys, ...cost };
  }

  async #update(server: ThrottrTarget, depth: number, durationMs: number): Promise<Measurement> {
    const { warmUpMs } = this.#options;
    const runtime = server.runtime();
    return await this.#lab.measure(server, {
      operation: "UPDATE",
      depth,
      connections: 1,
      warmUpMs,
      durationMs,
      ...(runtime !== null && { runtimePid: runtime.pid }),
    });
  }

  /** Measures with and without metrics in turns; which goes first changes from pair to pair. */
  async #compare(pairs: number, measure: (isOn: boolean) => Promise<number>): Promise<Cost> {
    const onOpsPerS: number[] = [];
    const offOpsPerS: number[] = [];
    for (let pair = 0; pair < (this.#options.isQuick ? QUICK_PAIRS : pairs); pair++) {
      for (const isOn of pair % 2 === 0 ? [true, false] : [false, true]) {
        (isOn ? onOpsPerS : offOpsPerS).push(await measure(isOn));
      }
    }
    const lostShares = onOpsPerS.map((opsPerS, pair) => 1 - opsPerS / offOpsPerS[pair]!);
    return {
      onOpsPerS: median(onOpsPerS),
      offOpsPerS: median(offOpsPerS),
      lostShare: median(lostShares),
      lostShares: lostShares.toSorted((a, b) => a - b),
    };
  }
}

async function memoryCost(
  lab: Lab,
  variables: Readonly<Record<string, string>>,
): Promise<MemoryCost> {
  const bytesWith = async (METRICS: string): Promise<number> => {
    const server = await lab.startThrottr(`million-metrics-${METRICS}`, { ...variables, METRICS });
    await fillCounters(server.port);
    const { bytes } = await readFigures(server);
    await server.kill();
    return bytes;
  };
  const [onBytes, offBytes] = [await bytesWith("on"), await bytesWith("off")];
  const bytesPerKey = (onBytes - offBytes) / COUNTERS;
  return { counters: COUNTERS, keyBytes: KEY_BYTES, onBytes, offBytes, bytesPerKey };
}
