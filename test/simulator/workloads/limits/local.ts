/**
 * Callers that decide limits in their isolate, from units that they have drawn: the package's RateLimiter with `local`. They ask for
 * many keys at once, charge several limits together, and reserve, too. Its isolate fails now and then, and another one takes its
 * place, without the units of the first.
 *
 * An isolate of a Worker has one clock, which is right here. A process has two: its wall clock is set, and the other never goes back.
 */
import type { LimitResult, LimitStrategy } from "../../../../src/wire/edge/limit.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
} from "../../../../src/ratelimit/strategies.ts";
import type {
  LimitTogether,
  RateLimitAllResult,
  RateLimiter,
  RateLimitResult,
  Reservation,
} from "../../../../src/ratelimit/index.ts";
import type { History, Open } from "../../checks/history.ts";
import type { LimitCall, LimitOperation, LimitOutcome } from "../../checks/limits.ts";
import type { Random } from "../../kernel/random.ts";
import { RunningLife } from "../../platform/running-life.ts";
import { Machine } from "../../platform/site.ts";
import { pause, type Client } from "../client.ts";
import { giveUp } from "../give-up.ts";
import { clientOf, packageIn, type Runtime } from "../package.ts";
import { failureOf } from "./outcome.ts";

/** Of these an isolate draws several units at a time. They are used up when all callers come at once. */
export const LOCAL_STRATEGIES: readonly LimitStrategy[] = [
  tokenBucket({ burst: 60, rate: 20 }),
  leakyBucket({ burst: 50, rate: 12.5 }),
  gcra({ burst: 40, rate: 10 }),
  fixedWindow({ limit: 60, window: "4 s" }),
  fixedWindow([
    { name: "short", limit: 40, window: "3 s" },
    { name: "long", limit: 90, window: "20 s" },
  ]),
  slidingWindow({ limit: 60, window: "5 s" }),
  composite({
    primary: fixedWindow({ limit: 80, window: "6 s" }),
    secondary: tokenBucket({ burst: 50, rate: 15 }),
  }),
];
/** How long units live at most; a tenth of the window is shorter for some of the limits. */
const LEASES_MS = [100, 1000, 10_000];
/** All callers come at once, at each multiple of it, and by themselves. */
const WAVE_MS = 15_000;
const WAVE_SHARE = 0.7;
const IN_WAVE_MS = 200;
/** Requests on one limit, one after the other. */
const MANY = { least: 1, most: 60 };
const BETWEEN_MS = { least: 0.1, most: 40 };
const COST_MOST = 3;
/** Where they end, from 0 to 1. The rest is asked for one by one. */
const SHARES = { reset: 0.002, refund: 0.01, limitAll: 0.02, reserve: 0.03, limitMany: 0.06 };
/** Of the keys: the first one, which all callers come for. */
const FIRST_KEY_SHARE = 0.8;
const AT_ONCE = { least: 2, most: 6 };
const TOGETHER = { least: 2, most: 4 };
/** How long a reservation may be settled, and when it is: sometimes too late. */
const RESERVED_MS = { least: 1000, most: 20_000 };
const SETTLED_MS = { least: 1, most: 25_000 };
/** How long an isolate lives. */
const LIFE_MS = { least: 500, most: 200_000 };
/** How far a wall clock is set. */
const CLOCK_MS = 20_000;
/** Decisions cost hardly any work of a run: a caller makes more of them than others make requests. */
const REQUESTS_PER_SHARE = 3;

type OwnHistory = History<LimitOperation, LimitOutcome>;

export class LocalCaller {
  readonly #client: Client;
  readonly #history: OwnHistory;
  readonly #keys: readonly string[];
  readonly #hasFaults: boolean;
  readonly #runtime: Runtime;
  readonly #machine: Machine;
  /** Calls of the isolate that are under way. */
  readonly #open = new Set<LimitCall>();
  /** What ends the clocks of its requests. */
  readonly #ends = new Set<() => void>();
  #made = 0;
  #reserved = 0;
  #isolates = 0;

  constructor(client: Client, history: OwnHistory, keys: readonly string[], hasFaults: boolean) {
    const { world, life, random } = client;
    this.#client = client;
    this.#history = history;
    this.#keys = keys;
    this.#hasFaults = hasFaults;
    this.#runtime = random.chance(0.5) ? "worker" : "client";
    this.#machine = new Machine(world.time, `machine of ${life.name}`);
  }

