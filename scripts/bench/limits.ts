/**
 * Rate limits, checked by a Worker over a service binding as other Workers of an account would, beside
 * the counter object of the platform's documentation, a bare call, and a script in Redis.
 *
 * Calls come from outside, one message each: a Worker that only ever waits for objects of its own
 * process never lets that process listen. Straight to the runtime: the proxy of `wrangler dev` would
 * take part of the time.
 */
import type { Lab, RestartableTarget, Target } from "./lab.ts";
import type { LimitsEngineLoad, LimitsEngineMeasurement } from "./limits-engine-load.ts";
import type { LimitsLoad, LimitsMeasurement } from "./limits-load.ts";
import { billOf, type Bill } from "./limits-price.ts";
import { LOAD_SCRIPT } from "./limits-redis.ts";
import { STRATEGIES, type StrategyName } from "./limits-strategies.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import { METER_PATH, type CheckName, type MeterFigures } from "./workers/check-load.ts";

export interface LimitsFigures {
  /** False: through the proxy of `wrangler dev`, where the system does not tell how to go round it. */
  readonly isDirect: boolean;
  /** Keys where there is more than one. */
  readonly keys: number;
  /** A message that is answered at once, one at a time. */
  readonly message: LimitsMeasurement;
  readonly cells: readonly LimitsCell[];
  readonly bills: readonly LimitsBill[];
  readonly engine: LimitsEngineFigures;
}

/** What is asked. */
interface Shape {
  readonly keys: number;
  /** Checks of a call. */
  readonly checks: number;
  /** Calls under way. */
  readonly depth: number;
}

/** What a shape was measured as; null where it was not. Yardsticks know no shards. */
export interface LimitsCell extends Shape {
  readonly shards: number;
  readonly server: LimitsMeasurement;
  readonly counter: LimitsMeasurement | null;
  readonly bare: LimitsMeasurement | null;
  readonly redis: LimitsMeasurement | null;
}

export interface LimitsBill extends Shape, Bill {
  /** Null for counters: there is one for each key. */
  readonly shards: number | null;
}

export interface LimitsEngineFigures {
  readonly keys: number;
  /** Checks of a batch. */
  readonly depth: number;
  readonly strategies: readonly (LimitsEngineMeasurement & { readonly strategy: StrategyName })[];
}

const KEYS = 10_000;
/** So few that making an object for each does not take most of the time. */
const QUICK_KEYS = 1000;
const DEPTHS = [1, 32, 256];
const CHECKS_PER_CALL = [32, 1024];
/** Objects that a runtime may have files open for at once. */
const COUNTERS_AT_ONCE = 2500;
const COUNTER_DEPTH = 32;
/** Calls of a bill: enough that what happens once hardly counts. */
const BILL_CALLS = 2000;
const BILL_CHECKS_MAX = 100_000;
const BILL_MS = 60_000;
const FIRST_WARM_UP_MS = 1000;
const ENGINE_KEYS = 4096;
const ENGINE_DEPTH = 1024;
/** What a process of the engine measures, one after the other. */
const ENGINE_PHASES = 3;

export async function measureLimits(
  lab: Lab,
  redis: Target | null,
  options: Options,
): Promise<LimitsFigures> {
  const servers = new Map<number, RestartableTarget>();
  for (const shards of options.shards) {
    servers.set(shards, await lab.startBound(`bound-${shards}`, { SHARDS: String(shards) }));
  }
  const counter = await lab.startCounter();
  if (redis !== null) await lab.tellRedis(redis, LOAD_SCRIPT);
  const limits = new Limits(lab, { servers, counter, redis }, options);
  const figures = await limits.measure();
  for (const server of [...servers.values(), counter]) await server.kill();
  if (redis !== null) await lab.flushRedis(redis);
  return { ...figures, engine: await measureEngine(lab, options) };
}

interface Targets {
  readonly servers: ReadonlyMap<number, RestartableTarget>;
  readonly counter: RestartableTarget;
  readonly redis: Target | null;
}

class Limits {
  readonly #lab: Lab;
  readonly #targets: Targets;
  readonly #options: Options;
  readonly #keys: number;

  constructor(lab: Lab, targets: Targets, options: Options) {
    this.#lab = lab;
    this.#targets = targets;
    this.#options = options;
    this.#keys = options.isQuick ? QUICK_KEYS : KEYS;
  }

