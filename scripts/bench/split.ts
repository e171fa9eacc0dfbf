/**
 * A split of a shard with 24 MiB of counters: what its callers notice, what it writes, and, where a commit is named, whether one
 * shard is still as fast as it was there.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../server.ts";
import type { Lab, ThrottrTarget } from "./lab.ts";
import { SHARD_BYTES_MAX } from "./matrix.ts";
import { fillCounters } from "./million.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import { firstShardBytes, rowsWritten, splitAndWait } from "./split-calls.ts";
import type { SplitLoad, SplitMeasurement, SplitPhase } from "./split-load.ts";

export interface SplitBenchFigures {
  readonly counters: number;
  /** Memory of the shard before, by its own count. */
  readonly bytes: number;
  readonly cells: readonly SplitCell[];
  readonly rows: SplitRows;
  /** Null unless a commit was named. */
  readonly against: AgainstFigures | null;
}

/** A split under load; of several, medians, but for the longest time of all. */
export interface SplitCell extends SplitMeasurement {
  readonly depth: number;
  readonly splits: number;
}

/** Rows that a split without load has written, some seconds after it. */
export interface SplitRows {
  readonly splitShard: number;
  readonly newShard: number;
}

/** UPDATEs of one shard, beside an older release on the same machine at the same time. */
export interface AgainstFigures {
  readonly commit: string;
  /** Rates are by seconds of the runtime's time on processors: what else runs on the machine is not counted. */
  readonly isByProcessorTime: boolean;
  readonly cells: readonly AgainstCell[];
}

export interface AgainstCell {
  readonly depth: number;
  readonly opsPerS: number;
  readonly thenOpsPerS: number;
  /** The median of the ratios of pairs, and the least and largest of these. */
  readonly ratio: number;
  readonly ratios: readonly number[];
}

/** About 24 MiB. */
const COUNTERS = 325_000;
/** A shard of that size does not split by itself. */
const BYTES_MAX = 96 << 20;
const DEPTHS = [1, 1024];
const ROUNDS = 5;
const QUICK_ROUNDS = 2;
const WARM_UP_MS = 1500;
const QUIET_MS = 2000;
/** The shard that has split has dropped what it gave away by then. */
const SETTLE_MS = 3000;
/** At least. */
const AGAINST_PAIRS = 7;
const FIRST_WARM_UP_MS = 1000;

export async function measureSplit(lab: Lab, options: Options): Promise<SplitBenchFigures> {
  const rounds = options.isQuick ? QUICK_ROUNDS : ROUNDS;
  let bytes = 0;
  const filled = async (name: string): Promise<ThrottrTarget> => {
    const variables = { SHARDS: "1", SHARD_BYTES_MAX: String(BYTES_MAX) };
    const server = await lab.startThrottr(name, variables);
    await fillCounters(server.port, COUNTERS);
    bytes = await firstShardBytes(server.httpPort);
    return server;
  };
  const cells: SplitCell[] = [];
  for (const depth of DEPTHS) {
    const measured: SplitMeasurement[] = [];
    for (let round = 0; round < rounds; round++) {
      const server = await filled(`split-${depth}-${round}`);
      measured.push(await measureOne(lab, server, depth));
      await server.kill();
    }
    cells.push({ depth, splits: rounds, ...mediansOf(measured) });
  }
  const server = await filled("split-rows");
  const before = await rowsWritten(server.httpPort);
  await splitAndWait(server.httpPort);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const [splitShard, newShard] = await rowsWritten(server.httpPort);
  await server.kill();
  const rows = { splitShard: splitShard! - before[0]!, newShard: newShard! };
  const against =
    options.against === null ? null : await measureAgainst(lab, options, options.against);
  return { counters: COUNTERS, bytes, cells, rows, against };
}

async function measureOne(
  lab: Lab,
  { port, httpPort }: ThrottrTarget,
  depth: number,
): Promise<SplitMeasurement> {
  const times = { warmUpMs: WARM_UP_MS, quietMs: QUIET_MS };
  const load: SplitLoad = { port, httpPort, counters: COUNTERS, depth, ...times };
  return await lab.generate("split-load.ts", load, WARM_UP_MS + 2 * QUIET_MS);
}

function mediansOf(measured: readonly SplitMeasurement[]): SplitMeasurement {
  const phaseOf = (phase: "before" | "during" | "after"): SplitPhase => {
    const of = (figure: keyof SplitPhase): number[] => measured.map((one) => one[phase][figure]);
    return {
      opsPerS: median(of("opsPerS")),
      p50Ms: median(of("p50Ms")),
      p99Ms: median(of("p99Ms")),
      longestMs: Math.max(...of("longestMs")),
    };
  };
  return {
    before: phaseOf("before"),
    during: phaseOf("during"),
    after: phaseOf("after"),
    splitMs: median(measured.map(({ splitMs }) => splitMs)),
  };
}

/** In turns, as a machine's speed drifts; which goes first changes from pair to pair. */
async function measureAgainst(lab: Lab, options: Options, commit: string): Promise<AgainstFigures> {
  const variables = { SHARDS: "1", SHARD_BYTES_MAX: String(SHARD_BYTES_MAX) };
  const now = await lab.startThrottr("against-now", variables);
  const then = await lab.startThrottr("against-then", variables, sourcesAt(lab, commit));
  let isByProcessorTime = true;
  const update = async (
    server: ThrottrTarget,
    depth: number,
    warmUpMs: number,
  ): Promise<number> => {
    const { durationMs } = options;
    const load = { operation: "UPDATE", depth, connections: 1, warmUpMs, durationMs } as const;
    const runtime = server.runtime();
    const pid = runtime !== null && { runtimePid: runtime.pid };
    const measured = await lab.measure(server, { ...load, ...pid });
    isByProcessorTime &&= measured.opsPerProcessorS !== undefined;
    return measured.opsPerProcessorS ?? measured.opsPerS;
  };
  for (const server of [now, then]) await update(server, options.depths[0]!, FIRST_WARM_UP_MS);
  const cells: AgainstCell[] = [];
  for (const depth of options.depths) {
    const pairs: { now: number; earlier: number }[] = [];
    for (let pair = 0; pair < Math.max(AGAINST_PAIRS, options.rounds); pair++) {
      const measured = { now: 0, earlier: 0 };
      const order = pair % 2 === 0 ? (["now", "earlier"] as const) : (["earlier", "now"] as const);
      for (const which of order) {
        const server = which === "now" ? now : then;
        measured[which] = await update(server, depth, options.warmUpMs);
      }
      pairs.push(measured);
    }
    const ratios = pairs.map((pair) => pair.now / pair.earlier).toSorted((a, b) => a - b);
    cells.push({
      depth,
      opsPerS: median(pairs.map((pair) => pair.now)),
      thenOpsPerS: median(pairs.map((pair) => pair.earlier)),
      ratio: median(ratios),
      ratios,
    });
  }
  await now.kill();
  await then.kill();
  return { commit, isByProcessorTime, cells };
}

/** A copy of the sources as they were; returns its folder. */
function sourcesAt(lab: Lab, commit: string): string {
  const folder = join(lab.folder, "then");
  mkdirSync(folder);
  const parts = ["src", "scripts/bench/workers"];
  const archive = execFileSync("git", ["archive", commit, ...parts], {
    cwd: ROOT,
    maxBuffer: 1 << 28,
  });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  return folder;
}
