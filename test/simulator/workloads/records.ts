/**
 * Clients use counters and buffers in all ways: alone and together, in single requests and in bodies of hundreds, as commands
 * and as frames of dialects 7.3 and 2, and again under the same idempotency key where they don't know what became of a call.
 */
import type { RecordAnswer, RecordOperation } from "../../support/models/record.ts";
import type { Plan } from "../campaign/plan.ts";
import { TAKEN_MS } from "../checks/goodbyes.ts";
import { History, isAnswered, type Violation } from "../checks/history.ts";
import { checkRecords, type RecordCall } from "../checks/records.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { giveUp, SETTLED_MS } from "./give-up.ts";
import { DEFAULT } from "./namespaces.ts";
import { httpPort } from "./ports.ts";
import { Chooser, isBuffer, Keys } from "./records/choice.ts";
import { isPair } from "./records/pair-frames.ts";
import { PortSender, senderOf, type Sender } from "./records/sender.ts";
import { EDGE, PAIRS, speechIn, type Speech } from "./records/speech.ts";
import { recordTermsOf } from "./records/terms.ts";

const PREFIX = "records:";
const PREFIX_OF_PAIRS = "records/";
const BATCH = { share: 0.04, least: 2, most: 300 };
/** Messages that a client sends without waiting for the answer to another. */
const AT_ONCE_MOST = 4;
const AT_ONCE_SHARE = 0.1;
/** Of one key in a message whose requests have no order: the search for one is hopeless among many. */
const SAME_KEY_MOST = 5;
const ONCE_SHARE = 0.3;
/** Of calls with an idempotency key: sent again though their answer came. */
const NEEDLESS_SHARE = 0.1;
/** Of messages: a call that was made a while ago, again under its key. */
const LATE = { share: 0.04, kept: 12 };
/** Of repetitions: another call under the same key. */
const CONFLICT_SHARE = 0.05;
const REPETITIONS_MOST = 4;
/** Between two writes to a connection that the server has closed. */
const INSISTS_MS = { least: 10, most: 5000 };
/** Longer than anything is on its way, and than any disk is full. */
const REST_MS = 180_000;
const READS_AT_ONCE = 200;
const BURST_SHARE = 0.6;

export class Records implements Workload {
  readonly name: string;
  readonly #plan: Plan;
  readonly #namespace: string;
  readonly #keys = new Set<string>();
  #history!: History<RecordOperation, RecordAnswer>;
  #shared!: Keys;
  #pairs!: Keys;

