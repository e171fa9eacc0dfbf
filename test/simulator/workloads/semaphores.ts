/**
 * Clients share semaphores: by their connections, over the yrmcds protocol, and by leases, over all doors and by the package's
 * client. Holders sleep, are cut, close, and are reset with their Hubs; in the end only leases hold anything.
 */
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { isRelaxed, type Plan } from "../campaign/plan.ts";
import { History, type Violation } from "../checks/history.ts";
import { checkHolds, type Hold } from "../checks/holds.ts";
import { checkSemaphores } from "../checks/semaphores.ts";
import type {
  SemaphoreOperation,
  SemaphoreOutcome,
  SemaphoreRules,
} from "../checks/semaphore-calls.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { pause, startClients, type Client } from "./client.ts";
import { PORTS } from "./every-port.ts";
import { Pipe } from "./pipe.ts";
import type { Port } from "./port.ts";
import { httpPort } from "./ports.ts";
import type { Told } from "./semaphores/leases.ts";
import { PackageHolder } from "./semaphores/package-holder.ts";
import { outcomeOfYrmcds, yrmcdsRequest } from "./semaphores/yrmcds.ts";
import { bytesOf } from "./records/commands.ts";
import { Calls } from "./semaphores/calls.ts";
import { leaseIdOf, maximumOf, nameOf, NAMES, PREFIX } from "./semaphores/choice.ts";
import { shardsOf } from "./shards.ts";
import { YRMCDS, type WireKind } from "./wire.ts";

const LEASE_MS = { least: 50, most: 120_000 };
/** Most requests that a connection sends without waiting for replies. */
const PIPELINED_MOST = 6;
/** How often a client ends its connection: with a goodbye, or without one. */
const END_SHARE = 0.03;
const DESTROY_SHARE = 0.03;
const WIRES: readonly WireKind[] = ["websocket", "tcp", "gateway"];
/** Of the holders by leases: those that use the package's client. */
const PACKAGE_SHARE = 0.4;
/** How late alarms, calls and restarts of a run may let the end of a holder be. */
const SLACK_MS = 240_000;
/** Where nothing goes wrong, a connection that ends releases what it holds at once: as soon as calls have told of it. */
const AT_ONCE = { holderTimeoutMs: 0, slackMs: 2000 };

export class Semaphores implements Workload {
  readonly name = "semaphores";
  readonly #plan: Plan;
  readonly #holds: Hold[] = [];
  #history!: History<SemaphoreOperation, SemaphoreOutcome>;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    startClients(world, this.name, this.#plan, async (client) => {
      const isConnection = client.random.chance(0.5);
      if (isConnection) await new ConnectionHolder(client, this.#history).work();
      else if (client.random.fork("way of leases").chance(PACKAGE_SHARE))
        await new PackageHolder(client, this.#history, this.#holds).work();
      else await new LeaseHolder(client, this.#history).work();
    });
  }

