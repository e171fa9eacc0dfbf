/**
 * A run of the simulation: places with isolates, a network and a shard, with all their troubles chosen by a seed. What
 * isolates admit is compared with what the strategy promises.
 */
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";
import { configurationOf, type LimitStrategy } from "../../../src/wire/edge/limit.ts";
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import { storageKey } from "../../../src/wire/ratelimit/keys.ts";
import { randomOf } from "../rate-limits/random.ts";
import { MachineClock } from "./clocks.ts";
import { DRIFT_MAX, History } from "./history.ts";
import { LIMITER_NAME, SimulatedIsolate, type LimiterManner } from "./isolate.ts";
import { lifeMsMaxOf, needsStates } from "./judges.ts";
import { SimulatedNetwork, type NetworkQuality } from "./network.ts";
import { SimulatedShard } from "./shard.ts";
import { anyState } from "./stored-states.ts";
import { VirtualTime } from "./virtual-time.ts";

/** Faults that are planted to see that they are found. */
export interface Plant {
  /** Replies leave the shard before their rows are on the disk. */
  readonly isRelaxed?: boolean;
  /** How often a request arrives twice. */
  readonly duplicates?: number;
  /** Clocks of isolates stand still now and then, from one event to the next. */
  readonly isStuck?: boolean;
  /** What limiters see of their client. */
  readonly wrap?: (backend: LimitBackend, time: VirtualTime) => LimitBackend;
}

export interface WorldOptions {
  readonly seed: number;
  readonly strategy: LimitStrategy;
  /** Requests of limiters, about. */
  readonly checks: number;
  readonly plant?: Plant;
}

export interface WorldOutcome {
  /** What broke the promise; null when all is well. */
  readonly violation: string | null;
  readonly checks: number;
  readonly granted: number;
  /** Messages that the shard has applied. */
  readonly calls: number;
}

const YEAR_MS = 365 * 86_400_000;
/** Clocks are not set further than this. */
const JUMP_MS_MAX = 10 * YEAR_MS;

export async function simulate(options: WorldOptions): Promise<WorldOutcome> {
  return await new World(options).run();
}

