/**
 * A client fills shards with buffers until they refuse even small ones, lets them be full for a while, and removes some: so all clients
 * meet shards without room, and shards that have room again. What a full shard has refused is not there, and what it took is.
 */
import type { RecordAnswer, RecordOperation } from "../../support/models/record.ts";
import type { Plan } from "../campaign/plan.ts";
import { History, isAnswered, type Open, type Violation } from "../checks/history.ts";
import { checkRecords, type RecordCall } from "../checks/records.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { giveUp } from "./give-up.ts";
import { DEFAULT } from "./namespaces.ts";
import type { Port } from "./port.ts";
import { bindingPort, httpPort } from "./ports.ts";
import { PortSender } from "./records/sender.ts";
import { EDGE } from "./records/speech.ts";
import { recordTermsOf } from "./records/terms.ts";

const PREFIX = "hoard:";
/** Of values, in bytes: a shard that has refused one is sent one of half its size. */
const VALUE_BYTES = { least: 32, most: 48 << 10 };
const AT_ONCE_MOST = 8;
const PAUSE_MS = { least: 10, most: 1000 };
/** How long it leaves shards full. */
const FULL_MS = { least: 1000, most: 60_000 };
/** Keys one after the other of shards that are full: then all of them are. */
const FULL_IN_A_ROW = 24;
const REMOVED = { least: 0.05, most: 0.6 };
/** Where shards split as they fill, a listing asks all of those that this many values have made. */
const OPERATIONS_MOST = 300;
const LONG_SHARE = 0.8;
const LONG_MS = 3_600_000;
const SHORT_MS = { least: 1000, most: 120_000 };
const MS = 3;
const REST_MS = 180_000;

export class Hoard implements Workload {
  readonly name = "hoard";
  readonly #plan: Plan;
  #history!: History<RecordOperation, RecordAnswer>;
  /** Keys that were set and not removed, and what is sent to each shard next. */
  readonly #kept: string[] = [];
  readonly #bytes = new Map<string, number>();
  #made = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    world.start(this.name, async (life) => await this.#work(world, life));
  }

  async #work(world: World, life: RunningLife): Promise<void> {
    const random = world.random.fork(life.name);
    const { objectOf } = recordTermsOf(world, this.#plan, DEFAULT);
    while (!world.isClosing && this.#made < OPERATIONS_MOST) {
      await life.settled(random.skewed(PAUSE_MS.least, PAUSE_MS.most), "pause", () => {});
      const keys = this.#keysWithRoom(objectOf);
      if (keys.length === 0) {
        await life.settled(random.skewed(FULL_MS.least, FULL_MS.most), "full", () => {});
        this.#bytes.clear();
        await this.#send(world, portOf(world, life, random), this.#removals(random));
        continue;
      }
      const sets = keys.slice(0, 1 + random.int(AT_ONCE_MOST)).map((key) => {
        const bytes = this.#bytes.get(objectOf(key)) ?? VALUE_BYTES.most;
        return setOf(key, bytes, random);
      });
      const calls = await this.#send(world, portOf(world, life, random), sets);
      for (const { operation, outcome } of calls) {
        const object = objectOf(operation.key);
        const bytes = this.#bytes.get(object) ?? VALUE_BYTES.most;
        if (outcome === "refused") this.#bytes.set(object, bytes / 2);
        else this.#kept.push(operation.key);
      }
    }
  }

  /** New keys of shards that may have room; none where all shards are full. */
  #keysWithRoom(objectOf: (key: string) => string): string[] {
    const keys: string[] = [];
    for (let full = 0; keys.length < AT_ONCE_MOST && full < FULL_IN_A_ROW;) {
      const key = `${PREFIX}${++this.#made}`;
      const hasRoom = (this.#bytes.get(objectOf(key)) ?? VALUE_BYTES.most) >= VALUE_BYTES.least;
      if (hasRoom) keys.push(key);
      else full++;
    }
    return keys;
  }

  #removals(random: Random): RecordOperation[] {
    const count = Math.ceil(this.#kept.length * random.between(REMOVED.least, REMOVED.most));
    return Array.from({ length: count }, () => {
      const [key] = this.#kept.splice(random.int(this.#kept.length), 1);
      return { key: key!, dialect: "edge", name: "purge" };
    });
  }

  async #send(
    world: World,
    port: Port,
    operations: readonly RecordOperation[],
  ): Promise<readonly RecordCall[]> {
    const sender = new PortSender(port, EDGE);
    world.operations += operations.length;
    const { door } = sender;
    const connection = sender.connectionOf(operations.length);
    const calls = operations.map((operation) =>
      this.#history.begin({ client: 0, door, connection, operation }),
    );
    const outcomes: readonly (RecordAnswer | Open)[] = await Promise.all(sender.send(operations));
    for (const [i, call] of calls.entries()) {
      const outcome = outcomes[i]!;
      if (outcome === "unknown") giveUp(world, this.#history, call);
      else this.#history.end(call, outcome);
    }
    return calls;
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    await life.settled(REST_MS, "rest", () => {});
    for (const call of this.#history.calls) {
      if (!isAnswered(call) && call.settled === null) this.#history.settle(call);
    }
    // Over HTTP the values would come in as many pieces as all other events of the run.
    const port = bindingPort(world, life, world.random.fork(`finish of ${this.name}`));
    const keys = new Set(this.#history.calls.map(({ operation }) => operation.key));
    for (const key of keys) {
      await this.#send(world, port, [{ key, dialect: "edge", name: "get" }]);
    }
  }

  check(world: World): readonly Violation[] {
    const terms = recordTermsOf(world, this.#plan, DEFAULT);
    // Shards of the release before take the time of their clock after a restart, also where it went back.
    const isJudged = ({ operation: { key } }: RecordCall): boolean =>
      world.isToday || world.clocks.isSteady(terms.objectOf(key));
    const { violations, undecided } = checkRecords(this.#history.calls.filter(isJudged), terms);
    world.undecided.push(...undecided);
    return violations;
  }
}

const portOf = (world: World, life: RunningLife, random: Random): Port =>
  (random.chance(0.5) ? httpPort : bindingPort)(world, life, random);

function setOf(key: string, bytes: number, random: Random): RecordOperation {
  const isLong = random.chance(LONG_SHARE);
  const ms = isLong ? LONG_MS : Math.round(random.skewed(SHORT_MS.least, SHORT_MS.most));
  const value = key.padEnd(bytes, ".");
  return { key, dialect: "edge", name: "set", value, ttl: { count: ms, unit: MS } };
}
