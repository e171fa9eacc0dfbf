/** Exchange: requests go to the shards of their keys, and replies come back in the order of the requests. */
import { expect, it, onTestFinished, vi } from "vitest";
import { OPEN_ACCESS, type Access } from "../../src/base/access.ts";
import { reportFailure } from "../../src/base/failure.ts";
import { turn } from "../../src/base/turn.ts";
import { Exchange } from "../../src/dispatch/exchange.ts";
import { Part } from "../../src/dispatch/exchange-part.ts";
import { Holder } from "../../src/dispatch/holder.ts";
import { InitialShards } from "../support/shards.ts";
import { ShardLanes } from "../../src/dispatch/shard-lane.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { initialIndexOf, initialRange, widthOf } from "../../src/wire/range.ts";
import { RangeMap } from "../../src/dispatch/range-map.ts";
import { refuserFor } from "../../src/dispatch/refuser.ts";
import type { Sink } from "../../src/dispatch/sink.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { writeMoved } from "../../src/wire/moved.ts";
import { Scope, Target } from "../../src/wire/throttr/requests.ts";
import { bytesOf, concat, hex, protocolOf, U8 } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const SHARDS = 4;
const READER: Access = { ...OPEN_ACCESS, scopes: Scope.read };
const map = new InitialShards("default", SHARDS, "");

/** What a door knows of shards that have not split. */
function knownMap(shards = SHARDS): ShardMap {
  const known = new ShardMap("default", shards, "");
  known.assumeInitial();
  return known;
}

/** A key of each shard, by its index. */
const KEYS = Array.from({ length: SHARDS }, (_, shard) => {
  for (let i = 0; ; i++) {
    const key = bytesOf(`key:${i}`);
    if (map.shardOf(Keyspace.throttr, key, 0, key.length) === shard) return `key:${i}`;
  }
});

/** A call to a shard that waits for the test: `answer` lets the shard apply it. */
interface Waiting {
  readonly shard: number;
  answer(): Promise<void>;
  fail(error: Error): Promise<void>;
  /** The shard has split, and applies nothing. */
  move(): Promise<void>;
}

/** Several turns: timers of one length fire in the order in which they were set, however slow the machine is. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await turn();
}

/** Shards with an engine each, and the caller: what it was replied, and whether it still reads. */
class Bench implements Sink {
  readonly calls: Waiting[] = [];
  readonly replies: Uint8Array[] = [];
  readonly errors: unknown[] = [];
  isLast = false;
  hasReader = true;
  waitsFor: Promise<void> | null = null;
  /** Bytes that shards have answered. */
  answeredBytes = 0;
  readonly #shards: number;
  readonly #engines: Engine[];
  readonly #lanes: ShardLanes;