  async measure(): Promise<Omit<LimitsFigures, "engine">> {
    const { servers, counter } = this.#targets;
    await this.#warmUp();
    const message = await this.#repeat({ keys: 1, checks: 1, depth: 1 }, (shape) =>
      this.#ask(this.#firstServer, "nothing", shape),
    );
    const cells: LimitsCell[] = [];
    for (const shape of this.#shapes(1)) cells.push(...(await this.#measureShape(shape)));
    await this.#makeCounters();
    for (const shape of this.#shapes(this.#keys)) cells.push(...(await this.#measureShape(shape)));
    const bills = await this.#measureBills();
    const isDirect = [...servers.values(), counter].every((target) => directPort(target) !== null);
    return { isDirect, keys: this.#keys, message, cells, bills };
  }

  /** What does not depend on the number of shards is measured with it. */
  get #firstServer(): RestartableTarget {
    return this.#targets.servers.values().next().value!;
  }

  #shapes(keys: number): Shape[] {
    const single = DEPTHS.map((depth) => ({ keys, checks: 1, depth }));
    if (keys === 1) return single;
    return [...single, ...CHECKS_PER_CALL.map((checks) => ({ keys, checks, depth: 1 }))];
  }

  /** Lets everything compile what it runs often. */
  async #warmUp(): Promise<void> {
    const span = { warmUpMs: 1, durationMs: FIRST_WARM_UP_MS };
    const { servers, counter } = this.#targets;
    const shape = { keys: this.#keys, checks: 1, depth: 32 };
    for (const server of servers.values()) {
      await this.#ask(server, "bare", shape, span);
      await this.#ask(server, "limit", shape, span);
      await this.#ask(server, "limitMany", { ...shape, checks: 32, depth: 1 }, span);
    }
    await this.#ask(counter, "counter", { ...shape, keys: 1 }, span);
  }

