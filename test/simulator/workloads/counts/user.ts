/** A client that uses records of its own, and asks by STAT how often it has. No other client of a run sends STAT. */
import { replyLength } from "../../../../src/wire/throttr/replies.ts";
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import { Keyspace } from "../../../../src/wire/keyspace.ts";
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import { isRelaxed, type Plan } from "../../campaign/plan.ts";
import { History, type Violation } from "../../checks/history.ts";
import { beforeMs, earlier, isBefore, later } from "../../checks/order.ts";
import { checkRequests } from "../../checks/counts.ts";
import {
  checkUsage,
  type Seen,
  type UsageCall,
  type UsageOperation,
  type UsageOutcome,
  type UsageTerms,
} from "../../checks/usage.ts";
import type { Random } from "../../kernel/random.ts";
import type { World } from "../../world.ts";
import { uintAt } from "../../../support/frames/bytes.ts";
import type { RecordOperation } from "../../../support/models/record.ts";
import { pauseBeside } from "../client.ts";
import { PORTS } from "../every-port.ts";
import { exchangeNoted } from "./exchange.ts";
import type { Port } from "../port.ts";
import { bytesOf } from "../records/commands.ts";
import { frameOf as recordFrame } from "../records/frames.ts";
import { EDGE } from "../records/speech.ts";
import { shardsOf } from "../shards.ts";

const PREFIX = "counts:";
const KEYS = 4;
/** In hours: longer than any run. */
const TTL = { count: 1000, unit: 6 };
const PAUSE_MS = { least: 20, most: 40_000 };
/** Requests of a message, all on one key. */
const REQUESTS_MOST = 12;
const SHARES = { purge: 0.04, stat: 0.3, write: 0.5 };

export class CountedUser {
  readonly #plan: Plan;
  #history!: History<UsageOperation, UsageOutcome>;
  /** How often the server says in the end that it was asked for STAT, and when it says so; null where it was not asked. */
  told: (Seen & { readonly total: number }) | null = null;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    world.start("user of counted records", async (life) => {
      const random = world.random.fork(life.name);
      const port = random.pick(PORTS)(world, life, random);
      const keys = Array.from({ length: KEYS }, (_, i) => new OwnKey(`${PREFIX}${i}`));
      while (!world.isClosing) {
        await pauseBeside(world, life, random, PAUSE_MS);
        const key = random.pick(keys);
        const calls = await this.#exchange(world, port, key.operations(random));
        key.note(calls);
      }
      port.close();
    });
  }

  async #exchange(
    world: World,
    port: Port,
    operations: readonly UsageOperation[],
  ): Promise<readonly UsageCall[]> {
    const asked = operations.map((operation) => ({ operation, frame: frameOf(operation) }));
    return await exchangeNoted(world, this.#history, port, asked);
  }

  check(world: World): readonly Violation[] {
    const terms = termsOf(world, this.#plan);
    const { calls } = this.#history;
    // Where records may be lost with a reset, the client does not know which there are.
    const used = isRelaxed(this.#plan) ? [] : checkUsage(calls, terms);
    return [...used, ...this.#checkTotal(terms)];
  }

  #checkTotal({ countingSince, mayBeStale }: UsageTerms): Violation[] {
    const { told } = this;
    if (told === null) return [];
    const made = this.#history.calls.filter(({ operation }) => operation.name === "stat");
    return checkRequests("stat", told.total, made, (call) => {
      const { key } = call.operation;
      return isBefore(countingSince(key, told)[1], call.begun) && !mayBeStale(key, call);
    });
  }
}

function termsOf({ witness: { facts } }: World, plan: Plan): UsageTerms {
  const shardOf = shardsOf(plan);
  const objectOf = (key: string): string => shardOf(Keyspace.throttr, bytesOf(key));
  return {
    countingSince: (key, { begun, ended }) => {
      const object = objectOf(key);
      const starts = facts.livesBetween(object, begun, ended).map((life) => life.begun);
      // A split hands on what an earlier life has counted.
      const isApart = facts.membersOf(object).length > 1;
      return [isApart ? beforeMs(-Infinity) : starts.reduce(earlier), starts.reduce(later)];
    },
    mayMissReads: (key) => facts.membersOf(objectOf(key)).length > 1,
    mayBeStale: (key, { begun, ended }) =>
      ended !== null && facts.staleSince(objectOf(key), begun, ended) !== begun,
  };
}

/** A key of the client, which never makes two calls on it at once. Where it does not know what became of the record, it takes another key. */
class OwnKey {
  readonly #name: string;
  #generation = 0;
  #isThere = false;

  constructor(name: string) {
    this.#name = name;
  }

  operations(random: Random): UsageOperation[] {
    const key = `${this.#name}.${this.#generation}`;
    if (!this.#isThere) return [{ key, name: "insert" }];
    if (random.chance(SHARES.purge)) return [{ key, name: "purge" }];
    const count = 1 + Math.floor(random.skewed(0.1, REQUESTS_MOST));
    return Array.from({ length: count }, () => {
      if (random.chance(SHARES.stat)) return { key, name: "stat" };
      return { key, name: random.chance(SHARES.write) ? "write" : "read" };
    });
  }

  note(calls: readonly UsageCall[]): void {
    for (const { operation, outcome } of calls) {
      if (operation.name !== "insert" && operation.name !== "purge") continue;
      if (outcome === "refused") continue;
      if (outcome === "unknown") {
        this.#generation++;
        this.#isThere = false;
      } else if (outcome.success) this.#isThere = operation.name === "insert";
    }
  }
}

function frameOf({ key, name }: UsageOperation): Operation<UsageOutcome> {
  if (name === "stat") return statFrame(bytesOf(key));
  const frame = recordFrame(onRecord(key, name), EDGE.protocol);
  return { ...frame, read: (reply) => ({ success: reply[0] === 1 }) };
}

function onRecord(key: string, name: Exclude<UsageOperation["name"], "stat">): RecordOperation {
  const common = { key, dialect: "throttr" } as const;
  switch (name) {
    case "insert":
      return { ...common, name, quota: 1n, ttl: TTL };
    case "read":
      return { ...common, name: "query" };
    case "write":
      return { ...common, name: "change", change: "increase", amount: 1n };
    case "purge":
      return { ...common, name };
  }
}

function statFrame(key: Uint8Array): Operation<UsageOutcome> {
  const type = RequestType.stat;
  return {
    type,
    frame: Uint8Array.of(type, key.length, ...key),
    isRead: true,
    isRepeatable: true,
    read: usageOf,
    replyLength: (bytes, at, end) => replyLength(EDGE.protocol, type, bytes, at, end),
  };
}

/** Four figures of 8 bytes, behind the status. */
function usageOf(reply: Uint8Array): UsageOutcome {
  const success = reply[0] === 1;
  if (!success) return { success };
  const [readsPerMinute, writesPerMinute, reads, writes] = [0, 1, 2, 3].map((i) =>
    Number(uintAt(reply, 1 + 8 * i, 8)),
  ) as [number, number, number, number];
  return { success, usage: { readsPerMinute, writesPerMinute, reads, writes } };
}