  async work(): Promise<void> {
    while (!(await this.#live()));
  }

  /** Lets an isolate work until it is done, or fails. @returns whether it is done */
  async #live(): Promise<boolean> {
    const { world, life, random } = this.#client;
    const name = `isolate ${++this.#isolates} of ${life.name}`;
    const isolate = new RunningLife(world.cluster.site, this.#machine, "client", name);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    isolate.later(0, "begin", () => {
      void this.#callAll(isolate).then(() => life.later(0, "isolate is done", () => resolve(true)));
    });
    if (this.#hasFaults) {
      world.time.after(random.skewed(LIFE_MS.least, LIFE_MS.most), () => {
        if (world.isClosing) return;
        isolate.crash("isolate of a caller");
        for (const call of this.#open) giveUp(world, this.#history, call);
        this.#open.clear();
        for (const end of this.#ends) end();
        this.#ends.clear();
        if (this.#runtime === "client") this.#machine.offsetMs = CLOCK_MS * (random.next() - 0.5);
        life.later(0, "isolate has failed", () => resolve(false));
      });
    }
    return await promise;
  }

  async #callAll(isolate: RunningLife): Promise<void> {
    const { world, most } = this.#client;
    const random = world.random.fork(isolate.name);
    const own: Client = { ...this.#client, life: isolate, random };
    const throttr = clientOf(world, isolate, random, { runtime: this.#runtime });
    const { RateLimiter: Limiter, limitAll } = packageIn(
      world,
      isolate,
      random,
      this.#runtime,
    ).limits;
    const leaseMs = random.pick(LEASES_MS);
    const waitUntil = (work: Promise<unknown>): void => isolate.waitUntil(work);
    const limiters = LOCAL_STRATEGIES.map((strategy, i) => {
      const local = this.#runtime === "worker" ? { leaseMs, waitUntil } : { leaseMs };
      return new Limiter({ throttr, name: `local${i}`, strategy, local });
    });
    const charge: Isolate["charge"] = async (entries) => await limitAll(throttr, entries);
    const asked: Isolate = { own, limiters, leaseMs, charge };
    while (this.#made < most * REQUESTS_PER_SHARE && !world.isClosing) {
      await this.#pause(own);
      const limiter = random.pick(limiters);
      const count = Math.round(random.skewed(MANY.least, MANY.most));
      for (let i = 0; i < count && !world.isClosing; i++) {
        this.#made++;
        const answered = this.#call(asked, limiter);
        const ms = random.skewed(BETWEEN_MS.least, BETWEEN_MS.most);
        await Promise.all([isolate.settled(ms, "pause", () => {}), random.chance(0.5) && answered]);
      }
    }
    await throttr.close();
  }

  async #pause(own: Client): Promise<void> {
    const { world, life, random } = own;
    if (!random.chance(WAVE_SHARE)) return await pause(own);
    const ms = WAVE_MS - (world.time.nowMs % WAVE_MS) + random.next() * IN_WAVE_MS;
    await life.settled(ms, "pause", () => {});
  }

  /** Makes one request of a limiter. */
  async #call(isolate: Isolate, limiter: RateLimiter): Promise<void> {
    const { random, life } = isolate.own;
    const stored = this.#key(random);
    const key = `${limiter.name}:${stored}`;
    const share = random.next();
    if (share < SHARES.reset) {
      return await this.#note(life, { name: "reset", key }, async () => ({
        success: await limiter.reset(stored),
      }));
    }
    const cost = costOf(random);
    if (share < SHARES.refund) {
      return await this.#note(life, { name: "refund", key, cost }, async () =>
        outcomeOf(await limiter.refund(stored, { cost })),
      );
    }
    if (share < SHARES.limitAll) return await this.#limitAll(isolate);
    if (share < SHARES.reserve) return await this.#reserve(isolate, limiter, stored);
    if (share < SHARES.limitMany) return await this.#limitMany(isolate, limiter);
    const { leaseMs } = isolate;
    await this.#note(life, { name: "local", key, cost, leaseMs }, async () =>
      outcomeOf(await limiter.limit(stored, { cost })),
    );
  }

  #key(random: Random): string {
    return random.chance(FIRST_KEY_SHARE) ? this.#keys[0]! : random.pick(this.#keys);
  }

  /** Some of the keys may be the same. Each is decided by itself. */
  async #limitMany(
    { own: { random, life }, leaseMs }: Isolate,
    limiter: RateLimiter,
  ): Promise<void> {
    const count = AT_ONCE.least + random.int(AT_ONCE.most - AT_ONCE.least + 1);
    const entries = Array.from({ length: count }, () => ({
      key: random.pick(this.#keys),
      cost: costOf(random),
    }));
    const operations = entries.map(({ key, cost }): LimitOperation => ({
      name: "local",
      key: `${limiter.name}:${key}`,
      cost,
      leaseMs,
    }));
    await this.#noteAll(life, operations, async () =>
      (await limiter.limitMany(entries)).map((result) => outcomeOf(result)),
    );
  }

  async #limitAll({ own: { random, life }, limiters, charge }: Isolate): Promise<void> {
    const count = TOGETHER.least + random.int(TOGETHER.most - TOGETHER.least + 1);
    const some = new Set(Array.from({ length: count }, () => random.pick(limiters)));
    const entries = [...some].map((limiter) => ({
      limiter,
      key: this.#key(random),
      cost: costOf(random),
    }));
    const parts = entries.map(({ limiter, key, cost }) => ({
      key: `${limiter.name}:${key}`,
      cost,
    }));
    const operation = { name: "limitAll", key: parts[0]!.key, entries: parts } as const;
    await this.#note(life, operation, async () => {
      const { success, results } = await charge(entries);
      return { success, results: results as readonly LimitResult[] };
    });
  }

  /** Reserves, and settles later: with what it has cost, or with nothing. Units that were drawn stay out of it. */
  async #reserve({ own }: Isolate, limiter: RateLimiter, stored: string): Promise<void> {
    const { random, life } = own;
    const key = `${limiter.name}:${stored}`;
    const cost = 1 + costOf(random);
    const ttlMs = Math.round(random.skewed(RESERVED_MS.least, RESERVED_MS.most));
    const id = `${life.name} ${++this.#reserved}`;
    await this.#note(life, { name: "reserve", key, id, cost, ttlMs }, async () => {
      const held = await limiter.reserve(stored, { cost, ttlMs });
      this.#settleLater(own, limiter, { key, id, cost }, held);
      return outcomeOf(held);
    });
  }

  /** Nothing waits for it: where the isolate ends before, the estimate counts as spent. */
  #settleLater(
    { world, life, random }: Client,
    limiter: RateLimiter,
    { key, id, cost }: { readonly key: string; readonly id: string; readonly cost: number },
    held: Reservation,
  ): void {
    const { id: reservationId } = held;
    if (reservationId === null) return;
    const real = random.int(cost + 1);
    const isByLimiter = random.chance(0.3);
    life.later(random.skewed(SETTLED_MS.least, SETTLED_MS.most), "settle", () => {
      if (world.isClosing) return;
      void this.#note(life, { name: "settle", key, id, cost: real }, async () => {
        const { success, settled } = isByLimiter
          ? await limiter.settle(reservationId, real)
          : await (real === 0 ? held.release() : held.settle(real));
        return { success, settled: settled! };
      });
    });
  }

  async #note(
    life: RunningLife,
    operation: LimitOperation,
    ask: () => Promise<LimitOutcome>,
  ): Promise<void> {
    await this.#noteAll(life, [operation], async () => [await ask()]);
  }

  /** Notes what is asked for together. Where one of several fails, nothing is known of the others. */
  async #noteAll(
    life: RunningLife,
    operations: readonly LimitOperation[],
    ask: () => Promise<readonly LimitOutcome[]>,
  ): Promise<void> {
    const { world, number } = this.#client;
    world.operations += operations.length;
    const calls = operations.map((operation) =>
      this.#history.begin({ client: number, door: "client", connection: null, operation }),
    );
    for (const call of calls) this.#open.add(call);
    const end = world.times.begin("limiter", operations[0]!.name, life);
    this.#ends.add(end);
    let outcomes: readonly (LimitOutcome | Open)[];
    try {
      outcomes = await ask();
    } catch (error) {
      world.failures.noteCall(`${operations[0]!.name} of a limiter`, error, "limits");
      outcomes = calls.map(() => (calls.length > 1 ? "unknown" : failureOf(error)));
    }
    this.#ends.delete(end);
    end();
    for (const [i, call] of calls.entries()) {
      this.#open.delete(call);
      const outcome = outcomes[i]!;
      if (outcome === "unknown") giveUp(world, this.#history, call);
      else this.#history.end(call, outcome);
    }
  }
}

/** The limiters of an isolate. */
interface Isolate {
  readonly own: Client;
  readonly limiters: readonly RateLimiter[];
  readonly leaseMs: number;
  /** Charges several limits together. */
  readonly charge: (entries: readonly LimitTogether[]) => Promise<RateLimitAllResult>;
}

const costOf = (random: Random): number => 1 + random.int(COST_MOST);

/** What the isolate has decided shows figures of an earlier answer. */
const outcomeOf = (result: RateLimitResult): LimitOutcome =>
  result.local === true
    ? { success: result.success }
    : { success: result.success, results: [result as LimitResult] };
