/** A client that uses records of its own, and asks by STAT how often it has. No other client of a run sends STAT. */
import { encodeRequest } from "../../../../src/wire/throttr/encode.ts";
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
  type UsageCall,
  type UsageOperation,
  type UsageOutcome,
  type UsageTerms,
} from "../../checks/usage.ts";
import type { Random } from "../../kernel/random.ts";
import type { RunningLife } from "../../platform/running-life.ts";
import type { World } from "../../world.ts";
import { uintAt } from "../../../support/frames/bytes.ts";
import { longestPauseMs } from "../client.ts";
import { PORTS } from "../every-port.ts";
import { giveUp } from "../give-up.ts";
import type { Port } from "../port.ts";
import { httpPort } from "../ports.ts";
import { bytesOf } from "../records/commands.ts";
import { EDGE } from "../records/speech.ts";
import { shardsOf } from "../shards.ts";

const PREFIX = "counts:";
const KEYS = 4;
/** Longer than any run. */
const TTL_HOURS = 1000n;
const HOURS = 6;
const PAUSE_MS = { least: 20, most: 40_000 };
/** Requests of a message, all on one key. */
const REQUESTS_MOST = 12;
const SHARES = { purge: 0.04, stat: 0.3, write: 0.5 };

export class CountedUser {
  readonly #plan: Plan;
  #history!: History<UsageOperation, UsageOutcome>;
  /** When the total of STAT was told. */
  #told: { readonly total: number; readonly at: UsageCall } | null = null;

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
        const mostMs = Math.min(longestPauseMs(PAUSE_MS.most, world), world.durationMs);
        await life.settled(random.skewed(PAUSE_MS.least, mostMs), "pause", () => {});
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
    const history = this.#history;
    const { door } = port;
    world.operations += operations.length;
    const calls = operations.map((operation) =>
      history.begin({ client: 0, door, connection: null, operation }),
    );
    const frames = operations.map(frameOf);
    const answers = await port.exchange(frames);
    for (const [i, call] of calls.entries()) {
      const answer = answers[i]!;
      if (answer.kind === "reply") history.end(call, frames[i]!.read(answer.reply));
      else if (answer.kind === "refused") history.end(call, "refused");
      else giveUp(world, history, call);
    }
    return calls;
  }

  /** What the server says in the end how often it was asked for STAT. */
  async noteTotal(total: number, world: World, life: RunningLife, random: Random): Promise<void> {
    const operations = [{ key: `${PREFIX}0`, name: "stat" }] as const;
    const [at] = await this.#exchange(world, httpPort(world, life, random), operations);
    this.#told = { total, at: at! };
  }

  check(world: World): readonly Violation[] {
    const terms = termsOf(world, this.#plan);
    const { calls } = this.#history;
    // Where records may be lost with a reset, the client does not know which there are.
    const used = isRelaxed(this.#plan) ? [] : checkUsage(calls, terms);
    return [...used, ...this.#checkTotal(terms)];
  }

  #checkTotal({ countingSince, mayBeStale }: UsageTerms): Violation[] {
    if (this.#told === null) return [];
    const { total, at } = this.#told;
    const made = this.#history.calls.filter(
      (call) => call.operation.name === "stat" && call !== at,
    );
    return checkRequests("stat", total, made, (call) => {
      const { key } = call.operation;
      return isBefore(countingSince(key, at)[1], call.begun) && !mayBeStale(key, call);
    });
  }
}

function termsOf({ witness: { facts } }: World, plan: Plan): UsageTerms {
  const shardOf = shardsOf(plan);
  const objectOf = (key: string): string => shardOf(Keyspace.throttr, bytesOf(key));
  return {
    countingSince: (key, { begun, ended }) => {
      const object = objectOf(key);
      const starts = facts.livesBetween(object, begun, ended!).map((life) => life.begun);
      // A split hands on what an earlier life has counted.
      const isApart = facts.membersOf(object).length > 1;
      return [isApart ? beforeMs(-Infinity) : starts.reduce(earlier), starts.reduce(later)];
    },
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

function frameOf({ key: name, name: asked }: UsageOperation): Operation<UsageOutcome> {
  const { protocol } = EDGE;
  const frame = bytesFor(asked, bytesOf(name));
  const type = frame[0]!;
  const isRead = asked === "read" || asked === "stat";
  return {
    type,
    frame,
    isRead,
    isRepeatable: isRead,
    read: (reply) => outcomeOf(type, reply),
    replyLength: (bytes, at, end) => replyLength(protocol, type, bytes, at, end),
  };
}

function bytesFor(asked: UsageOperation["name"], key: Uint8Array): Uint8Array<ArrayBuffer> {
  const { protocol } = EDGE;
  switch (asked) {
    case "insert":
      return encodeRequest(protocol, {
        type: "insert",
        key,
        quota: 1n,
        ttlType: HOURS,
        ttl: TTL_HOURS,
      });
    case "read":
      return encodeRequest(protocol, { type: "query", key });
    case "write":
      return encodeRequest(protocol, { type: "update", key, attribute: 0, change: 1, value: 1n });
    case "purge":
      return encodeRequest(protocol, { type: "purge", key });
    case "stat":
      return Uint8Array.of(RequestType.stat, key.length, ...key);
  }
}

/** Four figures of 8 bytes, behind the status. */
function outcomeOf(type: number, reply: Uint8Array): UsageOutcome {
  const success = reply[0] === 1;
  if (!success || type !== RequestType.stat) return { success };
  const [readsPerMinute, writesPerMinute, reads, writes] = [0, 1, 2, 3].map((i) =>
    Number(uintAt(reply, 1 + 8 * i, 8)),
  ) as [number, number, number, number];
  return { success, usage: { readsPerMinute, writesPerMinute, reads, writes } };
}