  /**
   * Makes a counter for each key. The runtime keeps objects awake for some seconds, each with files of
   * its own, and is started anew before they are too many.
   */
  async #makeCounters(): Promise<void> {
    const { counter } = this.#targets;
    const shape = { keys: this.#keys, checks: 1, depth: COUNTER_DEPTH };
    for (let from = 0; from < this.#keys; from += COUNTERS_AT_ONCE) {
      const calls = Math.min(COUNTERS_AT_ONCE, this.#keys - from);
      await this.#ask(counter, "counter", shape, { calls }, from);
      await counter.kill();
      await counter.start();
    }
    await this.#warmUp();
  }

  /** In turns, since a machine's speed drifts. */
  async #measureShape(shape: Shape): Promise<LimitsCell[]> {
    const rounds: LimitsCell[][] = [];
    for (let round = 0; round < this.#options.rounds; round++) {
      rounds.push(await this.#measureRound(shape));
    }
    return rounds[0]!.map((cell, index) =>
      medianCell(
        rounds.map((round) => round[index]!),
        cell,
      ),
    );
  }

  async #measureRound(shape: Shape): Promise<LimitsCell[]> {
    const { servers, counter: counters, redis: redisTarget } = this.#targets;
    const isSingle = shape.checks === 1;
    const measured = new Map<number, LimitsMeasurement>();
    for (const [shards, server] of servers) {
      measured.set(shards, await this.#ask(server, isSingle ? "limit" : "limitMany", shape));
    }
    const counter = isSingle ? await this.#ask(counters, "counter", shape) : null;
    const bare = isSingle ? await this.#ask(this.#firstServer, "bare", shape) : null;
    const redis = redisTarget && (await this.#askRedis(redisTarget, shape));
    return [...measured].map(([shards, server]) => {
      return { ...shape, shards, server, counter, bare, redis };
    });
  }

  async #measureBills(): Promise<LimitsBill[]> {
    const { servers, counter } = this.#targets;
    const bills: LimitsBill[] = [];
    for (const shape of this.#shapes(this.#keys)) {
      for (const [shards, server] of servers) {
        const check = shape.checks === 1 ? "limit" : "limitMany";
        const objects = Math.min(shards, shape.depth * shape.checks);
        bills.push({ ...(await this.#bill(server, check, shape, objects)), shards });
      }
    }
    for (const depth of DEPTHS) {
      const shape = { keys: this.#keys, checks: 1, depth };
      const objects = Math.min(depth, this.#keys);
      bills.push({ ...(await this.#bill(counter, "counter", shape, objects)), shards: null });
    }
    return bills;
  }

  async #bill(
    target: RestartableTarget,
    check: CheckName,
    shape: Shape,
    objects: number,
  ): Promise<Shape & Bill> {
    const calls = Math.min(BILL_CALLS, Math.ceil(BILL_CHECKS_MAX / shape.checks));
    const before = await readMeter(target);
    const { checksPerS } = await this.#ask(target, check, shape, { calls }, 0);
    const after = await readMeter(target);
    const metered = {
      requests: after.requests - before.requests,
      rowsWritten: after.rowsWritten - before.rowsWritten,
    };
    if (metered.requests === 0) throw new Error(`no request was counted: ${check}`);
    return { ...shape, ...billOf(metered, calls * shape.checks, checksPerS, objects) };
  }

  async #ask(
    target: RestartableTarget,
    check: CheckName,
    { keys, checks, depth }: Shape,
    span: LimitsLoad["span"] = this.#span(),
    walkFrom: number | null = null,
  ): Promise<LimitsMeasurement> {
    const load: LimitsLoad = {
      port: portOf(target),
      ask: { check, checks, keys, walkFrom },
      depth,
      span,
      runtimePid: target.runtime()?.pid ?? null,
    };
    return await this.#generate(load);
  }

  async #askRedis({ port }: Target, { keys, checks, depth }: Shape): Promise<LimitsMeasurement> {
    const ask = { check: "redis", keys } as const;
    return await this.#generate({
      port,
      ask,
      depth: depth * checks,
      span: this.#span(),
      runtimePid: null,
    });
  }

  async #generate(load: LimitsLoad): Promise<LimitsMeasurement> {
    const { span } = load;
    const durationMs = "calls" in span ? BILL_MS : span.warmUpMs + span.durationMs;
    return await this.#lab.generate<LimitsMeasurement>("limits-load.ts", load, durationMs);
  }

  #span(): LimitsLoad["span"] {
    const { warmUpMs, durationMs } = this.#options;
    return { warmUpMs, durationMs };
  }

  async #repeat(
    shape: Shape,
    measure: (shape: Shape) => Promise<LimitsMeasurement>,
  ): Promise<LimitsMeasurement> {
    const measurements: LimitsMeasurement[] = [];
    for (let round = 0; round < this.#options.rounds; round++) {
      measurements.push(await measure(shape));
    }
    return medianOf(measurements);
  }
}

/** Straight to the runtime, where the system tells its port: the proxy of `wrangler dev` would take part of the time. */
export function portOf(target: RestartableTarget): number {
  return directPort(target) ?? target.httpPort;
}

function directPort(target: RestartableTarget): number | null {
  return target.runtime()?.httpPort() ?? null;
}

async function readMeter({ httpPort }: RestartableTarget): Promise<MeterFigures> {
  const response = await fetch(`http://127.0.0.1:${httpPort}${METER_PATH}`);
  return (await response.json()) as MeterFigures;
}

function medianCell(cells: readonly LimitsCell[], first: LimitsCell): LimitsCell {
  return {
    ...first,
    server: medianOf(cells.map(({ server }) => server)),
    counter: first.counter && medianOf(cells.map(({ counter }) => counter!)),
    bare: first.bare && medianOf(cells.map(({ bare }) => bare!)),
    redis: first.redis && medianOf(cells.map(({ redis }) => redis!)),
  };
}

export function medianOf(measurements: readonly LimitsMeasurement[]): LimitsMeasurement {
  const of = (read: (measurement: LimitsMeasurement) => number): number =>
    median(measurements.map(read));
  const isKnown = measurements.every(({ processorUs }) => processorUs !== null);
  return {
    checksPerS: of(({ checksPerS }) => checksPerS),
    p50Ms: of(({ p50Ms }) => p50Ms),
    p99Ms: of(({ p99Ms }) => p99Ms),
    refusedShare: of(({ refusedShare }) => refusedShare),
    processorUs: isKnown ? of(({ processorUs }) => processorUs!) : null,
  };
}

async function measureEngine(lab: Lab, options: Options): Promise<LimitsEngineFigures> {
  const { warmUpMs, durationMs } = options;
  const count = options.isQuick ? 1 : options.rounds;
  const names = Object.keys(STRATEGIES) as StrategyName[];
  const strategies: (LimitsEngineMeasurement & { strategy: StrategyName })[] = [];
  for (const strategy of names) {
    const load: LimitsEngineLoad = {
      strategy,
      keys: ENGINE_KEYS,
      depth: ENGINE_DEPTH,
      warmUpMs,
      durationMs,
    };
    const rounds: LimitsEngineMeasurement[] = [];
    for (let round = 0; round < count; round++) {
      const forMs = ENGINE_PHASES * (warmUpMs + durationMs);
      rounds.push(
        await lab.generate<LimitsEngineMeasurement>("limits-engine-load.ts", load, forMs),
      );
    }
    strategies.push({
      strategy,
      encodeNs: median(rounds.map(({ encodeNs }) => encodeNs)),
      applyNs: median(rounds.map(({ applyNs }) => applyNs)),
      readNs: median(rounds.map(({ readNs }) => readNs)),
    });
  }
  return { keys: ENGINE_KEYS, depth: ENGINE_DEPTH, strategies };
}
