/**
 * What a decision takes in each way that a Worker can ask for one, and what a million of them cost at a steady rate.
 *
 * All ways are measured in turns, in one process: a machine's speed drifts by more than what is looked for. Time is taken
 * from outside, as in `limits.ts`: clocks stand still within an event.
 */
import type { Lab, RestartableTarget, Target } from "./lab.ts";
import type { LimitsLoad, LimitsMeasurement } from "./limits-load.ts";
import { LOAD_SCRIPT } from "./limits-redis.ts";
import { medianOf, portOf } from "./limits.ts";
import { measurePrices, type RatePrice } from "./local-prices.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";
import type { CheckName } from "./workers/check-load.ts";

/** In the order of the table. */
export const WAYS = [
  "limit",
  "embedded",
  "relaxed",
  "relaxedEmbedded",
  "local",
  "localEmbedded",
  "limitMany",
  "localMany",
  "map",
  "counter",
  "put",
  "empty",
] as const satisfies CheckName[];
export type Way = (typeof WAYS)[number] | "redis";

export interface LocalFigures {
  /** Calls under way where throughput is measured. */
  readonly depth: number;
  /** A message that is answered at once, one at a time: each lone call has one. */
  readonly message: LimitsMeasurement;
  /** Those that were measured; without Redis where it is not installed. */
  readonly ways: readonly WayFigures[];
  readonly prices: readonly RatePrice[];
}

/** Medians of the rounds. */
export interface WayFigures {
  readonly way: Way;
  /** One call at a time, of one decision each; of `limitMany`, of many. */
  readonly lone: LimitsMeasurement;
  /** Lone calls a second, over those of `counter` in the same round. */
  readonly loneTimesCounter: number;
  /** Many calls at a time. */
  readonly many: LimitsMeasurement;
  /** Decisions a second, over those of `counter` in the same round. */
  readonly timesCounter: number;
  /** Decisions in a second of processor time, over those of `map` in the same round; null where that is not known. */
  readonly timesMap: number | null;
}

interface WayRound {
  readonly lone: LimitsMeasurement;
  readonly many: LimitsMeasurement;
}

type Round = ReadonlyMap<Way, WayRound>;

/** More than elsewhere: some differences are small. */
const ROUNDS_MIN = 9;
const QUICK_ROUNDS = 5;
const FIRST_WARM_UP_MS = 1000;
const DEPTH = 32;
const MANY_KEYS = 32;
/** Decisions of one message where throughput is measured: enough that the message itself costs little beside them. */
const FAST_LOOP = 4096;
const CALL_LOOP = 16;
/** Calls of many decisions. */
const MANY_WAYS: readonly Way[] = ["limitMany", "localMany"];
/** Those that decide in memory. */
const FAST_WAYS: readonly Way[] = ["local", "localEmbedded", "map"];

export async function measureLocal(
  lab: Lab,
  redis: Target | null,
  options: Options,
): Promise<LocalFigures> {
  if (redis !== null) await lab.tellRedis(redis, LOAD_SCRIPT);
  const target = await lab.startLocal();
  const figures = await new Local(lab, target, redis, options).measure();
  const prices = await measurePrices(lab, target, options);
  await target.kill();
  if (redis !== null) await lab.flushRedis(redis);
  return { depth: DEPTH, ...figures, prices };
}

class Local {
  readonly #lab: Lab;
  readonly #target: RestartableTarget;
  readonly #redis: Target | null;
  readonly #options: Options;

  constructor(lab: Lab, target: RestartableTarget, redis: Target | null, options: Options) {
    this.#lab = lab;
    this.#target = target;
    this.#redis = redis;
    this.#options = options;
  }

  async measure(): Promise<Pick<LocalFigures, "message" | "ways">> {
    for (const way of WAYS) await this.#askMany(way, FIRST_WARM_UP_MS);
    const rounds: Round[] = [];
    const messages: LimitsMeasurement[] = [];
    const { isQuick, rounds: asked } = this.#options;
    const count = isQuick ? QUICK_ROUNDS : Math.max(ROUNDS_MIN, asked);
    for (let round = 0; round < count; round++) {
      messages.push(await this.#ask("nothing", 1, 1));
      rounds.push(await this.#measureRound(round));
    }
    const measured: readonly Way[] = this.#redis === null ? WAYS : [...WAYS, "redis"];
    const ways = measured.map((way) => figuresOf(way, rounds));
    return { message: medianOf(messages), ways };
  }

  /** Each way goes first in turn. */
  async #measureRound(round: number): Promise<Round> {
    const measured = new Map<Way, WayRound>();
    for (let i = 0; i < WAYS.length; i++) {
      const way = WAYS[(i + round) % WAYS.length]!;
      const lone = await this.#ask(way, MANY_WAYS.includes(way) ? MANY_KEYS : 1, 1);
      measured.set(way, { lone, many: await this.#askMany(way) });
    }
    if (this.#redis !== null) {
      const lone = await this.#askRedis(this.#redis, 1);
      measured.set("redis", { lone, many: await this.#askRedis(this.#redis, DEPTH) });
    }
    return measured;
  }

  async #askMany(way: (typeof WAYS)[number], durationMs?: number): Promise<LimitsMeasurement> {
    const loop = FAST_WAYS.includes(way) ? FAST_LOOP : CALL_LOOP;
    return await this.#ask(way, MANY_WAYS.includes(way) ? MANY_KEYS : loop, DEPTH, durationMs);
  }

  async #ask(
    check: CheckName,
    checks: number,
    depth: number,
    durationMs = this.#options.durationMs,
  ): Promise<LimitsMeasurement> {
    return await this.#generate({
      port: portOf(this.#target),
      ask: { check, checks, keys: 1, walkFrom: null },
      depth,
      span: { warmUpMs: this.#options.warmUpMs, durationMs },
      runtimePid: this.#target.runtime()?.pid ?? null,
    });
  }

  async #askRedis({ port }: Target, depth: number): Promise<LimitsMeasurement> {
    const { warmUpMs, durationMs } = this.#options;
    return await this.#generate({
      port,
      ask: { check: "redis", keys: 1 },
      depth,
      span: { warmUpMs, durationMs },
      runtimePid: null,
    });
  }

  async #generate(load: LimitsLoad & { span: { warmUpMs: number; durationMs: number } }) {
    const { warmUpMs, durationMs } = load.span;
    const forMs = warmUpMs + durationMs;
    return await this.#lab.generate<LimitsMeasurement>("limits-load.ts", load, forMs);
  }
}

function figuresOf(way: Way, rounds: readonly Round[]): WayFigures {
  const isKnown = rounds.every((round) => round.get(way)!.many.processorUs !== null);
  const ratio = (to: Way, figure: keyof WayRound): number =>
    median(
      rounds.map((round) => {
        return round.get(way)![figure].checksPerS / round.get(to)![figure].checksPerS;
      }),
    );
  return {
    way,
    lone: medianOf(rounds.map((round) => round.get(way)!.lone)),
    many: medianOf(rounds.map((round) => round.get(way)!.many)),
    loneTimesCounter: ratio("counter", "lone"),
    timesCounter: ratio("counter", "many"),
    timesMap: isKnown
      ? median(
          rounds.map((round) => {
            return round.get("map")!.many.processorUs! / round.get(way)!.many.processorUs!;
          }),
        )
      : null,
  };
}