  /** @param namespace clients of two of them use the same keys, and each sees its own records alone */
  constructor(plan: Plan, namespace = DEFAULT) {
    this.#plan = plan;
    this.#namespace = namespace;
    this.name = namespace === DEFAULT ? "records" : `records of ${namespace}`;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    this.#shared = new Keys(world.random.fork("keys of records"), PREFIX);
    this.#pairs = new Keys(world.random.fork("keys of pairs"), PREFIX_OF_PAIRS);
    for (let i = 0; i < this.#plan.clients; i++) {
      world.start(`${this.name} ${i}`, async (life) => await this.#work(world, life, i));
    }
  }

  async #work(world: World, life: RunningLife, client: number): Promise<void> {
    const random = world.random.fork(life.name);
    const namespace = this.#namespace;
    const sender = senderOf(world, life, random, namespace);
    const { speech } = sender;
    const keys = speech.protocol === PAIRS.protocol ? this.#pairs : this.#shared;
    const name = namespace === DEFAULT ? String(client) : `${namespace}${client}`;
    const chooser = new Chooser(random.fork("choice"), keys, name, speech);
    const calls = new RecordClient(world, this.#history, sender, client, chooser, this.#keys);
    sender.onCloseLeft(() => void calls.insist(life, world.random.fork(`${life.name} insists`)));
    const { operations, clients, durationMs } = this.#plan;
    const most = operations / clients;
    const pauseMs = durationMs / most;
    while (calls.made < most && !world.isClosing) {
      const isBurst = random.chance(BURST_SHARE);
      const ms = isBurst ? random.skewed(0.1, 20) : random.skewed(10, pauseMs * 8);
      await life.settled(ms, "pause", () => {});
      // Until then it sends what `insist` does.
      if (sender.isClosed) continue;
      const messages = random.chance(AT_ONCE_SHARE) ? 1 + random.int(AT_ONCE_MOST) : 1;
      await Promise.all(Array.from({ length: messages }, async () => await calls.send(random)));
    }
    sender.close();
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    await life.settled(REST_MS, "rest", () => {});
    const history = this.#history;
    for (const call of history.calls) {
      if (!isAnswered(call) && call.settled === null) history.settle(call);
    }
    const random = world.random.fork(`finish of ${this.name}`);
    const clientFor = (spoken: Speech): RecordClient => {
      const speech = speechIn(this.#namespace, spoken);
      const sender = new PortSender(httpPort(world, life, random, speech.wire), speech);
      return new RecordClient(world, history, sender, -1, null, this.#keys);
    };
    const keys = [...this.#keys];
    await readAll(
      clientFor(EDGE),
      keys.filter((key) => !isPair(key)),
    );
    await readPairs(clientFor(PAIRS), keys.filter(isPair));
  }

  check(world: World): readonly Violation[] {
    const terms = recordTermsOf(world, this.#plan, this.#namespace);
    const isJudged =
      this.#plan.release === "today" ? () => true : this.#judgedOfBefore(world, terms.objectOf);
    const { violations, undecided } = checkRecords(this.#history.calls.filter(isJudged), terms);
    world.undecided.push(...undecided);
    return violations;
  }

  /**
   * Shards of release 0.4.0 take the time of their clock after a restart, also where it went back: what had ended returns. They
   * refuse to decrease the quota of a pair below zero. How they change TTLs is left out.
   */
  #judgedOfBefore(
    { clocks }: World,
    objectOf: (key: string) => string,
  ): (call: RecordCall) => boolean {
    const calls = this.#history.calls.map(({ operation }) => operation);
    const changed = new Set(calls.filter(({ name }) => name === "expire").map(({ key }) => key));
    return ({ operation: { key } }) =>
      clocks.isSteady(objectOf(key)) && !isPair(key) && !changed.has(key);
  }
}

/** Reads all keys: as what they most often are, and those of the other kind again. */
async function readAll(client: RecordClient, keys: readonly string[]): Promise<void> {
  for (let at = 0; at < keys.length; at += READS_AT_ONCE) {
    const some = keys.slice(at, at + READS_AT_ONCE);
    const strange = await readAs(client, some, isBuffer);
    if (strange.length > 0) await readAs(client, strange, (key) => !isBuffer(key));
  }
}

/** @returns the keys of which the record is of another kind */
async function readAs(
  client: RecordClient,
  keys: readonly string[],
  isGet: (key: string) => boolean,
): Promise<string[]> {
  const reads = keys.map((key): RecordOperation => ({
    key,
    dialect: "edge",
    name: isGet(key) ? "get" : "query",
  }));
  const calls = await readSome(client, reads);
  return calls
    .filter(({ outcome }) => outcome.code !== undefined)
    .map(({ operation }) => operation.key);
}

async function readPairs(client: RecordClient, keys: readonly string[]): Promise<void> {
  for (let at = 0; at < keys.length; at += READS_AT_ONCE) {
    const some = keys.slice(at, at + READS_AT_ONCE);
    await readSome(
      client,
      some.map((key) => ({ key, dialect: "pairs", name: "query" })),
    );
  }
}

async function readSome(client: RecordClient, reads: readonly RecordOperation[]) {
  const calls = await client.exchange(reads);
  if (!calls.every(isAnswered)) throw new Error("the last read failed");
  return calls;
}

/** One client's way to make calls, and to note what it saw. */
class RecordClient {
  /** Requests that it has made. */
  made = 0;
  readonly #world: World;
  readonly #history: History<RecordOperation, RecordAnswer>;
  readonly #sender: Sender;
  readonly #client: number;
  readonly #chooser: Chooser | null;
  readonly #keys: Set<string>;
  /** Calls with an idempotency key, the last ones. */
  readonly #repeatable: RecordOperation[] = [];
  #onces = 0;

  constructor(
    world: World,
    history: History<RecordOperation, RecordAnswer>,
    sender: Sender,
    client: number,
    chooser: Chooser | null,
    keys: Set<string>,
  ) {
    this.#world = world;
    this.#history = history;
    this.#sender = sender;
    this.#client = client;
    this.#chooser = chooser;
    this.#keys = keys;
  }

  /** Sends a message of one request or many, and what became of it unknown again, if it may be. */
  async send(random: Random): Promise<void> {
    const count = random.chance(BATCH.share)
      ? Math.round(random.skewed(BATCH.least, BATCH.most))
      : 1;
    const isLate = this.#repeatable.length > 0 && random.chance(LATE.share);
    let operations = isLate
      ? [random.pick(this.#repeatable)]
      : this.#withoutCrowds(Array.from({ length: count }, () => this.#choose(random, count > 1)));
    for (let i = 0; operations.length > 0 && i < REPETITIONS_MOST; i++) {
      const calls = await this.exchange(operations);
      operations = calls
        .filter(({ operation }) => operation.once !== undefined)
        .filter(({ outcome }) => outcome === "unknown" || random.chance(NEEDLESS_SHARE))
        .map(({ operation }) => operation)
        .map((operation) =>
          random.chance(CONFLICT_SHARE) ? this.#conflicting(operation) : operation,
        );
    }
  }

  /** The server has closed the connection: until the client answers that, it goes on sending writes, each to a key of its own. */
  async insist(life: RunningLife, random: Random): Promise<void> {
    while (this.#sender.isClosed) {
      await this.exchange([this.#chooser!.late()]);
      await life.settled(random.skewed(INSISTS_MS.least, INSISTS_MS.most), "pause", () => {});
    }
  }

  #withoutCrowds(operations: readonly RecordOperation[]): readonly RecordOperation[] {
    if (this.#sender.connectionOf(operations.length) !== null) return operations;
    const counts = new Map<string, number>();
    return operations.filter(({ key }) => {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return count <= SAME_KEY_MOST;
    });
  }

  #choose(random: Random, isOfMany: boolean): RecordOperation {
    const operation = this.#chooser!.next(isOfMany);
    const canBeOnce = operation.dialect === "edge" && !isRead(operation);
    if (!canBeOnce || !random.chance(ONCE_SHARE)) return operation;
    const repeatable = { ...operation, once: `${this.#client}.${++this.#onces}` };
    this.#repeatable.push(repeatable);
    if (this.#repeatable.length > LATE.kept) this.#repeatable.shift();
    return repeatable;
  }

  /** Another call under the key of this one. */
  #conflicting({ key, once }: RecordOperation): RecordOperation {
    return { ...this.#chooser!.increment(key), once: once! } as RecordOperation;
  }

  /** Sends requests as one message. @returns the calls, as they have ended */
  async exchange(operations: readonly RecordOperation[]): Promise<readonly RecordCall[]> {
    const history = this.#history;
    this.made += operations.length;
    this.#world.operations += operations.length;
    const { door } = this.#sender;
    const connection = this.#sender.connectionOf(operations.length);
    const calls = operations.map((operation) => {
      this.#keys.add(operation.key);
      return history.begin({ client: this.#client, door, connection, operation });
    });
    const outcomes = this.#sender.send(operations);
    await Promise.all(
      calls.map(async (call, i) => {
        const outcome = await outcomes[i]!;
        if (outcome === "unknown") {
          const isTaken = connection !== null && this.#world.hasTaken(connection);
          giveUp(this.#world, history, call, isTaken ? TAKEN_MS : SETTLED_MS);
          this.#chooser?.noteUnknown(call.operation.key);
        } else history.end(call, outcome);
        this.#noteValue(call);
      }),
    );
    return calls;
  }

  /** A value to compare with. */
  #noteValue({ operation, outcome }: RecordCall): void {
    const chooser = this.#chooser;
    if (chooser === null || outcome === "unknown" || outcome === "refused") return;
    const { name, key } = operation;
    const { success, record } = outcome;
    if (name === "get") chooser.noteValue(key, record?.value ?? null);
    else if (name === "set" && success === true) chooser.noteValue(key, operation.value);
    else if (name === "compareAndSet") {
      chooser.noteValue(key, success === true ? operation.value : (record?.value ?? null));
    }
  }
}

const isRead = ({ name }: RecordOperation): boolean => name === "query" || name === "get";
