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
import { InitialShards } from "../support/shards.ts";
import type { Shard } from "../../src/objects/shard/shard.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { bytesOf, concat, replyAt } from "../support/frames/index.ts";
import {
  isLinearizable,
  verdictOn,
  RECORD,
  type Call,
  type RecordOperation,
} from "../support/commands/history.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { open } from "../support/pool/binding.ts";
import { openSocket, type SocketDoor } from "../support/pool/doors.ts";
import { breakJournal, holdSync, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const server = exports.default as unknown as Fetcher;
const seed = inject("seed");

const KEY = "the one";
const TTL = { ttlMs: 3_600_000 };
const CALLERS = 9;
const CALLS = 9;
/** What a caller may learn of a call that was killed. */
const UNKNOWN = ["outcome_unknown", "connection_lost", "hub_failed"];

let namespaces = 0;
let ids = 0;
let clock = 0;

afterEach(async () => {
  await reset();
});

/** The operation as a frame, with its result as the specification says it. */
function typed(operation: RecordOperation, once: operations.Once): Operation<string> {
  const as = <Result>(made: Operation<Result>, show: (result: Result) => string) => ({
    ...made,
    read: (reply: Uint8Array) => show(made.read(reply)),
  });
  switch (operation.name) {
    case "insert":
      return as(operations.insert(KEY, { quota: operation.quota, ...TTL, ...once }), String);
    case "increment":
      return as(operations.increment(KEY, { by: operation.by, ...TTL, ...once }), String);
    case "decrease":
      return as(operations.decrease(KEY, operation.amount, once), (change) =>
        change === null
          ? "null"
          : change.applied
            ? String(change.quota)
            : `refused at ${change.quota}`,
      );
    case "query":
      return as(operations.query(KEY), (counter) => String(counter?.quota ?? null));
    case "get":
      return as(operations.get(KEY), (buffer) => String(textOf(buffer?.value ?? null)));
    case "purge":
      return as(operations.purge(KEY, once), String);
    case "compareAndSet": {
      const { expected, value } = operation;
      return as(
        operations.compareAndSet(KEY, { expected, value, ...TTL, ...once }),
        ({ applied, current }) => (applied ? "applied" : `refused at ${textOf(current)}`),
      );
    }
  }
}

const textOf = (bytes: Uint8Array | null): string | null =>
  bytes === null ? null : new TextDecoder().decode(bytes);

/** Sends frames and gives their replies, as far as they come. */
interface Door {
  send(frames: Uint8Array[]): Promise<(Uint8Array | null)[]>;
}

function rpcDoor(namespace: string): Door {
  const stub = open(namespace);
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
const operation: fc.Arbitrary<RecordOperation> = fc.oneof(
  fc.record({ name: fc.constant("insert" as const), quota: amount }),
  { weight: 4, arbitrary: fc.record({ name: fc.constant("increment" as const), by: amount }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant("decrease" as const), amount }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constantFrom("query" as const, "get" as const) }) },
  fc.record({ name: fc.constant("purge" as const) }),
  {
    weight: 4,
    arbitrary: fc.record({
      name: fc.constant("compareAndSet" as const),
      expected: text,
      value: text,
    }),
  },
);
const counting: fc.Arbitrary<RecordOperation> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ name: fc.constant("increment" as const), by: amount }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant("decrease" as const), amount }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant("query" as const) }) },
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

type History = Call<RecordOperation>[];

