/**
 * A limit that is asked inside the Worker, beside one over a service binding and counter objects of the Worker's own.
 *
 * All of them write a durable row per call, in one process, and are measured in turns: a machine's speed drifts by more
 * than what is looked for. Calls come from outside, as in `limits.ts`.
 */
import type { Lab, RestartableTarget } from "./lab.ts";
import type { LimitsLoad, LimitsMeasurement } from "./limits-load.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import type { CheckName } from "./workers/check-load.ts";

/** In the order of the table. `counter` lies in SQL, `put` is read and put by its key. */
export const WAYS = ["embedded", "limit", "counter", "put"] as const satisfies CheckName[];
export type Way = (typeof WAYS)[number];

export interface EmbeddedCell {
  readonly depth: number;
  readonly ways: Readonly<Record<Way, WayFigures>>;
}

/** Medians of the rounds. */
export interface WayFigures {
  readonly callsPerS: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Calls a second, over those of `counter` in the same round. */
  readonly timesCounter: number;
  /** Time on processors that a call takes of the runtime; null where it is not known. */
  readonly processorUs: number | null;
}

const DEPTHS = [1, 32];
/** More than elsewhere: the differences are small. */
const ROUNDS_MIN = 9;
const QUICK_ROUNDS = 5;
const FIRST_WARM_UP_MS = 1000;

export async function measureEmbedded(lab: Lab, options: Options): Promise<EmbeddedCell[]> {
  const target = await lab.startEmbedded();
  const ask = async (way: Way, depth: number, durationMs: number): Promise<LimitsMeasurement> => {
    const { warmUpMs } = options;
    const load: LimitsLoad = {
      port: portOf(target),
      ask: { check: way, checks: 1, keys: 1, walkFrom: null },
      depth,
      span: { warmUpMs, durationMs },
      runtimePid: target.runtime()?.pid ?? null,
    };
    return await lab.generate("limits-load.ts", load, warmUpMs + durationMs);
  };
  for (const way of WAYS) await ask(way, DEPTHS.at(-1)!, FIRST_WARM_UP_MS);
  const rounds = options.isQuick ? QUICK_ROUNDS : Math.max(ROUNDS_MIN, options.rounds);
  const cells: EmbeddedCell[] = [];
  for (const depth of DEPTHS) {
    const measured: Record<Way, LimitsMeasurement>[] = [];
    for (let round = 0; round < rounds; round++) {
      const one: Partial<Record<Way, LimitsMeasurement>> = {};
      // Each way goes first in turn.
      for (let i = 0; i < WAYS.length; i++) {
        const way = WAYS[(i + round) % WAYS.length]!;
        one[way] = await ask(way, depth, options.durationMs);
      }
      measured.push(one as Record<Way, LimitsMeasurement>);
    }
    const ways = WAYS.map((way) => [way, figuresOf(way, measured)]);
    cells.push({ depth, ways: Object.fromEntries(ways) as Record<Way, WayFigures> });
  }
  await target.kill();
  return cells;
}

/** Straight to the runtime, where the system tells its port: the proxy of `wrangler dev` would take part of the time. */
function portOf(target: RestartableTarget): number {
  return target.runtime()?.httpPort() ?? target.httpPort;
}

function figuresOf(way: Way, rounds: readonly Record<Way, LimitsMeasurement>[]): WayFigures {
  const of = (read: (one: LimitsMeasurement) => number): number =>
    median(rounds.map((round) => read(round[way])));
  const isKnown = rounds.every((round) => round[way].processorUs !== null);
  return {
    callsPerS: of(({ checksPerS }) => checksPerS),
    p50Ms: of(({ p50Ms }) => p50Ms),
    p99Ms: of(({ p99Ms }) => p99Ms),
    timesCounter: median(rounds.map((round) => round[way].checksPerS / round.counter.checksPerS)),
    processorUs: isKnown ? of(({ processorUs }) => processorUs!) : null,
  };
}
