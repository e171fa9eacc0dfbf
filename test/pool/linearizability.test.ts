/**
 * One record, many callers at every door, its object evicted and killed meanwhile: what they saw must
 * have an order.
 */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, describe, expect, inject, it } from "vitest";
import { ShardMap } from "../../src/dispatch/placement.ts";
import type { Shard } from "../../src/objects/shard/shard.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import { bytesOf, concat, replyAt } from "../support/frames/index.ts";
import { ClockHistory } from "../simulator/checks/clocks.ts";
import { History, isAnswered, Moments } from "../simulator/checks/history.ts";
import { checkRecords, type RecordCall } from "../simulator/checks/records.ts";
import { refusalOf } from "../support/commands/calls.ts";
import type { RecordAnswer, RecordOperation } from "../support/models/record.ts";
import { openSocket, type SocketDoor } from "../support/pool/doors.ts";
import { breakJournal, holdSync, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

type Stub = Service<typeof Throttr>;
const entrypoint = exports.Throttr as unknown as (options: { props: object }) => Stub;
const server = exports.default as unknown as Fetcher;
const seed = inject("seed");

const KEY = "the one";
const TTL = { ttlMs: 3_600_000 };
const CALLERS = 9;
const CALLS = 9;
/** What a caller may learn of a call that was killed. */
const UNKNOWN = ["outcome_unknown", "connection_lost", "hub_failed"];

const ASKED = { key: KEY, dialect: "edge" } as const;
const ttl = { count: TTL.ttlMs, unit: 3 };

let namespaces = 0;
let ids = 0;

afterEach(async () => {
  await reset();
});

/** The operation as a frame, with its answer as the model says it. */
function typed(operation: RecordOperation, once: operations.Once): Operation<RecordAnswer> {
  const as = <Result>(made: Operation<Result>, show: (result: Result) => RecordAnswer) => ({
    ...made,
    read: (reply: Uint8Array) => show(made.read(reply)),
  });
  switch (operation.name) {
    case "insert":
      return as(operations.insert(KEY, { quota: operation.quota, ...TTL, ...once }), statusOf);
    case "increment":
      return as(operations.increment(KEY, { by: operation.by, ...TTL, ...once }), (quota) => ({
        success: true,
        record: { kind: "counter", quota },
      }));
    case "change":
      return as(operations.decrease(KEY, operation.amount, once), (change) =>
        change === null
          ? { success: false, record: null }
          : { success: change.applied, record: { kind: "counter", quota: change.quota } },
      );
    case "query":
      return as(operations.query(KEY), (counter) =>
        counter === null
          ? { success: false, record: null }
          : { success: true, record: { kind: "counter", quota: counter.quota } },
      );
    case "get":
      return as(operations.get(KEY), (buffer) => ({
        success: buffer !== null,
        record: bufferOf(buffer?.value ?? null),
      }));
    case "purge":
      return as(operations.purge(KEY, once), statusOf);
    case "compareAndSet": {
      const { expected, value } = operation;
      return as(
        operations.compareAndSet(KEY, { expected, value, ...TTL, ...once }),
        ({ applied, current }) =>
          applied ? { success: true } : { success: false, record: bufferOf(current) },
      );
    }
    default:
      throw new Error(`no caller asks for ${operation.name}`);
  }
}

const statusOf = (success: boolean): RecordAnswer => ({ success });

const bufferOf = (bytes: Uint8Array | null) =>
  bytes === null ? null : ({ kind: "buffer", value: new TextDecoder().decode(bytes) } as const);

/** Sends frames and gives their replies, as far as they come. */
interface Door {
  send(frames: Uint8Array[]): Promise<(Uint8Array | null)[]>;
}

function rpcDoor(namespace: string): Door {
  const stub = entrypoint({ props: { namespace } });
  return {
    send: async (frames) => splitReplies(frames.length, await stub.exchange(concat(frames))),
  };
}

async function httpDoor(namespace: string): Promise<Door> {
  const headers = await bearerOf({ ns: namespace });
  return {
    send: async (frames) => {
      const response = await server.fetch("http://localhost/throttr/edge", {
        method: "POST",
        body: concat(frames),
        headers,
      });
      if (response.status !== 200) {
        const { code, detail } = await response.json<{ code: string; detail: string }>();
        throw new ThrottrError(code, detail);
      }
      return splitReplies(frames.length, new Uint8Array(await response.arrayBuffer()));
    },
  };
}

/** A connection, opened again after it was lost. */
async function socketDoor(namespace: string): Promise<Door> {
  const headers = await bearerOf({ ns: namespace });
  let door: SocketDoor | null = null;
  return {
    send: async (frames) => {
      door ??= await openSocket("/throttr/edge", headers);
      door.socket.send(concat(frames));
      const replies: (Uint8Array | null)[] = [];
      for (const _ of frames) {
        const header = await door.inbox.take(5);
        const size = header.length < 5 ? 0 : new DataView(header.slice().buffer).getUint32(1, true);
        const body = size === 0 ? header.subarray(0, 0) : await door.inbox.take(size);
        const isWhole = header.length === 5 && body.length === size;
        replies.push(isWhole ? concat([header, body]) : null);
        if (isWhole) continue;
        door = null;
        break;
      }
      while (replies.length < frames.length) replies.push(null);
      return replies;
    },
  };
}

function splitReplies(count: number, bytes: Uint8Array): (Uint8Array | null)[] {
  let at = 0;
  return Array.from({ length: count }, () => {
    const reply = replyAt(bytes, at);
    at += reply?.bytes.length ?? 0;
    return reply?.bytes ?? null;
  });
}

/** Something that callers do: operations that are sent together. */
interface Turn {
  readonly operations: readonly RecordOperation[];
  /** They have idempotency keys, and are sent again until it is known what became of them. */
  readonly isOnce: boolean;
}

const amount = fc.bigInt(1n, 3n);
const text = fc.constantFrom("a", "b", null);
const increment = amount.map((by) => ({ ...ASKED, name: "increment" as const, by, ttl }));
const decrease = amount.map((by) => ({
  ...ASKED,
  name: "change" as const,
  change: "decrease" as const,
  amount: by,
}));
const plain = <Name extends "query" | "get" | "purge">(...names: Name[]) =>
  fc.constantFrom(...names).map((name) => ({ ...ASKED, name }));
const operation: fc.Arbitrary<RecordOperation> = fc.oneof(
  amount.map((quota) => ({ ...ASKED, name: "insert" as const, quota, ttl })),
  { weight: 4, arbitrary: increment },
  { weight: 2, arbitrary: decrease },
  { weight: 2, arbitrary: plain("query", "get") },
  plain("purge"),
  {
    weight: 4,
    arbitrary: fc.tuple(text, text).map(([expected, value]) => ({
      ...ASKED,
      name: "compareAndSet" as const,
      expected,
      value,
      ttl,
    })),
  },
);
const counting: fc.Arbitrary<RecordOperation> = fc.oneof(
  { weight: 4, arbitrary: increment },
  { weight: 2, arbitrary: decrease },
  { weight: 2, arbitrary: plain("query") },
);
const turnOf = (operation: fc.Arbitrary<RecordOperation>): fc.Arbitrary<Turn> =>
  fc.record({
    operations: fc.array(operation, { minLength: 1, maxLength: 2 }),
    isOnce: fc.boolean(),
  });

/** What each caller does, round after round. */
function programs(rounds: number, operation: fc.Arbitrary<RecordOperation>): Turn[][][] {
  const turns = fc.array(turnOf(operation), { minLength: CALLS, maxLength: CALLS });
  const callers = fc.array(turns, { minLength: CALLERS, maxLength: CALLERS });
  return fc.sample(callers, { seed, numRuns: rounds });
}

type Calls = readonly RecordCall[];
type RecordHistory = History<RecordOperation, RecordAnswer>;

/** Whether some order of the calls on the one record explains all answers. */
function isLinearizable(calls: Calls): boolean {
  const { violations, undecided } = checkRecords(calls, {
    clocks: new ClockHistory(),
    objectOf: () => "shard",
    // A call that is asked again is one call here: what was asked twice must not happen twice.
    idempotencyTtlMs: 0,
  });
  expect(undecided).toEqual([]);
  return violations.length === 0;
}

/** Takes a turn, and writes down what came of it. */
async function take(door: Door, turn: Turn, history: RecordHistory): Promise<void> {
  const { operations, isOnce } = turn;
  const started = operations.map((operation) => {
    const once = isOnce ? { idempotencyKey: `id-${ids++}` } : {};
    const asked = { client: 1, door: "binding", connection: null, operation } as const;
    return { call: typed(operation, once), begun: history.begin(asked) };
  });
  let left = started;
  for (let round = 1; left.length > 0; round++) {
    const replies = await sendOrNot(
      door,
      left.map(({ call }) => call.frame),
    );
    const known = left.filter((_, i) => replies[i] !== null);
    for (const { call, begun } of known) {
      const reply = replies[left.findIndex((entry) => entry.call === call)]!;
      history.end(begun, answerOf(call, reply));
    }
    left = left.filter((_, i) => replies[i] === null);
    const isAskedAgain = isOnce && round < 20;
    if (isAskedAgain) continue;
    for (const { begun } of left) history.giveUp(begun);
    return;
  }
}

async function sendOrNot(door: Door, frames: Uint8Array[]): Promise<(Uint8Array | null)[]> {
  try {
    return await door.send(frames);
  } catch (error) {
    const { code } = ThrottrError.from(error, "connection_lost");
    if (!UNKNOWN.includes(code)) throw error;
    return frames.map(() => null);
  }
}

function answerOf(call: Operation<RecordAnswer>, reply: Uint8Array): RecordAnswer {
  try {
    return call.read(reply);
  } catch (error) {
    return { success: false, code: ThrottrError.from(error).code };
  }
}

/** Lets all callers loose, and disturbs them. */
async function record(
  program: Turn[][],
  disturb: (shard: DurableObjectStub<Shard>, round: number) => Promise<void>,
): Promise<Calls> {
  const namespace = `lin-${namespaces++}`;
  const doors = await Promise.all(
    program.map(async (_, i) => {
      if (i % 3 === 0) return rpcDoor(namespace);
      return i % 3 === 1 ? await httpDoor(namespace) : await socketDoor(namespace);
    }),
  );
  // Records live for an hour: without times, states that differ in their ends alone are one to the search.
  const history: RecordHistory = new History(new Moments(() => 0));
  let rounds = 0;
  await Promise.all(
    program.map(async (turns, i) => {
      for (const [turn, next] of turns.entries()) {
        // Each caller disturbs the others now and then, at another time than they do. That may fail:
        // the object may be dying already.
        if ((turn + i) % 4 === 3) await refusalOf(disturb(shardOf(namespace), rounds++));
        await take(doors[i]!, next, history);
      }
    }),
  );
  return history.calls;
}

/** A stub of the object that has the record: a new one, as those of killed objects fail for good. */
function shardOf(namespace: string): DurableObjectStub<Shard> {
  const key = bytesOf(KEY);
  const index = new ShardMap(namespace, 4, "").shardOf(Keyspace.throttr, key, 0, key.length);
  return shardStub(index, namespace);
}

/** Kills the object while calls wait for it: its writes fail, it ends by itself, or all objects end. */
async function kill(shard: DurableObjectStub<Shard>, round: number): Promise<void> {
  if (round % 3 === 0) {
    await breakJournal(shard);
    return;
  }
  // Commits stay on their way to the disk: what comes meanwhile waits for them.
  await holdSync(shard);
  await scheduler.wait(5);
  if (round % 3 === 1) await abortAllDurableObjects();
  else await runInDurableObject(shard, (_, state) => state.abort("killed"));
}

/** How many calls overlapped with others, and how many were never answered. */
function shapeOf(calls: Calls): { overlapping: number; unknown: number } {
  const endOf = (call: RecordCall): number => (isAnswered(call) ? call.ended.tick : Infinity);
  const overlapping = calls.filter((call) =>
    calls.some(
      (other) => other !== call && other.begun.tick < endOf(call) && call.begun.tick < endOf(other),
    ),
  ).length;
  return { overlapping, unknown: calls.filter((call) => !isAnswered(call)).length };
}

const MIXES = [
  ["counter and register", operation],
  ["counter", counting],
] as const;

describe.each(MIXES)("one record as a %s", (_, mix) => {
  it("a record is linearizable for callers at every door", async () => {
    for (const program of programs(6, mix)) {
      const history = await record(program, async () => {});
      const { overlapping, unknown } = shapeOf(history);
      expect(unknown).toBe(0);
      expect(overlapping).toBeGreaterThan(history.length / 2);
      expect(isLinearizable(history)).toBe(true);
    }
  });

  it("a record is linearizable while its object is evicted", async () => {
    for (const program of programs(2, mix)) {
      const history = await record(program, () => evictAllDurableObjects());
      expect(shapeOf(history).unknown).toBe(0);
      expect(isLinearizable(history)).toBe(true);
    }
  });

  it("a record is linearizable while its object is killed, with each call applied or not", async () => {
    let unknown = 0;
    for (const program of programs(6, mix)) {
      const history = await record(program, kill);
      unknown += shapeOf(history).unknown;
      expect(isLinearizable(history)).toBe(true);
    }
    expect(unknown).toBeGreaterThan(0);
  });

  it("a record that is not linearizable would be found out", async () => {
    const [program] = programs(1, mix);
    const history = await record(program!, async () => {});
    expect(isLinearizable(history)).toBe(true);
    const sums = history.filter(
      (call) => call.operation.name === "increment" && quotaIn(call) !== undefined,
    );
    expect(sums.length).toBeGreaterThan(3);
    for (const wrong of sums.slice(0, 5)) {
      const outcome: RecordAnswer = { success: true, record: { quota: quotaIn(wrong)! + 1000n } };
      const forged = history.map((call) => (call === wrong ? { ...call, outcome } : call));
      expect(isLinearizable(forged)).toBe(false);
    }
  });
});

const quotaIn = (call: RecordCall): bigint | undefined =>
  isAnswered(call) ? call.outcome.record?.quota : undefined;

it("the checker finds out replies that did not wait for the disk", async () => {
  let isFound = false;
  await withSettings({ DURABILITY: "relaxed" }, async () => {
    for (const program of programs(20, counting)) {
      isFound = !isLinearizable(await record(program, kill));
      if (isFound) break;
    }
  });
  expect(isFound).toBe(true);
});