/** Takes a turn, and writes down what came of it. */
async function take(door: Door, { operations, isOnce }: Turn, history: History): Promise<void> {
  const started = operations.map((operation) => {
    const once = isOnce ? { idempotencyKey: `id-${ids++}` } : {};
    return { operation, call: typed(operation, once), startedAt: ++clock };
  });
  let left = started;
  for (let round = 1; left.length > 0; round++) {
    const replies = await sendOrNot(
      door,
      left.map(({ call }) => call.frame),
    );
    const known = left.filter((_, i) => replies[i] !== null);
    for (const { operation, call, startedAt } of known) {
      const reply = replies[left.findIndex((entry) => entry.call === call)]!;
      history.push({ operation, startedAt, endedAt: ++clock, result: resultOf(call, reply) });
    }
    left = left.filter((_, i) => replies[i] === null);
    const isAskedAgain = isOnce && round < 20;
    if (isAskedAgain) continue;
    for (const { operation, startedAt } of left) {
      history.push({ operation, startedAt, endedAt: Infinity, result: null });
    }
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

function resultOf(call: Operation<string>, reply: Uint8Array): string {
  try {
    return call.read(reply);
  } catch (error) {
    return ThrottrError.from(error).code;
  }
}

/** Lets all callers loose, and disturbs them. */
async function record(
  program: Turn[][],
  disturb: (shard: DurableObjectStub<Shard>, round: number) => Promise<void>,
): Promise<History> {
  const namespace = `lin-${namespaces++}`;
  const doors = await Promise.all(
    program.map(async (_, i) => {
      if (i % 3 === 0) return rpcDoor(namespace);
      return i % 3 === 1 ? await httpDoor(namespace) : await socketDoor(namespace);
    }),
  );
  const history: History = [];
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
  return history;
}

/** A stub of the object that has the record: a new one, as those of killed objects fail for good. */
function shardOf(namespace: string): DurableObjectStub<Shard> {
  const key = bytesOf(KEY);
  const index = new InitialShards(namespace, 4, "").shardOf(Keyspace.throttr, key, 0, key.length);
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
function shapeOf(history: History): { overlapping: number; unknown: number } {
  const overlapping = history.filter((call) =>
    history.some(
      (other) => other !== call && other.startedAt < call.endedAt && call.startedAt < other.endedAt,
    ),
  ).length;
  return { overlapping, unknown: history.filter(({ result }) => result === null).length };
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
      expect(isLinearizable(RECORD, history)).toBe(true);
    }
  });

  it("a record is linearizable while its object is evicted", async () => {
    for (const program of programs(2, mix)) {
      const history = await record(program, () => evictAllDurableObjects());
      expect(shapeOf(history).unknown).toBe(0);
      expect(isLinearizable(RECORD, history)).toBe(true);
    }
  });

  it("a record is linearizable while its object is killed, with each call applied or not", async () => {
    let unknown = 0;
    let undecided = 0;
    for (const program of programs(6, mix)) {
      const history = await record(program, kill);
      unknown += shapeOf(history).unknown;
      const verdict = verdictOn(RECORD, history);
      expect(verdict).not.toBe("stuck");
      if (verdict === "undecided") undecided++;
    }
    expect(unknown).toBeGreaterThan(0);
    expect(undecided).toBeLessThanOrEqual(1);
  });

  it("a record that is not linearizable would be found out", async () => {
    const [program] = programs(1, mix);
    const history = await record(program!, async () => {});
    expect(isLinearizable(RECORD, history)).toBe(true);
    const numbers = history.filter(
      ({ operation, result }) => operation.name === "increment" && result !== "kind_mismatch",
    );
    expect(numbers.length).toBeGreaterThan(3);
    for (const wrong of numbers.slice(0, 5)) {
      const result = String(BigInt(wrong.result!) + 1000n);
      const forged = history.map((call) => (call === wrong ? { ...call, result } : call));
      expect(isLinearizable(RECORD, forged)).toBe(false);
    }
  });
});

describe("the checker", () => {
  it("the checker finds out replies that did not wait for the disk", async () => {
    let isFound = false;
    await withSettings({ DURABILITY: "relaxed" }, async () => {
      for (const program of programs(20, counting)) {
        const history = await record(program, kill);
        isFound = verdictOn(RECORD, history) === "stuck";
        if (isFound) break;
      }
    });
    expect(isFound).toBe(true);
  });

  const call = (
    startedAt: number,
    endedAt: number,
    operation: RecordOperation,
    result: string | null,
  ): Call<RecordOperation> => ({ startedAt, endedAt, operation, result });
  const add = { name: "increment", by: 1n } as const;
  const query = { name: "query" } as const;
  const take = (expected: string | null, value: string | null): RecordOperation => ({
    name: "compareAndSet",
    expected,
    value,
  });

  it.each<[string, boolean, History]>([
    ["nothing", true, []],
    ["one after the other", true, [call(1, 2, add, "1"), call(3, 4, add, "2")]],
    ["in the wrong order", false, [call(1, 2, add, "2"), call(3, 4, add, "1")]],
    ["in either order at once", true, [call(1, 3, add, "2"), call(2, 4, add, "1")]],
    ["twice the same", false, [call(1, 3, add, "1"), call(2, 4, add, "1")]],
    ["a stale read", false, [call(1, 2, add, "1"), call(3, 4, query, "null")]],
    ["a read of what is under way", true, [call(1, 4, add, "1"), call(2, 3, query, "1")]],
    [
      "a read that goes back",
      false,
      [call(1, 6, add, "1"), call(2, 3, query, "1"), call(4, 5, query, "null")],
    ],
    ["a lost update", false, [call(1, 2, add, "1"), call(3, 4, add, "2"), call(5, 6, query, "1")]],
    [
      "an unknown call that happened",
      true,
      [call(1, Infinity, add, null), call(2, 3, query, "1"), call(4, 5, query, "1")],
    ],
    [
      "an unknown call that did not",
      true,
      [call(1, Infinity, add, null), call(2, 3, query, "null"), call(4, 5, query, "null")],
    ],
    [
      "an unknown call that happened later",
      true,
      [call(1, Infinity, add, null), call(2, 3, query, "null"), call(4, 5, query, "1")],
    ],
    [
      "an unknown call that happened twice",
      false,
      [call(1, Infinity, add, null), call(2, 3, query, "2")],
    ],
    [
      "an unknown call that was taken back",
      false,
      [call(1, Infinity, add, null), call(2, 3, query, "1"), call(4, 5, query, "null")],
    ],
    [
      "a lock that two have",
      false,
      [call(1, 3, take(null, "a"), "applied"), call(2, 4, take(null, "b"), "applied")],
    ],
    [
      "a lock that is handed over",
      true,
      [call(1, 4, take("a", null), "applied"), call(2, 3, take(null, "a"), "applied")],
    ],
  ])("the checker judges %s: %s", (_, isFine, history) => {
    expect(isLinearizable(RECORD, history)).toBe(isFine);
  });
});