  constructor(shards = SHARDS) {
    this.#shards = shards;
    this.#engines = Array.from(
      { length: shards },
      () => new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 24, isCounting: false }),
    );
    this.#lanes = new ShardLanes(knownMap(shards), (from) => this.#carryTo(from));
  }

  #carryTo = (from: number) => async (batch: Uint8Array) => {
    const shard = initialIndexOf(from, this.#shards);
    const answer = Promise.withResolvers<Uint8Array>();
    const copy = batch.slice();
    this.calls.push({
      shard,
      answer: async () => {
        const replies = this.#engines[shard]!.apply(copy, NOW_MS);
        this.answeredBytes += replies.length;
        answer.resolve(replies);
        await settled();
      },
      fail: async (error) => {
        answer.reject(error);
        await settled();
      },
      move: async () => {
        const range = initialRange(shard, this.#shards);
        const middle = range.from + widthOf(range) / 2;
        const begins = [range.from, middle];
        answer.resolve(
          writeMoved({ shards: this.#shards, range: { ...range, to: middle }, begins }),
        );
        await settled();
      },
    });
    return await answer.promise;
  };

  room = () => this.waitsFor;
  fail = (error: unknown) => void this.errors.push(error);
  countPublished(): void {}

  reply(bytes: Uint8Array, isLast: boolean): void {
    if (this.isLast) throw new Error("a reply behind the last one");
    this.replies.push(bytes.slice());
    this.isLast = isLast;
  }

  /** Forgets the replies so far. */
  again(): void {
    this.replies.length = 0;
    this.isLast = false;
  }

  start(
    requests: readonly Uint8Array[],
    {
      access = OPEN_ACCESS,
      replyBytesMax = 1 << 20,
      holder,
    }: { access?: Access; replyBytesMax?: number; holder?: Holder } = {},
  ): void {
    const frames = {
      protocol: protocolOf(U8),
      target: Target.shard,
      bytes: concat(requests),
      count: requests.length,
      ...(holder === undefined ? {} : { holder }),
    };
    new Exchange(this.#lanes, frames, this, replyBytesMax).start(refuserFor(frames, access));
  }

  /** Answers all calls, also those that follow. */
  async answerAll(): Promise<void> {
    for (let call = this.calls.shift(); call !== undefined; call = this.calls.shift()) {
      await call.answer();
    }
  }

  /** The replies to requests, to which the shards answer at once. */
  async exchange(requests: readonly Uint8Array[], options = {}): Promise<string> {
    this.again();
    this.start(requests, options);
    await this.answerAll();
    if (!this.isLast) throw new Error("no last reply");
    return hex(concat(this.replies));
  }
}

const inserts = KEYS.map((key, shard) => U8.insert(key, 10 + shard));
const queries = KEYS.map((key) => U8.query(key));
/** Type and time of the life that every record has left. */
const TTL = "041d";

it("an exchange gives replies in the order of requests, whichever shard answers first", async () => {
  const bench = new Bench();
  expect(await bench.exchange(inserts)).toBe("01".repeat(SHARDS));
  bench.again();
  bench.start([queries[2]!, queries[0]!, queries[2]!, queries[1]!]);
  const [of2, of0, of1] = bench.calls;
  expect([of2!.shard, of0!.shard, of1!.shard]).toEqual([2, 0, 1]);
  await of1!.answer();
  expect(bench.replies).toEqual([]);
  await of2!.answer();
  expect(hex(concat(bench.replies))).toBe(`010c${TTL}`);
  expect(bench.isLast).toBe(false);
  await of0!.answer();
  expect(hex(concat(bench.replies))).toBe(`010c${TTL}010a${TTL}010c${TTL}010b${TTL}`);
  expect(bench.isLast).toBe(true);
});

it("requests for one shard are one call, whose replies pass as they are", async () => {
  const bench = new Bench();
  bench.start([inserts[3]!]);
  expect(bench.calls.map(({ shard }) => shard)).toEqual([3]);
  await bench.answerAll();
  expect(hex(concat(bench.replies))).toBe("01");
  expect(await bench.exchange([queries[3]!, queries[3]!])).toBe(`010d${TTL}`.repeat(2));
});

it("a shard whose replies reached the limit is asked for the rest once there is room", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  const room = Promise.withResolvers<void>();
  bench.waitsFor = room.promise;
  bench.again();
  const requests = Array.from({ length: 5 }, () => [queries[0]!, queries[1]!]).flat();
  bench.start(requests, { replyBytesMax: 8 });
  for (const call of bench.calls.splice(0)) await call.answer();
  expect(bench.calls).toEqual([]);
  const before = concat(bench.replies).length;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(requests.length * 4);
  room.resolve();
  await settled();
  expect(bench.calls.map(({ shard }) => shard)).toEqual([0, 1]);
  await bench.answerAll();
  expect(hex(concat(bench.replies))).toBe(`010a${TTL}010b${TTL}`.repeat(5));
  expect(bench.isLast).toBe(true);
});

it("a shard is not asked for more before its replies are merged, and once for the rest", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  const room = Promise.withResolvers<void>();
  bench.waitsFor = room.promise;
  bench.again();
  const requests = [0, 0, 0, 0, 1, 1, 1, 1].map((shard) => queries[shard]!);
  bench.start(requests, { replyBytesMax: 8 });
  for (const call of bench.calls.splice(0)) await call.answer();
  room.resolve();
  await settled();
  expect(bench.calls.map(({ shard }) => shard)).toEqual([0]);
  await bench.calls.shift()!.answer();
  expect(bench.calls.map(({ shard }) => shard)).toEqual([1]);
  await bench.answerAll();
  expect(hex(concat(bench.replies))).toBe(`010a${TTL}`.repeat(4) + `010b${TTL}`.repeat(4));
});

it("requests that only read reach no shard once their caller has gone", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  bench.hasReader = false;
  bench.again();
  bench.start([queries[0]!, U8.increase(KEYS[1]!), queries[1]!]);
  expect(bench.calls.map(({ shard }) => shard)).toEqual([1]);
  await bench.answerAll();
  expect([hex(concat(bench.replies)), bench.isLast]).toEqual(["", true]);
  expect(await bench.exchange(queries)).toBe("");
  bench.hasReader = true;
  expect(await bench.exchange([queries[1]!])).toBe(`010c${TTL}`);
});