  /** When the holders of all connections that have ended must have been found out, nothing but leases is held. */
  async finish(world: World, life: RunningLife): Promise<void> {
    const { HOLDER_TIMEOUT_MS } = world.settingsMost;
    await life.settled(HOLDER_TIMEOUT_MS + SLACK_MS, "rest", () => {});
    for (const call of this.#history.calls) {
      if (call.outcome === "unknown" && call.settled === null) this.#history.settle(call);
    }
    const random = world.random.fork("finish of semaphores");
    const port = httpPort(world, life, random);
    const calls = new Calls(world, this.#history, -1);
    const reads: SemaphoreOperation[] = [{ type: "list", prefix: PREFIX, isDump: false }];
    for (let i = 0; i < NAMES; i++) {
      reads.push({ type: "get", name: nameOf(i) }, { type: "holders", name: nameOf(i) });
    }
    for (const operation of reads) {
      const told = await calls.lease(port, operation);
      if (told === "unknown" || told === "refused") throw new Error("the last read failed");
    }
  }

  check(world: World): Violation[] {
    // Stats counts semaphores of all workloads.
    const hasOthers = this.#plan.workloads.includes("listings");
    const calls = this.#history.calls.filter(
      ({ operation }) => !hasOthers || operation.type !== "stats",
    );
    const { facts } = world.witness;
    return [
      ...checkSemaphores(calls, facts, rulesOf(this.#plan, world)),
      ...checkHolds(this.#holds),
    ];
  }
}

function rulesOf(plan: Plan, world: World): SemaphoreRules {
  const { settingsMost, witness } = world;
  const shardOf = shardsOf(plan);
  const { HOLDER_TIMEOUT_MS, YRMCDS_STATS_INTERVAL_MS } = settingsMost;
  return {
    shardOf: (name) => shardOf(Keyspace.semaphores, bytesOf(name)),
    wasFull: (shard) => witness.facts.wasFull(shard),
    statsIntervalMs: YRMCDS_STATS_INTERVAL_MS,
    hasLost: (shard, answered) => isRelaxed(plan) && world.hasLostRelaxed(shard, answered),
    ...(plan.hasFaults ? { holderTimeoutMs: HOLDER_TIMEOUT_MS, slackMs: SLACK_MS } : AT_ONCE),
  };
}

/** Holds by its connection. */
class ConnectionHolder {
  readonly #client: Client;
  readonly #calls: Calls;
  readonly #kind: WireKind;
  #pipe: Pipe | null = null;
  #opaque = 0;

  constructor(client: Client, history: History<SemaphoreOperation, SemaphoreOutcome>) {
    this.#client = client;
    this.#kind = client.random.pick(WIRES);
    this.#calls = new Calls(client.world, history, client.number);
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    while (this.#calls.made < most && !world.isClosing) {
      await pause(this.#client);
      const pipe = this.#open();
      const count = 1 + Math.floor(random.skewed(1, PIPELINED_MOST));
      const answered = this.#send(pipe, count);
      if (random.chance(END_SHARE)) pipe.end();
      else if (random.chance(DESTROY_SHARE)) pipe.destroy();
      if (random.chance(0.7)) await answered;
    }
    this.#pipe?.end();
  }

  #open(): Pipe {
    const { world, life, random } = this.#client;
    if (this.#pipe?.isOver === false) return this.#pipe;
    const connection = world.newConnection();
    const options = { kind: this.#kind, protocol: YRMCDS, connection };
    return (this.#pipe = new Pipe(world, life, random, options));
  }

  /** Several requests back to back. */
  async #send(pipe: Pipe, count: number): Promise<void> {
    const { random } = this.#client;
    const asked = Array.from({ length: count }, () => {
      const operation = requestOf(random);
      const opaque = ++this.#opaque;
      const call = this.#calls.begin(pipe.kind, pipe.connection, operation);
      return { call, operation, opaque, sent: yrmcdsRequest(operation, opaque) };
    });
    const answers = pipe.send(asked.map(({ sent }) => sent));
    await Promise.all(
      asked.map(async ({ call, operation, opaque }, i) => {
        const answer = await answers[i]!;
        const told =
          answer.kind === "reply" ? outcomeOfYrmcds(operation, opaque, answer.reply) : answer.kind;
        this.#calls.end(call, ownOf(told));
      }),
    );
  }
}

/** Dump has the semaphores of other workloads, too. */
function ownOf(told: Told): Told {
  if (typeof told === "string" || !("rows" in told)) return told;
  return { rows: told.rows.filter(({ name }) => name.startsWith(PREFIX)) };
}

function requestOf(random: Random): SemaphoreOperation {
  const name = nameOf(random.int(NAMES));
  const resources = 1 + random.int(3);
  const at = random.next();
  if (at < 0.45) return { type: "acquire", name, resources, maximum: maximumOf(random, resources) };
  if (at < 0.75) return { type: "release", name, resources: random.int(3) };
  if (at < 0.93) return { type: "get", name };
  if (at < 0.97) return { type: "list", prefix: "", isDump: true };
  return { type: "stats" };
}

/** Holds by leases. */
class LeaseHolder {
  readonly #client: Client;
  readonly #calls: Calls;
  readonly #port: Port;
  /** That it has asked for, with what it asked. */
  readonly #leases: { name: string; leaseId: string; resources: number }[] = [];

  constructor(client: Client, history: History<SemaphoreOperation, SemaphoreOutcome>) {
    const { world, life, random } = client;
    this.#client = client;
    this.#calls = new Calls(world, history, client.number);
    this.#port = random.pick(PORTS)(world, life, random);
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    while (this.#calls.made < most && !world.isClosing) {
      await pause(this.#client);
      await this.#calls.lease(this.#port, this.#next(world, random));
    }
    this.#port.close();
  }

  #next(world: World, random: Random): SemaphoreOperation {
    const at = random.next();
    const ttlMs = Math.round(random.skewed(LEASE_MS.least, LEASE_MS.most));
    const name = nameOf(random.int(NAMES));
    if (at < 0.15) return { type: "get", name };
    if (at < 0.2) return { type: "holders", name };
    if (at < 0.23) return { type: "list", prefix: PREFIX, isDump: false };
    const known = this.#leases.length > 0 ? random.pick(this.#leases) : null;
    if (known === null || at < 0.5) {
      const lease = { name, leaseId: leaseIdOf(random), resources: 1 + random.int(3) };
      this.#leases.push(lease);
      return {
        type: "acquire lease",
        ...lease,
        maximum: maximumOf(random, lease.resources),
        ttlMs,
      };
    }
    const { leaseId } = known;
    if (at < 0.54) return restorationOf(random, known, world.time.nowMs + ttlMs);
    if (at < 0.6) {
      const maximum = maximumOf(random, known.resources);
      return { type: "acquire lease", ...known, maximum, ttlMs };
    }
    if (at < 0.8) return { type: "renew lease", name: known.name, leaseId, ttlMs };
    return { type: "release lease", name: known.name, leaseId };
  }
}

/** As an import would, of a file that is older or newer than the lease. */
function restorationOf(
  random: Random,
  lease: { name: string; leaseId: string; resources: number },
  endsAtMs: number,
): SemaphoreOperation {
  const isReplacing = random.chance(0.5);
  // Of the same resources: of other ones the checkers would know less.
  return { type: "restore lease", ...lease, endsAtMs: Math.round(endsAtMs), isReplacing };
}
