/**
 * Clients charge small limits of every strategy: alone, many in one message, several together, as estimates that they settle, and
 * relaxed; and again under the same id or idempotency key where they don't know what became of a call.
 */
import * as production from "../../../src/engine/sizes.ts";
import type { LimitResult, LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { limitOf } from "../../../src/wire/edge/limit.ts";
import type { Operation } from "../../../src/wire/edge/operation.ts";
import * as operations from "../../../src/wire/edge/operations.ts";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
} from "../../../src/ratelimit/strategies.ts";
import { isRelaxed, type Plan } from "../campaign/plan.ts";
import { History, isAnswered, type Violation } from "../checks/history.ts";
import {
  checkLimits,
  keysOf,
  type LimitCall,
  type LimitOperation,
  type LimitOutcome,
} from "../checks/limits.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { startClients, type Client } from "./client.ts";
import { PORTS } from "./every-port.ts";
import { giveUp } from "./give-up.ts";
import type { Port } from "./port.ts";
import { httpPort } from "./ports.ts";
import { bytesOf } from "./records/commands.ts";
import { shardsOf, splitsOf } from "./shards.ts";
import { LOCAL_STRATEGIES, LocalCaller } from "./limits/local.ts";
import { outcomeOf } from "./limits/outcome.ts";

/** Small, so that they are used up, and recover, again and again. */
const STRATEGIES: readonly LimitStrategy[] = [
  tokenBucket({ burst: 5, rate: 2 }),
  tokenBucket({ burst: 20, rate: 0.1 }),
  leakyBucket({ burst: 8, rate: 1.7 }),
  gcra({ burst: 4, rate: 3 }),
  gcra({ burst: 10, rate: 0.5 }),
  fixedWindow({ limit: 10, window: "5 s" }),
  fixedWindow([
    { name: "second", limit: 3, window: "1 s" },
    { name: "minute", limit: 30, window: "1 m" },
  ]),
  slidingWindow({ limit: 12, window: "10 s" }),
  composite({
    primary: fixedWindow({ limit: 15, window: "20 s" }),
    secondary: tokenBucket({ burst: 6, rate: 1 }),
  }),
];
const KEYS_MOST = 4;
const AGAIN_MOST = 3;
const ONCE_SHARE = 0.2;
/** Of calls that may be repeated: sent again though their answer came. */
const NEEDLESS_SHARE = 0.1;
/**
 * Each client has some limits that no other client uses. It looks at one, reserves, settles, and looks again: so what is left is known
 * exactly. Or it lets the limit recover between the two, and charges it: then it may get back less than it has reserved.
 */
const OWN = { limits: 2, share: 0.08, lateShare: 0.4, restMs: { least: 200, most: 10_000 } };
/** A limit is always relaxed, or never: what relaxed calls lose would else excuse strict ones. */
const RELAXED_KEY = "k3";
/** Reservations of other limits are settled with their estimate at most: a debt makes what is left hard to judge. */
const DEBT_KEYS: readonly string[] = ["k0", "k2"];
/** Of limits that some clients decide in their isolates. The others ask the server for the first one. */
const LOCAL_KEYS = ["hot", "warm"] as const;
const LOCAL_SHARE = 0.25;
const MANY = { share: 0.05, least: 2, most: 60 };
/** Of reservations that are settled: settled again later, with a cost of its own. */
const SETTLED_AGAIN_SHARE = 0.2;
const BURST_SHARE = 0.7;
/** Longer than anything is on its way, and than any disk is full. */
const REST_MS = 180_000;
/** A limit of one caller. */
interface Limit {
  readonly name: string;
  readonly key: string;
  readonly strategy: LimitStrategy;
}

const keyOf = ({ name, key }: Limit): string => `${name}:${key}`;

/** What is sent for an operation, and what its reply says. */
interface Request {
  readonly operation: LimitOperation;
  readonly frame: Operation<LimitOutcome>;
}

