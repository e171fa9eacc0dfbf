/**
 * Callers that decide limits in their isolate, from units that they have drawn: the package's RateLimiter with `local`. Its isolate
 * fails now and then, and another one takes its place, without the units of the first.
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
import type { RateLimiter, RateLimitResult } from "../../../../src/ratelimit/index.ts";
import type { History } from "../../checks/history.ts";
import type { LimitCall, LimitOperation, LimitOutcome } from "../../checks/limits.ts";
import { RunningLife } from "../../platform/running-life.ts";
import { Machine } from "../../platform/site.ts";
import { pause, type Client } from "../client.ts";
import { clientOf, packageIn, type Runtime } from "../package.ts";
import { openOf } from "./outcome.ts";

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
const REFUND_SHARE = 0.01;
const RESET_SHARE = 0.002;
/** How long an isolate lives. */
const LIFE_MS = { least: 500, most: 200_000 };
/** How far a wall clock is set. */
const CLOCK_MS = 20_000;
/** Decisions cost hardly any work of a run: a caller makes more of them than others make requests. */
const REQUESTS_PER_SHARE = 3;

export interface LocalLimit {
  readonly name: string;
  readonly key: string;
  readonly strategy: LimitStrategy;
}

type OwnHistory = History<LimitOperation, LimitOutcome>;

export class LocalCaller {
  readonly #client: Client;
  readonly #history: OwnHistory;
  readonly #limits: readonly LocalLimit[];
  readonly #hasFaults: boolean;
  readonly #runtime: Runtime;
  readonly #machine: Machine;
  /** Calls of the isolate that are under way. */
  readonly #open = new Set<LimitCall>();
  #made = 0;
  #isolates = 0;

  constructor(
    client: Client,
    history: OwnHistory,
    limits: readonly LocalLimit[],
    hasFaults: boolean,
  ) {
    const { world, life, random } = client;
    this.#client = client;
    this.#history = history;
    this.#limits = limits;
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
        for (const call of this.#open) this.#history.giveUp(call);
        this.#open.clear();
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
    const { RateLimiter: Limiter } = packageIn(world, isolate, random, this.#runtime).limits;
    const leaseMs = random.pick(LEASES_MS);
    const waitUntil = (work: Promise<unknown>): void => isolate.waitUntil(work);
    const limiters = this.#limits.map(({ name, key, strategy }) => {
      const local = this.#runtime === "worker" ? { leaseMs, waitUntil } : { leaseMs };
      const limiter = new Limiter({ throttr, name, strategy, local });
      return async (): Promise<void> => await this.#call(own, { key, leaseMs, limiter });
    });
    while (this.#made < most * REQUESTS_PER_SHARE && !world.isClosing) {
      await this.#pause(own);
      const call = random.pick(limiters);
      const count = Math.round(random.skewed(MANY.least, MANY.most));
      for (let i = 0; i < count && !world.isClosing; i++) {
        this.#made++;
        const answered = call();
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

  /** Makes one request of a limit. */
  async #call(own: Client, { key: stored, leaseMs, limiter }: Asked): Promise<void> {
    const { random } = own;
    const key = `${limiter.name}:${stored}`;
    const share = random.next();
    if (share < RESET_SHARE) {
      return await this.#note({ name: "reset", key }, async () => ({
        success: await limiter.reset(stored),
      }));
    }
    const cost = 1 + random.int(COST_MOST);
    if (share < REFUND_SHARE) {
      return await this.#note({ name: "refund", key, cost }, async () =>
        outcomeOf(await limiter.refund(stored, { cost })),
      );
    }
    await this.#note({ name: "local", key, cost, leaseMs }, async () =>
      outcomeOf(await limiter.limit(stored, { cost })),
    );
  }

  async #note(operation: LimitOperation, ask: () => Promise<LimitOutcome>): Promise<void> {
    const { world, number } = this.#client;
    world.operations++;
    const asked = { client: number, door: "client", connection: null, operation } as const;
    const call = this.#history.begin(asked);
    this.#open.add(call);
    let outcome;
    try {
      outcome = await ask();
    } catch (error) {
      outcome = openOf(error);
    }
    this.#open.delete(call);
    if (outcome === "unknown") this.#history.giveUp(call);
    else this.#history.end(call, outcome);
  }
}

/** A limiter, and what it is asked about. */
interface Asked {
  readonly limiter: RateLimiter;
  readonly key: string;
  readonly leaseMs: number;
}

/** What the isolate has decided shows figures of an earlier answer. */
const outcomeOf = (result: RateLimitResult): LimitOutcome =>
  result.local === true
    ? { success: result.success }
    : { success: result.success, results: [result as LimitResult] };
