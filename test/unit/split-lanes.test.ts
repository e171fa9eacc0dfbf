/** Exchanges over shards that split while they are served: every request is applied once, where it belongs, and in order. */
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { turn } from "../../src/base/turn.ts";
import { Exchange } from "../../src/dispatch/exchange.ts";
import { refuserFor } from "../../src/dispatch/refuser.ts";
import { ShardLanes } from "../../src/dispatch/shard-lane.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import type { Sink } from "../../src/dispatch/sink.ts";
import { batchHeaderBytes, batchVersion, readPlacement } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { writeMoved } from "../../src/wire/moved.ts";
import { framingOf } from "../../src/wire/protocols.ts";
import {
  CIRCLE,
  initialRange,
  isIn,
  isSameRange,
  WHOLE,
  type Range,
} from "../../src/wire/range.ts";
import { Target } from "../../src/wire/throttr/requests.ts";
import { concat, protocolOf, U8 } from "../support/frames/index.ts";

const SECTION_HEADER_BYTES = 12;
const KEYS = Array.from({ length: 12 }, (_, i) => `key:${i}`);
const protocol = protocolOf(U8);
const framing = framingOf(protocol);

/** A request as a shard has applied it: SET of a number under a key. */
interface Applied {
  readonly key: string;
  readonly number: number;
}

/** A call that is under way until the test ends it. */
interface Waiting {
  /** @param most how many frames of each section are answered; the others are not applied */
  end(most: number): Promise<void>;
}

/** Shards that split when they are told to, in place of objects: they write down what they apply. */
class Shards {
  readonly map: ShardMap;
  readonly applied: Applied[] = [];
  readonly waiting: Waiting[] = [];
  /** Calls whose keys were not those of the shard. */
  moved = 0;
  calls = 0;
  /** These take batches without a range alone, and refuse others: shards of the last release. */
  isOld = false;
  #ranges: Range[];
  readonly #initial: number;

  /** @param atFirst `SHARDS` of the doors */
  constructor(initial: number, atFirst = 1) {
    this.map = new ShardMap("default", atFirst, "");
    this.#initial = initial;
    this.#ranges = Array.from({ length: initial }, (_, index) => initialRange(index, initial));
  }

  get count(): number {
    return this.#ranges.length;
  }

  split(at: number): void {
    const range = this.#ranges.find((each) => isIn(each, at))!;
    if (range.from === at) return;
    this.#ranges = this.#ranges.filter((each) => each !== range);
    this.#ranges.push({ from: range.from, to: at }, { from: at, to: range.to });
  }