export class Limits implements Workload {
  readonly name = "limits";
  readonly #plan: Plan;
  readonly #limits = new Map<string, Limit>();
  #shared: readonly Limit[] = [];
  #history!: History<LimitOperation, LimitOutcome>;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    const random = world.random.fork("limits");
    const keys = 1 + random.int(KEYS_MOST);
    for (const [i, strategy] of STRATEGIES.entries()) {
      for (let j = 0; j < keys; j++) {
        const limit = { name: `limit${i}`, key: `k${j}`, strategy };
        this.#limits.set(keyOf(limit), limit);
      }
    }
    const [hot, warm] = LOCAL_KEYS.map((key) =>
      LOCAL_STRATEGIES.map((strategy, i) => ({ name: `local${i}`, key, strategy })),
    );
    for (const limit of hot!) this.#limits.set(keyOf(limit), limit);
    this.#shared = [...this.#limits.values()];
    for (const limit of warm!) this.#limits.set(keyOf(limit), limit);
    const { hasFaults } = this.#plan;
    startClients(world, this.name, this.#plan, async (client) => {
      if (client.number > 0 && client.random.chance(LOCAL_SHARE))
        await new LocalCaller(client, this.#history, LOCAL_KEYS, hasFaults).work();
      else await this.#work(client);
    });
  }

  #ownLimits(client: number): Limit[] {
    return Array.from({ length: OWN.limits }, (_, i) => {
      const strategy = (client + i * 4) % STRATEGIES.length;
      const own = {
        name: `limit${strategy}`,
        key: `own${client}`,
        strategy: STRATEGIES[strategy]!,
      };
      this.#limits.set(keyOf(own), own);
      return own;
    });
  }

  async #work({ world, life, random, number: client, most }: Client): Promise<void> {
    const port = random.pick(PORTS)(world, life, random);
    const chooser = new Chooser(
      random.fork("choice"),
      this.#shared,
      this.#ownLimits(client),
      client,
    );
    const pauseMs = this.#plan.durationMs / most;
    for (let made = 0; made < most && !world.isClosing;) {
      const ms = random.chance(BURST_SHARE)
        ? random.skewed(0.1, 500)
        : random.skewed(10, pauseMs * 8);
      await life.settled(Math.max(ms, chooser.restMs), "pause", () => {});
      const count = random.chance(MANY.share)
        ? Math.round(random.skewed(MANY.least, MANY.most))
        : 1;
      let requests = Array.from({ length: count }, () => chooser.next());
      for (let i = 0; i < AGAIN_MOST && requests.length > 0; i++) {
        made += requests.length;
        requests = await this.#exchange(world, port, client, requests, random);
      }
      chooser.noteReserved(this.#history.calls.slice(-count));
    }
    port.close();
  }

  /** @returns what is sent again, mostly as its outcome is unknown */
  async #exchange(
    world: World,
    port: Port,
    client: number,
    requests: readonly Request[],
    random: Random,
  ): Promise<Request[]> {
    const history = this.#history;
    world.operations += requests.length;
    const { door } = port;
    const calls = requests.map(({ operation }) =>
      history.begin({ client, door, connection: null, operation }),
    );
    const answers = await port.exchange(requests.map(({ frame }) => frame));
    return requests.filter(({ frame, operation }, i) => {
      const call = calls[i]!;
      const answer = answers[i]!;
      const outcome =
        answer.kind === "reply"
          ? outcomeOf(() => world.failures.read("limits", () => frame.read(answer.reply)))
          : answer.kind;
      if (outcome === "unknown") giveUp(world, history, call);
      else history.end(call, outcome);
      if (outcome === "refused" || !isRepeatable(operation)) return false;
      return outcome === "unknown" || random.chance(NEEDLESS_SHARE);
    });
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    await life.settled(REST_MS, "rest", () => {});
    const history = this.#history;
    for (const call of history.calls) {
      if (!isAnswered(call) && call.settled === null) history.settle(call);
    }
    const random = world.random.fork("finish of limits");
    const port = httpPort(world, life, random);
    const peeks = [...this.#limits.values()].map(peekOf);
    await this.#exchange(world, port, -1, peeks, random);
  }

  check(world: World): readonly Violation[] {
    const { facts } = world.witness;
    const shardOf = shardsOf(this.#plan);
    const storedKeyOf = (key: string): Uint8Array => bytesOf(limitOf(this.#limits.get(key)!).key);
    const objectOf = (key: string): string => shardOf(Keyspace.throttr, storedKeyOf(key));
    const areParted = splitsOf(this.#plan, facts);
    const isStale = ({ operation, begun, ended }: LimitCall): boolean =>
      ended !== null &&
      keysOf(operation).some((key) => facts.staleSince(objectOf(key), begun, ended) !== begun);
    // What a second copy of a shard refuses or shows may be old; strict charges of it are never answered.
    const calls = this.#history.calls.filter(
      (call) => !isAnswered(call) || !isUnchanged(call) || !isStale(call),
    );
    return checkLimits(calls, {
      clocks: world.clocks,
      objectOf,
      areParted: (keys, by) => areParted(Keyspace.throttr, keys.map(storedKeyOf), by),
      strategyOf: (key) => this.#limits.get(key)!.strategy,
      answersKept: world.answersKept,
      mayRefusePart: (object) => this.#plan.release !== "today" || facts.wasFull(object),
      hasLostRelaxed: (key, executed) => world.hasLostRelaxed(objectOf(key), executed),
      areRelaxed: isRelaxed(this.#plan),
      returnsAll: !this.#plan.hasFaults && world.sizes.DRAWS_MAX === production.DRAWS_MAX,
    });
  }
}

const isRepeatable = (operation: LimitOperation): boolean =>
  operation.name === "peek" ||
  operation.name === "reserve" ||
  operation.name === "settle" ||
  ("once" in operation && operation.once !== undefined);

function isUnchanged({ operation, outcome }: LimitCall): boolean {
  if (outcome === "unknown" || outcome === "refused") return false;
  return operation.name === "peek" || !outcome.success;
}

const says = (result: LimitResult): LimitOutcome => ({
  success: result.success,
  results: [result],
});

function requestOf<Result>(
  operation: LimitOperation,
  made: Operation<Result>,
  toOutcome: (result: Result) => LimitOutcome,
): Request {
  return { operation, frame: { ...made, read: (reply) => toOutcome(made.read(reply)) } };
}

function peekOf(limit: Limit): Request {
  return requestOf({ name: "peek", key: keyOf(limit) }, operations.peek(limit), says);
}

/** A request, and how long its client waits for it at least, in ms. */
interface Planned {
  readonly request: Request;
  readonly restMs?: number;
}

/** Chooses requests for one client. */
class Chooser {
  readonly #random: Random;
  readonly #limits: readonly Limit[];
  readonly #own: readonly Limit[];
  readonly #client: number;
  #made = 0;
  /** What comes next, before anything else is chosen. */
  #planned: readonly Planned[] = [];
  /** Reservations that may be settled. */
  readonly #reserved: { readonly limit: Limit; readonly id: string; readonly cost: number }[] = [];

  constructor(random: Random, limits: readonly Limit[], own: readonly Limit[], client: number) {
    this.#random = random;
    this.#limits = limits;
    this.#own = own;
    this.#client = client;
  }

  /** How long the client waits for what comes next, at least. */
  get restMs(): number {
    return this.#planned[0]?.restMs ?? 0;
  }

  next(): Request {
    const random = this.#random;
    const [planned, ...later] = this.#planned;
    this.#planned = later;
    if (planned !== undefined) return planned.request;
    if (random.chance(OWN.share)) return this.#reserveAlone(random.pick(this.#own));
    const limit = random.pick(this.#limits);
    const share = random.next();
    if (share < 0.5) return this.#limit(limit);
    if (share < 0.62) return peekOf(limit);
    if (share < 0.68) return this.#refund(limit);
    if (share < 0.7) return this.#reset(limit);
    if (share < 0.84) return this.#limitAll();
    const reserved = this.#reserved.pop();
    if (reserved !== undefined && random.chance(0.7)) {
      if (random.chance(SETTLED_AGAIN_SHARE)) this.#reserved.push(reserved);
      return this.#settle(reserved);
    }
    return this.#reserve(limit);
  }

  /** Reservations that were granted, or may have been. */
  noteReserved(calls: readonly LimitCall[]): void {
    for (const { client, operation, outcome } of calls) {
      if (client !== this.#client || operation.name !== "reserve" || outcome === "refused")
        continue;
      if (outcome !== "unknown" && !outcome.success) continue;
      const limit = this.#limits.find((each) => keyOf(each) === operation.key);
      // Those of its own are settled at once.
      if (limit === undefined) continue;
      this.#reserved.push({ limit, id: operation.id, cost: operation.cost });
    }
  }

  #cost(): number {
    return 1 + (this.#random.chance(0.4) ? this.#random.int(4) : 0);
  }

  #once(): { readonly once?: string } {
    return this.#random.chance(ONCE_SHARE) ? { once: `l${this.#client}.${++this.#made}` } : {};
  }

  #limit(limit: Limit): Request {
    const cost = this.#cost();
    const once = this.#once();
    const isRelaxed = limit.key === RELAXED_KEY;
    const made = operations.limit({
      ...limit,
      cost,
      ...(once.once === undefined ? {} : { idempotencyKey: once.once }),
      durability: isRelaxed ? "relaxed" : "strict",
    });
    return requestOf({ name: "limit", key: keyOf(limit), cost, ...once, isRelaxed }, made, says);
  }

  #refund(limit: Limit): Request {
    const cost = this.#cost();
    const made = operations.refund({ ...limit, cost });
    return requestOf({ name: "refund", key: keyOf(limit), cost }, made, says);
  }

  #reset(limit: Limit): Request {
    const made = operations.reset(limit);
    return requestOf({ name: "reset", key: keyOf(limit) }, made, (success) => ({ success }));
  }

  #limitAll(): Request {
    const random = this.#random;
    const count = 2 + random.int(4);
    const some = new Set(Array.from({ length: count }, () => random.pick(this.#limits)));
    const entries = [...some].map((limit) => {
      const isShadow = random.chance(0.1);
      return { limit, cost: this.#cost(), isShadow };
    });
    const made = operations.limitAll({
      requests: entries.map(({ limit, cost, isShadow }) => ({ ...limit, cost, shadow: isShadow })),
    });
    const parts = entries.map(({ limit, cost, isShadow }) => ({
      key: keyOf(limit),
      cost,
      isShadow,
    }));
    const operation = { name: "limitAll", key: parts[0]!.key, entries: parts } as const;
    return requestOf(operation, made, ({ success, results }) => ({ success, results }));
  }

  /** Looks at a limit before and after a reservation that is settled with less. */
  #reserveAlone(limit: Limit): Request {
    const random = this.#random;
    const cost = 2 + random.int(3);
    const id = uuidOf(random);
    const between: Planned[] = [];
    if (random.chance(OWN.lateShare)) {
      const restMs = random.skewed(OWN.restMs.least, OWN.restMs.most);
      between.push({ request: this.#limit(limit), restMs });
      between.push({ request: this.#limit(limit) });
    }
    this.#planned = [
      { request: this.#reserve(limit, cost, id) },
      ...between,
      { request: this.#settle({ limit, id, cost }) },
      { request: peekOf(limit) },
    ];
    return peekOf(limit);
  }

  #reserve(limit: Limit, cost = this.#cost(), id = uuidOf(this.#random)): Request {
    const ttlMs = 1000 + this.#random.int(60_000);
    const made = operations.reserve({ ...limit, cost, id, ttlMs });
    return requestOf({ name: "reserve", key: keyOf(limit), id, cost, ttlMs }, made, says);
  }

  #settle({ limit, id, cost }: { limit: Limit; id: string; cost: number }): Request {
    const real = this.#random.int(cost + (DEBT_KEYS.includes(limit.key) ? 2 : 1));
    const made = operations.settle({ ...limit, id, cost: real });
    const operation = { name: "settle", key: keyOf(limit), id, cost: real } as const;
    return requestOf(operation, made, ({ settled, success }) => ({ success, settled }));
  }
}

function uuidOf(random: Random): string {
  const hex = Array.from(random.bytes(16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20),
  ];
  return parts.join("-");
}