it("an exchange whose caller goes while it waits for room ends without a further call", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  const room = Promise.withResolvers<void>();
  bench.waitsFor = room.promise;
  bench.again();
  bench.start(
    Array.from({ length: 6 }, () => queries[0]!),
    { replyBytesMax: 8 },
  );
  await bench.answerAll();
  bench.hasReader = false;
  room.resolve();
  await settled();
  expect([bench.calls, bench.isLast]).toEqual([[], true]);
});

it("a caller that goes during a call gets no reply, and its later writes are still applied", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  bench.again();
  const reads = Array.from({ length: 4 }, () => queries[0]!);
  bench.start([...reads, U8.increase(KEYS[0]!), ...reads], { replyBytesMax: 8 });
  const [first] = bench.calls.splice(0);
  bench.hasReader = false;
  await first!.answer();
  expect(bench.calls).toHaveLength(1);
  await bench.answerAll();
  expect([hex(concat(bench.replies)), bench.isLast]).toEqual(["", true]);
  bench.hasReader = true;
  expect(await bench.exchange([queries[0]!])).toBe(`010b${TTL}`);
});

it("a failed call ends its exchange with the error, and nothing is replied after it", async () => {
  const bench = new Bench();
  const error = new Error("reset");
  bench.start(inserts);
  const [first, second, third, fourth] = bench.calls.splice(0);
  await fourth!.fail(error);
  await first!.answer();
  await third!.fail(new Error("reset, too"));
  await second!.answer();
  expect([bench.errors, bench.replies]).toEqual([[error], []]);
});

const refusal = new ThrottrError("shard_data_missing", "restore it");

/** The code that the caller gets. */
const codesOf = ({ errors }: Bench): string[] => errors.map((error) => reportFailure(error).code);

it("a refusal of the only shard of an exchange says that nothing was applied", async () => {
  const bench = new Bench();
  bench.start([inserts[0]!]);
  await bench.calls.shift()!.fail(refusal);
  expect(codesOf(bench)).toEqual(["shard_data_missing"]);
});

it("a refusal leaves the outcome of an exchange unknown while another shard has a part of it", async () => {
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  const [first, second] = bench.calls.splice(0);
  await first!.fail(refusal);
  await second!.answer();
  expect(codesOf(bench)).toEqual(["outcome_unknown"]);
});

it("a refusal of all shards of an exchange says that nothing was applied", async () => {
  const bench = new Bench();
  bench.start(inserts.slice(0, 3));
  const [first, second, third] = bench.calls.splice(0);
  await second!.fail(refusal);
  await third!.fail(new ThrottrError("shards_mismatch", "another refusal"));
  expect(bench.errors).toEqual([]);
  await first!.fail(refusal);
  expect(codesOf(bench)).toEqual(["shard_data_missing"]);
});

it("a refusal leaves the outcome of an exchange unknown where another shard fails", async () => {
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  const [first, second] = bench.calls.splice(0);
  await first!.fail(refusal);
  await second!.fail(new Error("the object was reset"));
  expect(codesOf(bench)).toEqual(["outcome_unknown"]);
});

it("a refusal leaves the outcome of an exchange unknown where another shard hangs", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  void bench.calls[0]!.fail(refusal);
  await vi.advanceTimersByTimeAsync(1900);
  expect(bench.errors).toEqual([]);
  await vi.advanceTimersByTimeAsync(100);
  expect(codesOf(bench)).toEqual(["outcome_unknown"]);
});

it("a refusal says that nothing was applied where the other shard has split, and its part is not sent again", async () => {
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  const [first, second] = bench.calls.splice(0);
  await first!.fail(refusal);
  await second!.move();
  expect([codesOf(bench), bench.calls]).toEqual([["shard_data_missing"], []]);
});

it("a refusal leaves no timer behind", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  for (const call of bench.calls.splice(0)) void call.fail(refusal);
  // Tests take turns, too.
  await vi.advanceTimersByTimeAsync(100);
  expect([codesOf(bench), vi.getTimerCount()]).toEqual([["shard_data_missing"], 0]);
});

it("a refusal leaves the outcome of an exchange unknown where another shard has applied its part", async () => {
  const bench = new Bench();
  bench.start(inserts.slice(0, 2));
  const [first, second] = bench.calls.splice(0);
  await second!.answer();
  await first!.fail(refusal);
  expect(codesOf(bench)).toEqual(["outcome_unknown"]);
});