  /** The lanes of one door. All doors share what they know of the ranges. */
  lanes(): ShardLanes {
    return new ShardLanes(this.map, (from) => async (batch) => {
      const copy = batch.slice();
      const answer = Promise.withResolvers<Uint8Array>();
      const waiting: Waiting = {
        end: async (most) => {
          this.waiting.splice(this.waiting.indexOf(waiting), 1);
          try {
            answer.resolve(this.#apply(from, copy, most));
          } catch (error) {
            answer.reject(error);
          }
          for (let turns = 0; turns < 2; turns++) await turn();
        },
      };
      this.calls++;
      this.waiting.push(waiting);
      return await answer.promise;
    });
  }

  /** Ends all calls, and those that follow, by which no shard splits any more. */
  async endAll(): Promise<void> {
    while (this.waiting.length > 0) await this.waiting[0]!.end(Infinity);
  }

  #apply(from: number, batch: Uint8Array, most: number): Uint8Array {
    const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
    const placement = readPlacement(view);
    const own = this.#ranges.find((range) => range.from === from)!;
    const isForOld = placement.range === undefined;
    if (this.isOld !== isForOld) throw batchVersion();
    if (isForOld && placement.shards !== this.#initial)
      throw new ThrottrError("shards_mismatch", "another number of shards");
    if (!isForOld && !isSameRange(placement.range!, own)) {
      this.moved++;
      const begins = this.#ranges.map((range) => range.from).toSorted((a, b) => a - b);
      return writeMoved({ shards: this.#initial, range: own, begins });
    }
    const out = new ByteWriter();
    out.u8(batch[0]!);
    for (let at = batchHeaderBytes(placement); at < batch.length;) {
      const framesAt = at + SECTION_HEADER_BYTES;
      at = framesAt + view.getUint32(at + 8, true);
      const replies = this.#applySection(own, batch.subarray(framesAt, at), most);
      out.u32(replies.length);
      out.u32(replies.length);
      out.copy(Uint8Array.from(replies));
    }
    return out.take();
  }

  #applySection(own: Range, frames: Uint8Array, most: number): number[] {
    const replies: number[] = [];
    for (let at = 0; at < frames.length && replies.length < most;) {
      const end = framing.frameEnd(frames, at);
      if (!isIn(own, framing.hashOf(this.map, frames, at)))
        throw new Error("a key of another shard");
      const text = new TextDecoder().decode(frames.subarray(at, end));
      const [, key, number] = /(key:\d+)=(\d+)$/.exec(text)!;
      this.applied.push({ key: key!, number: Number(number) });
      replies.push(Number(number) % 2);
      at = end;
    }
    return replies;
  }
}

/** A connection: one exchange at a time, of SETs with numbers that go up. */
class Connection implements Sink {
  hasReader = true;
  readonly sent: Applied[] = [];
  readonly replies: number[] = [];
  readonly errors: unknown[] = [];
  isBusy = false;
  readonly #lanes: ShardLanes;
  #number: number;

  /** @param number the first; those of connections must not meet */
  constructor(lanes: ShardLanes, number: number) {
    this.#lanes = lanes;
    this.#number = number;
  }

  send(keys: readonly string[]): void {
    const own = keys.map((key) => ({ key, number: this.#number++ }));
    this.sent.push(...own);
    this.isBusy = true;
    const frames = {
      protocol,
      target: Target.shard,
      bytes: concat(own.map(({ key, number }) => U8.set(key, `${key}=${number}`))),
      count: own.length,
    };
    new Exchange(this.#lanes, frames, this, 1 << 20).start(refuserFor(frames, OPEN_ACCESS));
  }

  room = () => null;
  countPublished(): void {}

  fail(error: unknown): void {
    this.errors.push(error);
    this.isBusy = false;
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    this.replies.push(...replies);
    if (isLast) this.isBusy = false;
  }
}

const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

/** What must hold when all calls have ended. */
function check(shards: Shards, connections: readonly Connection[]): void {
  for (const { sent, replies, errors } of connections) {
    expect(errors).toEqual([]);
    // Replies are in the order of the requests: each says whether the number was odd.
    expect(replies).toEqual(sent.map(({ number }) => number % 2));
    const numbers = new Set(sent.map(({ number }) => number));
    const own = shards.applied.filter(({ number }) => numbers.has(number));
    for (const key of KEYS) {
      const of = (all: readonly Applied[]) =>
        all.filter((each) => each.key === key).map(({ number }) => number);
      expect(of(own)).toEqual(of(sent));
    }
  }
  const applied = shards.applied.map(({ number }) => number);
  expect(sorted(applied)).toEqual(
    sorted(connections.flatMap(({ sent }) => sent.map(({ number }) => number))),
  );
}

const keys = fc.array(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 20 });
const step = fc.oneof(
  fc.record({ kind: fc.constant("send" as const), connection: fc.nat(3), keys }),
  fc.record({
    kind: fc.constant("end" as const),
    call: fc.nat(20),
    most: fc.integer({ min: 0, max: 6 }),
  }),
  fc.record({ kind: fc.constant("split" as const), at: fc.nat(CIRCLE - 1) }),
);

it("requests are applied once and in order, whenever shards split and calls end", async () => {
  let moved = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 1, 3),
      fc.array(step, { minLength: 10, maxLength: 60 }),
      async (initial, steps) => {
        const shards = new Shards(initial);
        const doors = [shards.lanes(), shards.lanes()] as const;
        const connections = [0, 1, 2, 3].map((i) => new Connection(doors[i % 2]!, i * 10_000));
        for (const each of steps) {
          const connection = each.kind === "send" ? connections[each.connection]! : null;
          if (each.kind === "send" && !connection!.isBusy) connection!.send(each.keys);
          if (each.kind === "split") shards.split(each.at);
          if (each.kind === "end" && shards.waiting.length > 0) {
            await shards.waiting[each.call % shards.waiting.length]!.end(each.most || Infinity);
          }
        }
        await shards.endAll();
        check(shards, connections);
        moved += shards.moved;
      },
    ),
    { numRuns: 120 },
  );
  // Without these the property says nothing.
  expect(moved).toBeGreaterThan(100);
});

it("a request does not overtake an older one that a shard has sent on", async () => {
  const shards = new Shards(1);
  const [door, other] = [shards.lanes(), shards.lanes()];
  const older = new Connection(door, 0);
  const newer = new Connection(door, 100);
  older.send(["key:1"]);
  shards.split(1);
  // Another door learns of the split first.
  const scout = new Connection(other, 200);
  scout.send(["key:1"]);
  await shards.waiting[1]!.end(Infinity);
  expect(shards.map.ranges.count).toBe(2);
  newer.send(["key:1"]);
  const [first] = shards.waiting;
  for (const each of shards.waiting.slice(1)) await each.end(Infinity);
  await first!.end(Infinity);
  await shards.endAll();
  const numbers = shards.applied.map(({ number }) => number).filter((number) => number < 200);
  expect(numbers).toEqual([0, 100]);
});

it("an exchange over more than 254 shards keeps their replies apart", async () => {
  const shards = new Shards(1);
  for (let i = 1; i < 1024; i++) shards.split(i * 2 ** 22);
  shards.map.learn({
    shards: 1,
    range: { from: 0, to: 2 ** 22 },
    begins: Array.from({ length: 1023 }, (_, i) => (i + 1) * 2 ** 22),
  });
  const connection = new Connection(shards.lanes(), 0);
  const many = Array.from({ length: 3000 }, (_, i) => `key:${i}`);
  connection.send(many);
  expect(shards.calls).toBeGreaterThan(900);
  await Promise.all(shards.waiting.slice().map((each) => each.end(Infinity)));
  expect([shards.moved, connection.errors]).toEqual([0, []]);
  expect(connection.replies).toEqual(many.map((_, i) => i % 2));
});

it("a cold door reaches a key by way of the first shard, and the next request at once", async () => {
  const shards = new Shards(4);
  const connection = new Connection(shards.lanes(), 0);
  connection.send(["key:1"]);
  await shards.endAll();
  const calls = shards.calls;
  expect([calls <= 2, shards.map.shards, shards.map.ranges.count]).toEqual([true, 4, 4]);
  new Connection(shards.lanes(), 10).send(["key:1"]);
  expect(shards.calls).toBe(calls + 1);
});

it("shards of the last release get batches without a range, and others again once they have the new one", async () => {
  const shards = new Shards(1);
  shards.isOld = true;
  const lanes = shards.lanes();
  const connection = new Connection(lanes, 0);
  connection.send(["key:1", "key:2"]);
  await shards.endAll();
  expect([shards.calls, shards.applied.length]).toEqual([2, 2]);
  connection.send(["key:3"]);
  await shards.endAll();
  expect(shards.calls).toBe(3);
  shards.isOld = false;
  connection.send(["key:4"]);
  await shards.endAll();
  expect(shards.calls).toBe(5);
  check(shards, [connection]);
});

it.each([
  ["is found where SHARDS is not set", 4, 1, []],
  ["is the one that SHARDS says", 8, 8, []],
  ["is not searched for where it is neither SHARDS nor the default", 3, 1, ["shards_mismatch"]],
  ["is not searched for where SHARDS is set to another one", 4, 2, ["shards_mismatch"]],
])("the number of shards of the last release %s", async (_title, initial, atFirst, codes) => {
  const shards = new Shards(initial, atFirst);
  shards.isOld = true;
  const connection = new Connection(shards.lanes(), 0);
  connection.send(["key:1"]);
  await shards.endAll();
  expect(connection.errors).toMatchObject(codes.map((code) => ({ code })));
  if (codes.length > 0) return;
  connection.send(Array.from({ length: 20 }, (_, i) => `key:${i}`));
  await shards.endAll();
  expect(new Set(shards.applied.map(({ key }) => key)).size).toBe(20);
  check(shards, [connection]);
});

it("a request that 64 shards in a row have sent on is refused, and the next one begins at the first shard", async () => {
  const error = vi.spyOn(console, "error").mockImplementation(() => {});
  const map = new ShardMap("default", 1, "");
  map.learn({ shards: 1, range: WHOLE, begins: [5, 6, 7] });
  let calls = 0;
  const lanes = new ShardLanes(map, () => async () => {
    calls++;
    await turn();
    return writeMoved({ shards: 1, range: { from: 1, to: 4 }, begins: [] });
  });
  const connection = new Connection(lanes, 0);
  connection.send(["key:1"]);
  await vi.waitFor(() => expect(connection.errors).toHaveLength(1), 20_000);
  expect(connection.errors[0]).toMatchObject({ code: "shards_unsettled" });
  expect([calls, map.ranges.count, error.mock.calls.length]).toEqual([65, 1, 1]);
  error.mockRestore();
});
