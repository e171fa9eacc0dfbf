/** LIMIT_ALL in the engine: limits of one shard are charged in one step, or none; a charge under an id can be cancelled. */
import { describe, expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { LIMIT_COUNTS, LIMIT_OUTCOMES, LimitRow } from "../../src/engine/limit-figures.ts";
import type { LimitAllEntry, LimitAllResult } from "../../src/wire/edge/limit-all.ts";
import type { LimitStrategy } from "../../src/wire/edge/limit.ts";
import { settle, type Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { concat, edgeBatch, f64, partsOf, uuidOfNumber } from "../support/frames/index.ts";
import { fillUp } from "../support/engine/full.ts";
import { resultOf, together } from "../support/rate-limits/limit-all.ts";

const NOW_MS = 1_700_000_040_000;
const bucket = (burst: number, rate = 0.001): LimitStrategy => ({
  strategy: "token_bucket",
  burst,
  rate,
});
const window = (limit: number): LimitStrategy => ({
  strategy: "fixed_window",
  quotas: [{ name: "minute", limit, windowMs: 60_000 }],
});
const TEN = bucket(10);
const user = (cost: number, strategy = TEN): LimitAllEntry => ({
  name: "user",
  key: "ada",
  strategy,
  cost,
});
const organisation = (cost: number, strategy = TEN): LimitAllEntry => ({
  name: "organisation",
  key: "acme",
  strategy,
  cost,
});

/** An engine at a time that the test moves. */
class Shard {
  nowMs = NOW_MS;
  readonly engine: Engine;

  constructor(bytesMax = 1 << 22) {
    const hashKey = { low: 1, high: 2 };
    this.engine = new Engine({ hashKey, bytesMax, isCounting: true });
  }

  call<Result>(operation: Operation<Result>): Result {
    const answer = this.engine.apply(edgeBatch([operation.frame]), this.nowMs);
    const [settled] = settle([operation], partsOf(answer)[0]!.replies);
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  }

  all(requests: readonly LimitAllEntry[], id: string | null = null): LimitAllResult {
    const call = together(...requests);
    return resultOf(call, this.engine.limitAll(call.body, id, this.nowMs));
  }

  cancel(requests: readonly LimitAllEntry[], id: string): Error | null {
    return this.engine.cancelLimits(together(...requests).body, id, this.nowMs);
  }

  remaining({ name, key, strategy }: LimitAllEntry): number {
    return this.call(operations.peek({ name, key, strategy })).remaining;
  }

  /** Allowed, refused and errors of a row of counts. */
  counts(row: number): number[] {
    const { counts } = this.engine.limitFigures.counts(this.nowMs);
    const at = row * 2 * LIMIT_COUNTS;
    return [...counts.subarray(at, at + LIMIT_OUTCOMES)];
  }

  /** Drops the commit, so that `engine.isDirty` says whether anything changes from here on. */
  settle(): void {
    this.engine.takeCommit(1 << 20);
  }
}

describe("limits of one shard together", () => {
  it("limits that all have room are all charged, each its own cost", () => {
    const shard = new Shard();
    expect(shard.all([user(3), organisation(4)])).toMatchObject({
      success: true,
      refusedBy: null,
      retryAfterMs: 0,
      results: [
        { success: true, limit: 10, remaining: 7 },
        { success: true, limit: 10, remaining: 6 },
      ],
    });
    expect(shard.remaining(user(1))).toBe(7);
    expect(shard.remaining(organisation(1))).toBe(6);
  });

  it("a limit without room keeps all others from being charged, and nothing is written", () => {
    const shard = new Shard();
    shard.all([user(3), organisation(4)]);
    shard.settle();
    expect(shard.all([user(5), organisation(8)])).toMatchObject({
      success: false,
      refusedBy: 1,
      retryAfterMs: 2_000_000,
      results: [
        { success: true, remaining: 2 },
        { success: false, remaining: 6, retryAfterMs: 2_000_000 },
      ],
    });
    expect(shard.engine.isDirty).toBe(false);
    expect(shard.remaining(user(1))).toBe(7);
    expect(shard.remaining(organisation(1))).toBe(6);
  });

  it("a refusal has the longest wait of all that refuse, and none where one can never allow it", () => {
    const shard = new Shard();
    shard.all([user(10), organisation(10)]);
    expect(shard.all([user(1), organisation(3)])).toMatchObject({
      refusedBy: 0,
      retryAfterMs: 3_000_000,
    });
    const never = shard.all([user(1), organisation(11)]);
    expect(never).toMatchObject({ success: false, refusedBy: 0, retryAfterMs: null });
    expect(never.results[1]).toMatchObject({ reason: "cost_exceeds_limit" });
  });

  it("entries of one limit count with their sum, and all of them have its decision", () => {
    const shard = new Shard();
    expect(shard.all([user(3), organisation(1), user(4)])).toMatchObject({
      success: true,
      results: [{ remaining: 3 }, { remaining: 9 }, { remaining: 3 }],
    });
    expect(shard.all([user(2), organisation(1), user(2)])).toMatchObject({
      success: false,
      refusedBy: 0,
      results: [{ success: false }, { success: true }, { success: false }],
    });
    expect(shard.remaining(organisation(1))).toBe(9);
  });

  it("entries about one record with two strategies are refused, and nothing is charged", () => {
    const shard = new Shard();
    expect(() => shard.all([organisation(1), user(1), user(1, bucket(20))])).toThrow(
      "limit_all_invalid: requests 1 and 2 are about one record, user:ada: give both the same strategy, and make both shadow or neither",
    );
    expect(() => shard.all([user(1), { ...user(1), shadow: true }])).toThrow("limit_all_invalid");
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("a limit in shadow mode is charged with the others if it has room, and never refuses them", () => {
    const shard = new Shard();
    const shadow = { ...user(6), shadow: true };
    expect(shard.all([shadow, organisation(1)])).toMatchObject({
      success: true,
      results: [{ success: true, remaining: 4 }, { remaining: 9 }],
    });
    expect(shard.all([shadow, organisation(1)])).toMatchObject({
      success: true,
      refusedBy: null,
      retryAfterMs: 0,
      results: [{ success: false, remaining: 4 }, { remaining: 8 }],
    });
    expect(shard.all([{ ...shadow, cost: 1 }, organisation(9)])).toMatchObject({
      success: false,
      refusedBy: 1,
    });
    expect(shard.remaining(user(1))).toBe(4);
    expect(shard.remaining(organisation(1))).toBe(8);
  });

  it("an entry whose record holds something else fails the call with its key, and charges nothing", () => {
    const shard = new Shard();
    shard.call(operations.set("organisation:acme", "hello", { ttlMs: 60_000 }));
    expect(() => shard.all([user(1), organisation(1)])).toThrow(
      /^state_invalid: the buffer under "organisation:acme"/,
    );
    shard.call(operations.purge("organisation:acme"));
    shard.call(operations.insert("organisation:acme", { quota: 5, ttlMs: 60_000 }));
    expect(() => shard.all([user(1), organisation(1)])).toThrow(
      "kind_mismatch: organisation:acme: the record under the key is a counter",
    );
    expect(shard.remaining(user(1))).toBe(10);
    expect(shard.counts(LimitRow.all)).toEqual([0, 0, 2]);
  });

  it("a shard that has no room for one of the states charges none, and keeps what was stored", () => {
    const shard = new Shard(1 << 16);
    shard.all([user(3)]);
    const entries = (i: number): LimitAllEntry[] =>
      Array.from({ length: 30 }, (_, j) => ({ ...organisation(1), key: `${i}-${j}` }));
    let records = 0;
    let charged = 0;
    const fill = (): void => {
      for (; charged < 100; charged++) {
        ({ records } = shard.engine.figures);
        shard.all(entries(charged));
      }
    };
    expect(fill).toThrow(/^shard_full: organisation:/);
    expect(charged).toBeGreaterThan(1);
    expect(shard.engine.figures.records).toBe(records);
    expect(() => shard.all([user(1), ...entries(charged)])).toThrow(/^shard_full: organisation:/);
    expect(shard.engine.figures.records).toBe(records);
    expect(shard.remaining(user(1))).toBe(7);
  });

  it("a shard that has no room for one of the states keeps what was stored where another one has become shorter", () => {
    const shard = new Shard(1 << 13);
    const names = Array.from({ length: 8 }, (_, i) => `quota-${i}`.padEnd(64, "x"));
    const quotas = names.map((name, i) => ({ name, limit: 10, windowMs: 60_000 + i }));
    const many = { strategy: "fixed_window", quotas } as const;
    const one = { strategy: "fixed_window", quotas: quotas.slice(0, 1) } as const;
    shard.all([user(3, many), organisation(3, one)]);
    shard.call(operations.set("spare", new Uint8Array(700), { ttlMs: 60_000 }));
    fillUp(shard.engine, shard.nowMs);
    shard.call(operations.purge("spare"));
    // The others take the room that the first one leaves, up to one that has none.
    const others = Array.from({ length: 8 }, (_, i) => ({
      ...organisation(1, many),
      key: `${i}`,
    }));
    expect(() => shard.all([user(1, one), organisation(1, many), ...others])).toThrow(
      /^shard_full: organisation:\d/,
    );
    const remainingOf = (entry: LimitAllEntry): number[] => {
      const { quotas: left } = shard.call(operations.peek(entry));
      return Object.values(left).map(({ remaining }) => remaining);
    };
    expect(remainingOf(user(1, many))).toEqual(names.map(() => 7));
    expect(remainingOf(organisation(1, one))).toEqual([7]);
  });

  it("a full shard takes units of draws back that come with limits that it refuses", () => {
    const shard = new Shard(1 << 16);
    const fast = bucket(1000, 1);
    const limit = { name: "user", key: "ada", strategy: fast };
    const { draw } = shard.call(operations.draw({ ...limit, cost: 500 }));
    fillUp(shard.engine, shard.nowMs);
    shard.nowMs += 333;
    const returns = [{ draw: draw!, units: 100 }];
    expect(() => shard.all([{ ...limit, cost: 1, returns }, organisation(1)])).toThrow(
      /^shard_full: organisation:/,
    );
    expect(shard.remaining(user(1, fast))).toBe(600);
  });

  it("units of draws are given back also with a charge that was cancelled before it came", () => {
    const shard = new Shard();
    const { draw } = shard.call(
      operations.draw({ name: "user", key: "ada", strategy: TEN, cost: 4 }),
    );
    const entry = { ...user(1), returns: [{ draw: draw!, units: 3 }] };
    expect(shard.cancel([entry], "late")).toBeNull();
    expect(() => shard.all([entry], "late")).toThrow("charge_cancelled");
    expect(shard.remaining(user(1))).toBe(9);
  });

  it("each entry counts as a decision of its limit", () => {
    const shard = new Shard();
    shard.all([user(3), organisation(4), user(1)]);
    shard.all([user(1), organisation(7)]);
    expect(shard.counts(LimitRow.all)).toEqual([4, 1, 0]);
    expect(shard.counts(LimitRow.firstName)).toEqual([3, 0, 0]);
    expect(shard.counts(LimitRow.firstName + 1)).toEqual([1, 1, 0]);
  });

  it("units of draws are given back before anything is decided, once, and also where the call is refused", () => {
    const shard = new Shard();
    const { draw } = shard.call(
      operations.draw({ ...user(1), cost: 8, wanted: 0 }) as Operation<{ draw: number }>,
    );
    const returns = [{ draw, units: 6 }];
    expect(shard.all([{ ...user(8), returns }, organisation(11)])).toMatchObject({
      success: false,
      results: [{ success: true, remaining: 0 }, { success: false }],
    });
    expect(shard.remaining(user(1))).toBe(8);
    expect(shard.all([{ ...user(1), returns }])).toMatchObject({ results: [{ remaining: 7 }] });
  });
});

describe("the body of LIMIT_ALL", () => {
  const shard = new Shard();
  const { body } = together(user(1), organisation(1));
  const refusalOf = (bytes: Uint8Array): string =>
    new TextDecoder().decode(shard.engine.limitAll(bytes, null, NOW_MS).subarray(5));

  it("a body that is cut short anywhere, or goes on, is refused", () => {
    for (let end = 0; end < body.length; end++) {
      expect(refusalOf(body.slice(0, end))).toMatch(/^(limit_all|configuration|cost)_invalid: /);
    }
    expect(refusalOf(concat([body, Uint8Array.of(0)]))).toMatch(/^limit_all_invalid: expected no/);
    expect(shard.engine.figures.records).toBe(0);
  });

  it("costs and returns that are no integers are refused, also where their sum is one", () => {
    const entry = together(user(1)).body.slice(1);
    const withCost = (cost: number): Uint8Array => {
      const bytes = entry.slice();
      bytes.set(f64(cost), 2 + "user:ada".length);
      return bytes;
    };
    for (const [a, b] of [
      [1.5, 1.5],
      [-1, 3],
      [0, 1],
      [NaN, 1],
    ] as const) {
      const message = refusalOf(concat([Uint8Array.of(2), withCost(a), withCost(b)]));
      expect(message).toMatch(/^cost_invalid: expected an integer from 1/);
    }
    const { body: returning } = together({ ...user(1), returns: [{ draw: 7, units: 3 }] });
    returning.set(f64(NaN), 1 + 2 + "user:ada".length + 8 + 1 + 8);
    expect(refusalOf(returning)).toMatch(/^limit_all_invalid: expected units of a return/);
  });

  it("a list that is empty, too long or wrong is refused before anything is sent", () => {
    const requests = Array.from({ length: 33 }, (_, i) => ({ ...user(1), key: `k${i}` }));
    expect(() => together()).toThrow("limit_all_invalid: requests.length");
    expect(() => together(...requests)).toThrow("limit_all_invalid: requests.length");
    expect(() => together(user(1), user(0))).toThrow("cost_invalid: requests[1].cost: expected");
    expect(() => together(user(1), { ...user(1), key: "ü" })).toThrow("key_invalid: requests[1].");
    expect(() => together({ ...user(1), shadow: 1 as never })).toThrow(
      "limit_all_invalid: requests[0].shadow: expected true or false, got 1",
    );
    expect(() => operations.limitAll(undefined as never)).toThrow("argument_invalid");
    expect(() => operations.limitAll({ requests: 3 as never })).toThrow(
      "limit_all_invalid: requests: expected a list, got 3",
    );
    expect(together(...requests.slice(1)).body[0]).toBe(32);
  });
});

describe("a charge under an id", () => {
  const both = [user(3), organisation(4)];

  it("a cancelled charge is given back, once", () => {
    const shard = new Shard();
    shard.all(both);
    shard.all(both, "a");
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(7);
    expect(shard.remaining(organisation(1))).toBe(6);
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(7);
  });

  it("a cancel gives back only what was charged under its own id", () => {
    const shard = new Shard();
    shard.all(both, "a");
    shard.all([user(5)], "b");
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(5);
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("a charge that comes after its cancel is refused, and charges nothing", () => {
    const shard = new Shard();
    shard.cancel(both, "a");
    shard.nowMs += 29_000;
    expect(() => shard.all(both, "a")).toThrow("charge_cancelled");
    expect(shard.remaining(user(1))).toBe(10);
    expect(shard.all(both, "b").success).toBe(true);
    shard.nowMs += 2_000;
    expect(shard.all(both, "a").success).toBe(true);
  });

  it("a cancel of a charge that was refused gives nothing back", () => {
    const shard = new Shard();
    shard.all([user(8)]);
    expect(shard.all(both, "a").success).toBe(false);
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(2);
  });

  it("what a limit in shadow mode was not charged is not given back", () => {
    const shard = new Shard();
    const shadow = { ...user(6), shadow: true };
    shard.all([user(8)]);
    expect(shard.all([shadow, organisation(1)], "a").success).toBe(true);
    shard.cancel([shadow, organisation(1)], "a");
    expect(shard.remaining(user(1))).toBe(2);
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("a cancel more than ten seconds later leaves the charge standing", () => {
    const shard = new Shard();
    shard.all(both, "a");
    shard.nowMs += 10_001;
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(7);
  });

  it("a bucket that has refilled meanwhile gets no more back than it lacks", () => {
    const shard = new Shard();
    const fast = [user(6, bucket(10, 2))];
    shard.all(fast, "a");
    shard.nowMs += 2_000;
    shard.all([user(8, bucket(10, 2))]);
    shard.cancel(fast, "a");
    // 10 - 6 + 4 - 8 is 0, and of the six the refill has used up four.
    expect(shard.remaining(user(1, bucket(10, 2)))).toBe(2);
  });

  it("a window that has ended gets nothing back", () => {
    const shard = new Shard();
    const perMinute = [user(6, window(10))];
    shard.nowMs = NOW_MS + 55_000;
    shard.all([user(1, window(10))]);
    shard.nowMs += 58_000;
    shard.all(perMinute, "a");
    shard.nowMs += 3_000;
    shard.all([user(2, window(10))]);
    shard.cancel(perMinute, "a");
    expect(shard.remaining(user(1, window(10)))).toBe(8);
  });

  it("a record that was removed meanwhile gets nothing back", () => {
    const shard = new Shard();
    shard.all(both, "a");
    shard.call(operations.reset({ name: "user", key: "ada", strategy: TEN }));
    shard.all([user(2)]);
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(8);
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("two draws that come back with limits leave a reservation of their key as it was", () => {
    const shard = new Shard();
    const limit = { name: "user", key: "ada", strategy: bucket(100) };
    const draws = [1, 2].map(() => shard.call(operations.draw({ ...limit, cost: 10 })));
    const reservation = { ...limit, id: uuidOfNumber(1) };
    shard.call(operations.reserve({ ...reservation, cost: 40, ttlMs: 60_000 }));
    const returns = draws.map(({ draw }) => ({ draw: draw!, units: 10 }));
    expect(shard.all([{ ...limit, cost: 1, returns }])).toMatchObject({
      results: [{ remaining: 59 }],
    });
    expect(shard.call(operations.settle({ ...reservation, cost: 50 }))).toMatchObject({
      remaining: 49,
    });
  });

  it("a charge is given back though the last reservation of its key has ended, and was collected", () => {
    const shard = new Shard();
    const reservation = { name: "user", key: "ada", strategy: TEN, id: uuidOfNumber(1) };
    shard.call(operations.reserve({ ...reservation, cost: 1, ttlMs: 1000 }));
    shard.nowMs += 900;
    shard.all(both, "a");
    shard.nowMs += 200;
    expect(shard.engine.sweepStep(0, shard.nowMs)).toBeNull();
    shard.cancel(both, "a");
    expect(shard.remaining(user(1))).toBe(9);
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("a cancel gives back what it can, though another record has become a counter, and says so", () => {
    const shard = new Shard();
    shard.all(both, "a");
    shard.call(operations.purge("user:ada"));
    shard.call(operations.insert("user:ada", { quota: 1, ttlMs: 60_000 }));
    expect(String(shard.cancel(both, "a"))).toContain("kind_mismatch");
    expect(shard.remaining(organisation(1))).toBe(10);
  });

  it("a full shard gives back a charge that is cancelled, though its state becomes longer", () => {
    const shard = new Shard(1 << 16);
    const fast = bucket(1000, 1);
    shard.all([user(500, fast), organisation(5)], "a");
    fillUp(shard.engine, shard.nowMs);
    shard.nowMs += 333;
    expect(() => shard.all([user(1, fast)])).toThrow("shard_full");
    expect(shard.cancel([user(500, fast), organisation(5)], "a")).toBeNull();
    expect(shard.remaining(user(1, fast))).toBe(1000);
    expect(shard.remaining(organisation(5))).toBe(10);
  });

  it("a cancel does not look at all open charges of its key", () => {
    const shard = new Shard();
    const entry = [user(1, bucket(1_000_000))];
    for (let i = 0; i < 10_000; i++) shard.all(entry, `open ${i}`);
    const fromMs = performance.now();
    for (let i = 0; i < 1_000; i++) {
      shard.all(entry, `cancelled ${i}`);
      shard.cancel(entry, `cancelled ${i}`);
    }
    // About 0.1 s; where each one looked at all charges, it took 9 s.
    expect(performance.now() - fromMs).toBeLessThan(3_000);
    expect(shard.remaining(entry[0]!)).toBe(990_000);
  });
});