it("a refusal says that nothing was applied where the other parts of an exchange were not sent", async () => {
  const bench = new Bench();
  bench.start([U8.insert(KEYS[1]!, 1)]);
  const [busy] = bench.calls.splice(0);
  bench.again();
  bench.start(inserts.slice(0, 2));
  await bench.calls.shift()!.fail(refusal);
  await busy!.answer();
  expect([codesOf(bench), bench.calls]).toEqual([["shard_data_missing"], []]);
});

it("a failed exchange takes back what still waits for a call to another shard", async () => {
  const bench = new Bench();
  bench.start([U8.insert(KEYS[1]!, 1)]);
  const [busy] = bench.calls.splice(0);
  bench.start(inserts.slice(0, 2));
  expect(bench.calls.map(({ shard }) => shard)).toEqual([0]);
  await bench.calls.shift()!.fail(new Error("reset"));
  await busy!.answer();
  expect(bench.calls).toEqual([]);
});

it("a request without a right is refused in its place, and reaches no shard", async () => {
  const bench = new Bench();
  await bench.exchange(inserts);
  const mixed = [queries[0]!, U8.increase(KEYS[0]!), queries[1]!, U8.purge(KEYS[2]!)];
  const replies = await bench.exchange(mixed, { access: READER });
  expect(replies).toBe(`010a${TTL}` + "00" + `010b${TTL}` + "00");
  bench.again();
  bench.start([U8.purge(KEYS[2]!)], { access: READER });
  expect([bench.calls, hex(concat(bench.replies)), bench.isLast]).toEqual([[], "00", true]);
});

it("a holder notes the range of each shard before the shard is called", async () => {
  const bench = new Bench();
  const noted: number[] = [];
  const holder = new Holder(new Uint8Array(16), new Uint32Array(0), () => {
    noted.push(bench.calls.length);
  });
  bench.start([inserts[2]!], { holder });
  expect([noted, holder.ranges]).toEqual([[0], [initialRange(2, SHARDS)]]);
  bench.start([inserts[0]!, inserts[1]!], { holder });
  expect(noted).toEqual([0, 1, 2]);
  // Ranges that touch are one.
  expect(holder.ranges).toEqual([{ from: 0, to: initialRange(2, SHARDS).to }]);
  bench.start([inserts[1]!], { holder });
  expect(noted).toHaveLength(3);
});

it("what many shards answer at once is bounded together, and all of it comes", async () => {
  const shards = 32;
  const replyBytesMax = 16_384;
  const bench = new Bench(shards);
  const requests = Array.from({ length: 64_000 }, (_, i) => U8.query(`key:${i % 640}`));
  await bench.exchange(Array.from({ length: 640 }, (_, i) => U8.insert(`key:${i}`, i % 251)));
  bench.again();
  bench.start(requests, { replyBytesMax });
  expect(bench.calls).toHaveLength(shards);
  bench.answeredBytes = 0;
  // The shard of the first frame answers last, so that the replies of the others wait.
  for (const call of bench.calls.splice(1)) await call.answer();
  expect(bench.replies).toEqual([]);
  expect(bench.answeredBytes).toBeLessThanOrEqual(8 * replyBytesMax);
  await bench.answerAll();
  expect(bench.isLast).toBe(true);
  const expected = Array.from({ length: 64_000 }, (_, i) => `01${hexOf((i % 640) % 251)}${TTL}`);
  expect(hex(concat(bench.replies)) === expected.join("")).toBe(true);
}, 30_000);

const hexOf = (byte: number): string => byte.toString(16).padStart(2, "0");

it("replies that are passed on keep no larger buffers in memory", async () => {
  const bench = new Bench();
  await bench.exchange(KEYS.map((key) => U8.set(key, "v".repeat(200))));
  const gets = KEYS.map((key) => U8.get(key));
  const reply = vi.spyOn(bench, "reply");
  // Shards answer in the order of their first frames: each answer lets one more of these replies go.
  await bench.exchange(Array.from({ length: 100 }, () => gets).flat());
  expect(reply.mock.calls).toHaveLength(SHARDS);
  for (const [{ buffer, length }] of reply.mock.calls) {
    expect(buffer.byteLength).toBeLessThanOrEqual(2 * length + 4096);
  }
});

it("replies of a shard that wait for another one keep no answer to other callers in memory", () => {
  const part = new Part(RangeMap.WHOLE, 0, new Uint8Array(0), 0);
  const answer = new Uint8Array(100_000);
  part.replies = answer.subarray(50_000, 50_010);
  part.at = 4;
  part.keepRest();
  expect(part.replies.buffer.byteLength).toBe(6);
  expect([part.at, part.replies.length]).toEqual([0, 6]);
});