class World {
  readonly #options: WorldOptions;
  readonly #random: () => number;
  readonly #configuration: RateLimitConfiguration;
  readonly #time = new VirtualTime();
  readonly #history: History;
  readonly #machines: MachineClock[];
  readonly #shard: SimulatedShard;
  readonly #network: SimulatedNetwork;
  readonly #manner: LimiterManner;
  readonly #isolates: SimulatedIsolate[];
  /** About the life of an allowance: the measure of all times here. */
  readonly #lifeMs: number;
  readonly #intervalMs: number;
  readonly #keys: number;
  /** Isolates die, clocks jump, states are replaced. */
  readonly #isTroubled: boolean;
  /** The share of requests whose units are refunded. */
  readonly #refunds: number;
  /** States that were stored before, as a backup has them. */
  readonly #backup: { readonly key: string; readonly state: string }[] = [];
  #isolatesMade = 0;
  /** Requests that have come, and those that were begun. */
  #arrived = 0;
  #checks = 0;
  #granted = 0;
  /** How much faster requests come than usual. */
  #hurry = 1;
  #phaseEndMs = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { seed, strategy, plant = {} } = options;
    this.#random = randomOf(seed);
    // From numbers of its own, so that runs which have found something keep their course.
    this.#refunds = randomOf(~seed)() < 1 / 3 ? 0.2 : 0.003;
    this.#configuration = configurationOf(strategy);
    this.#history = new History(this.#configuration);
    const time = this.#time;
    const leaseMs = this.#pick([50, 200, 1000, 1000, 10_000]);
    this.#lifeMs = Math.max(1, Math.min(leaseMs, lifeMsMaxOf(this.#configuration)));
    this.#isTroubled = this.#isChance(0.7);
    this.#machines = Array.from({ length: 3 }, () => this.#machine());
    this.#shard = new SimulatedShard({
      time,
      random: this.#random,
      clock: this.#machine(),
      history: this.#history,
      needsStates: needsStates(this.#configuration),
      diskMs: this.#pick([0, 1, 15]),
    });
    this.#shard.isRelaxed = plant.isRelaxed ?? false;
    this.#network = new SimulatedNetwork({
      time,
      random: this.#random,
      quality: this.#quality(),
      history: this.#history,
      shard: this.#shard,
    });
    this.#network.duplicates = plant.duplicates ?? 0;
    this.#manner = {
      strategy,
      leaseMs,
      keysMax: this.#pick([2, 10_000, 10_000]),
      timeoutMs: this.#pick([this.#lifeMs * 2 + 1, 1000, 5000]),
      onError: this.#pick([undefined, "open", "closed"]),
      isShadow: this.#isChance(0.1),
      isPerRequest: this.#isChance(0.3),
      hasWaitUntil: this.#isChance(0.7),
    };
    this.#keys = this.#pick([1, 1, 2, 5]);
    this.#intervalMs = this.#usualInterval();
    this.#isolates = Array.from({ length: this.#pick([1, 2, 4, 8]) }, () => this.#isolate());
  }

  async run(): Promise<WorldOutcome> {
    this.#arrive();
    while (this.#arrived < this.#options.checks) {
      await this.#time.runUntil(this.#time.nowMs + 100 * this.#lifeMs);
    }
    await this.#time.runUntil(this.#time.nowMs + 30_000);
    return {
      violation: this.#history.violation(),
      checks: this.#checks,
      granted: this.#granted,
      calls: this.#shard.calls,
    };
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  #isChance(probability: number): boolean {
    return this.#random() < probability;
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)]!;
  }

  #machine(): MachineClock {
    const offsetMs = this.#pick([0, 50, 3000, -3000, 86_400_000]) * this.#random();
    return new MachineClock(this.#time, offsetMs, DRIFT_MAX * (2 * this.#random() - 1));
  }

  #quality(): NetworkQuality {
    const delayMs = this.#pick([this.#lifeMs / 50, this.#lifeMs / 4, 5, 30]);
    const lateMs = this.#pick([3 * this.#lifeMs, 3000]);
    const perfect = { unsent: 0, lostRequest: 0, lateRequest: 0, lostReply: 0, lateReply: 0 };
    const poor = {
      unsent: 0.02,
      lostRequest: 0.02,
      lateRequest: 0.05,
      lostReply: 0.03,
      lateReply: 0.05,
    };
    return { delayMs, lateMs, ...(this.#isTroubled ? poor : perfect) };
  }

  #isolate(): SimulatedIsolate {
    const isolate = new SimulatedIsolate({
      id: this.#isolatesMade++,
      time: this.#time,
      random: this.#random,
      machine: this.#pick(this.#machines),
      network: this.#network,
      history: this.#history,
      manner: this.#manner,
      wrap: this.#options.plant?.wrap,
    });
    return isolate;
  }

  /** Requests come at about the pace that the limit allows, slower or faster. */
  #usualInterval(): number {
    const load = this.#pick([0.3, 0.9, 1, 2, 10, 100]);
    const intervalMs = 1 / (paceOf(this.#configuration) * load * this.#keys);
    return Math.min(3 * this.#lifeMs, Math.max(this.#lifeMs / 1000, intervalMs));
  }

  /** The next request, and all that follow it. */
  #arrive(): void {
    if (this.#arrived >= this.#options.checks) return;
    if (this.#time.nowMs >= this.#phaseEndMs) {
      this.#hurry = this.#pick([0.03, 0.3, 1, 1, 1, 10]);
      this.#phaseEndMs = this.#time.nowMs + 40 * this.#lifeMs * this.#random();
    }
    if (this.#isTroubled) this.#trouble();
    this.#request(this.#pick(this.#isolates));
    const waitMs = (-Math.log(1 - this.#random()) * this.#intervalMs) / this.#hurry;
    this.#time.after(waitMs, () => this.#arrive());
  }

  #request(isolate: SimulatedIsolate): void {
    const choice = this.#random();
    const count = choice < 0.8 ? 1 : 1 + this.#below(choice < 0.9 ? 20 : 5);
    this.#arrived += count;
    if (choice < 0.9) isolate.enter(() => this.#limits(isolate, count));
    else if (choice < 0.94) this.#computing(isolate, count);
    else if (choice < 0.96) isolate.enter(() => this.#limitMany(isolate, count));
    else if (choice < 0.97) isolate.enter(() => this.#limitOnce(isolate));
    else if (choice < 0.98) isolate.enter(() => this.#block(isolate));
    else if (choice < 0.99) isolate.enter(() => this.#peek(isolate));
    else isolate.enter(() => this.#limits(isolate, 1, 1));
  }

  /** Requests of one event. */
  #limits(isolate: SimulatedIsolate, count: number, refunds = this.#refunds): void {
    const key = this.#key();
    for (let i = 0; i < count; i++) {
      const cost = this.#cost();
      const { limiter } = isolate;
      const asked = this.#ask(isolate, key, cost, () => limiter.limit(key, { cost }));
      if (this.#isChance(refunds)) void this.#refund(isolate, key, cost, asked);
    }
  }

  /** A caller that was granted something, and did not use it. */
  async #refund(
    isolate: SimulatedIsolate,
    key: string,
    cost: number,
    asked: Promise<boolean>,
  ): Promise<void> {
    if (!(await asked)) return;
    await ignored(isolate.limiter.refund(key, { cost }));
  }

  #computing(isolate: SimulatedIsolate, count: number): void {
    const runs = Array.from({ length: count }, () => () => this.#limits(isolate, 1));
    isolate.enterLong(runs, this.#random() * this.#lifeMs * this.#pick([0.1, 0.5, 2]));
  }

  #limitMany(isolate: SimulatedIsolate, count: number): void {
    const requests = Array.from({ length: count }, () => {
      return { key: this.#key(), cost: this.#cost() };
    });
    const results = isolate.limiter.limitMany(requests);
    for (const [i, { key, cost }] of requests.entries()) {
      void this.#ask(isolate, key, cost, async () => (await results)[i]!, true);
    }
  }

  #limitOnce(isolate: SimulatedIsolate): void {
    const key = this.#key();
    const cost = this.#cost();
    const idempotencyKey = `once-${this.#checks}`;
    void this.#ask(isolate, key, cost, () => isolate.limiter.limit(key, { cost, idempotencyKey }));
  }

  #block(isolate: SimulatedIsolate): void {
    const key = this.#key();
    const cost = this.#cost();
    void this.#ask(isolate, key, cost, () => {
      return isolate.limiter.blockUntilReady(key, 2 * this.#lifeMs, { cost });
    });
  }

  #peek(isolate: SimulatedIsolate): void {
    void ignored(isolate.limiter.peek(this.#key()));
  }

  async #ask(
    isolate: SimulatedIsolate,
    key: string,
    cost: number,
    ask: Parameters<SimulatedIsolate["ask"]>[2],
    isOfMany = false,
  ): Promise<boolean> {
    this.#checks++;
    const isGranted = await isolate.ask(this.#storageKey(key), cost, ask, isOfMany);
    if (isGranted) this.#granted++;
    return isGranted;
  }

  #key(): string {
    return `k${this.#below(this.#keys)}`;
  }

  #storageKey(key: string): string {
    return storageKey(LIMITER_NAME, key, this.#configuration.strategy === "composite");
  }

  #cost(): number {
    const choice = this.#random();
    if (choice < 0.8) return 1;
    if (choice < 0.97) return 1 + this.#below(4);
    return 1 + this.#below(limitOf(this.#configuration));
  }

  #trouble(): void {
    if (this.#isChance(0.004)) this.#evict();
    if (this.#isChance(0.002)) this.#restart();
    if (this.#isChance(0.003)) this.#pick(this.#machines).jump(this.#jumpMs());
    if (this.#isChance(0.001)) this.#shard.clock.jump(this.#jumpMs());
    if (this.#isChance(0.003)) void ignored(this.#pick(this.#isolates).limiter.reset(this.#key()));
    if (this.#isChance(0.002)) this.#set();
    if (this.#options.plant?.isStuck === true && this.#isChance(0.02)) {
      const { clock } = this.#pick(this.#isolates);
      clock.isStuck = !clock.isStuck;
    }
  }

  #evict(): void {
    const at = this.#below(this.#isolates.length);
    this.#isolates[at]!.evict();
    this.#isolates[at] = this.#isolate();
  }

  /** Sometimes on a machine with another clock. */
  #restart(): void {
    if (this.#isChance(0.3)) this.#shard.clock.jump(this.#pick([-1, 1]) * this.#random() * 3000);
    this.#shard.restart();
  }

  #jumpMs(): number {
    const spanMs = this.#pick([
      20,
      this.#lifeMs,
      10 * this.#lifeMs,
      3_600_000,
      Math.min(JUMP_MS_MAX, 15 * lifeMsMaxOf(this.#configuration)),
    ]);
    return this.#pick([-1, 1]) * this.#random() * spanMs;
  }

  /** A state comes from outside: one that was stored before, or any other. */
  #set(): void {
    const key = this.#storageKey(this.#key());
    const stored = this.#shard.stateOf(key);
    const before = this.#backup.find((entry) => entry.key === key);
    if (stored !== null && this.#isChance(0.5)) this.#backup.unshift({ key, state: stored });
    const state =
      before !== undefined && this.#isChance(0.5)
        ? before.state
        : anyState(this.#configuration, this.#shard.nowNs, this.#random);
    const isolate = this.#pick(this.#isolates);
    isolate.enter(() => void ignored(isolate.client.set(key, state, { ttlMs: JUMP_MS_MAX })));
  }
}

/** Units that a limit allows in a millisecond, in the long run. */
function paceOf(configuration: RateLimitConfiguration): number {
  switch (configuration.strategy) {
    case "fixed_window":
      return Math.min(
        ...configuration.quotas.map(({ limit, windowNs }) => (limit / Number(windowNs)) * 1e6),
      );
    case "sliding_window":
      return (configuration.limit / Number(configuration.windowNs)) * 1e6;
    case "composite":
      return Math.min(paceOf(configuration.primary), paceOf(configuration.secondary));
    default:
      return configuration.rate / 1000;
  }
}

/** The greatest cost that a limit ever grants. */
function limitOf(configuration: RateLimitConfiguration): number {
  switch (configuration.strategy) {
    case "fixed_window":
      return Math.min(...configuration.quotas.map(({ limit }) => limit));
    case "sliding_window":
      return configuration.limit;
    case "composite":
      return Math.min(limitOf(configuration.primary), limitOf(configuration.secondary));
    default:
      return configuration.burst;
  }
}

/** What becomes of the call does not matter here. */
async function ignored(call: PromiseLike<unknown>): Promise<void> {
  try {
    await call;
  } catch {
    // It failed, and may have been applied.
  }
}
