/** Remembered refusals: what they answer, for how long, and what they never do. */
import fc from "fast-check";
import { beforeEach, describe, expect, inject, it } from "vitest";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  RateLimiter,
  RateLimitError,
  RefusalCache,
  slidingWindow,
  tokenBucket,
  type LimitStrategy,
  type RateLimiterOptions,
} from "../../src/ratelimit/index.ts";
import { FakeBackend, FakeClock, settle } from "../support/rate-limits/backend.ts";
import { runs } from "../support/runs.ts";

const RUNS = { seed: inject("seed"), numRuns: runs(300) };
const BUCKET = tokenBucket({ burst: 5, rate: 1 });

let clock: FakeClock;
let throttr: FakeBackend;

beforeEach(() => {
  clock = new FakeClock();
  throttr = new FakeBackend(clock);
});

function limiterOf(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  return new RateLimiter({
    throttr,
    name: "api",
    strategy: BUCKET,
    clock,
    cache: true,
    ...options,
  });
}

/** Calls of the backend that something makes. */
async function callsOf(use: () => Promise<unknown>): Promise<number> {
  const before = throttr.calls.length;
  await use();
  return throttr.calls.length - before;
}

describe("a remembered refusal", () => {
  it.each<[string, unknown, unknown]>([
    ["cost_invalid", "ada", 1.5],
    ["cost_invalid", "ada", 2n],
    ["cost_invalid", "ada", "2"],
    ["key_invalid", 7, 2],
  ])("a remembered refusal does not hide %s of key %s and cost %s", async (code, key, cost) => {
    const limiter = limiterOf();
    for (const known of ["ada", "7"]) {
      await limiter.limit(known, { cost: 5 });
      expect((await limiter.limit(known, { cost: 1 })).success).toBe(false);
      expect((await limiter.limit(known, { cost: 1 })).cached).toBe(true);
    }
    await expect(limiter.limit(key as string, { cost: cost as number })).rejects.toMatchObject({
      code,
    });
  });

  it("a remembered refusal answers without a call until its reset", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 4 });
    const refused = await limiter.limit("ada", { cost: 3 });
    expect(refused).toMatchObject({ success: false, retryAfterMs: 2_000 });
    expect(refused.cached).toBeUndefined();
    await clock.advance(1_500);
    const calls = await callsOf(async () => {
      expect(await limiter.limit("ada", { cost: 3 })).toEqual({
        ...refused,
        retryAfterMs: 500,
        cached: true,
      });
    });
    expect(calls).toBe(0);
    await clock.advance(499);
    expect(await limiter.limit("ada", { cost: 3 })).toMatchObject({ retryAfterMs: 1 });
    await clock.advance(1);
    expect(await limiter.limit("ada", { cost: 3 })).toMatchObject({ success: true });
  });

  it("a remembered refusal is of one key, one limiter name and one strategy", async () => {
    const cache = new RefusalCache();
    const limiter = limiterOf({ cache });
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    const others: [RateLimiter, string][] = [
      [limiter, "bob"],
      [limiterOf({ cache, name: "other" }), "ada"],
      [limiterOf({ cache, strategy: tokenBucket({ burst: 6, rate: 1 }) }), "ada"],
      [
        limiterOf({ cache, strategy: slidingWindow({ limit: 9, window: "1 s" }), name: "s" }),
        "ada",
      ],
    ];
    for (const [other, key] of others) {
      expect(await callsOf(async () => await other.peek(key))).toBe(1);
      expect(await callsOf(async () => await other.limit(key))).toBe(1);
    }
    const same = limiterOf({ cache, strategy: tokenBucket({ burst: 5, rate: 1 }) });
    expect(await callsOf(async () => await same.limit("ada"))).toBe(0);
  });

  it("a remembered refusal refuses greater costs, and lets smaller ones be asked for", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    await limiter.limit("ada", { cost: 3 });
    expect(await callsOf(async () => await limiter.limit("ada", { cost: 5 }))).toBe(0);
    expect(await callsOf(async () => await limiter.limit("ada", { cost: 2 }))).toBe(1);
  });

  it("a remembered refusal does not hide that a cost is never granted", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    expect(await limiter.limit("ada", { cost: 6 })).toMatchObject({ reason: "cost_exceeds_limit" });
    // Which is nothing to remember: there is no end to it.
    expect(await callsOf(async () => await limiter.limit("ada", { cost: 6 }))).toBe(1);
  });

  it("a grant ends a remembered refusal", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    await limiter.limit("ada", { cost: 4 });
    await limiter.limit("ada", { cost: 2 });
    expect(await limiter.limit("ada", { cost: 4 })).toMatchObject({ remaining: 0 });
  });

  it("a refund or a reset through its limiter ends a remembered refusal", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    await limiter.refund("ada");
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
    await limiter.limit("ada");
    await limiter.reset("ada");
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });

  it("a remembered refusal outlives a refund through another limiter", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    await limiterOf().reset("ada");
    expect(await limiter.limit("ada")).toMatchObject({ success: false, cached: true });
    await clock.advance(1_000);
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });

  it.each(["refund", "reset"] as const)(
    "a refusal older than a %s is not remembered",
    async (method) => {
      const limiter = limiterOf();
      // Stored under another name than the caller's.
      const key = "/ada";
      await limiter.limit(key, { cost: 5 });
      throttr.hold();
      const refusal = limiter.limit(key);
      await settle();
      const change = limiter[method](key);
      await settle();
      await throttr.release();
      await change;
      expect(await refusal).toMatchObject({ success: false });
      expect(await callsOf(async () => await limiter.limit(key))).toBe(1);
    },
  );

  it("a refund whose answer comes too late ends a remembered refusal", async () => {
    const limiter = limiterOf({ timeoutMs: 10, onError: "open" });
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    throttr.hold();
    const refund = limiter.refund("ada");
    await clock.advance(10);
    expect(await refund).toMatchObject({ reason: "timeout" });
    await throttr.release();
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });

  it("a refusal that comes behind the end of its wait is remembered", async () => {
    const limiter = limiterOf({ timeoutMs: 10, onError: "open" });
    await limiter.limit("ada", { cost: 5 });
    throttr.hold();
    const call = limiter.limit("ada");
    await clock.advance(10);
    expect(await call).toMatchObject({ success: true, reason: "timeout" });
    await throttr.release();
    expect(await limiter.limit("ada")).toMatchObject({ success: false, cached: true });
  });

  it("a call with an idempotency key neither uses nor leaves a remembered refusal", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5, idempotencyKey: "first" });
    await limiter.limit("ada", { idempotencyKey: "second" });
    expect(await callsOf(async () => await limiter.limit("ada"))).toBe(1);
    expect(await limiter.limit("ada", { cost: 5, idempotencyKey: "first" })).toMatchObject({
      success: true,
    });
    expect(await limiter.limit("ada")).toMatchObject({ cached: true });
  });

  it("remembered refusals answer a part of limitMany", async () => {
    const limiter = limiterOf();
    await limiter.limitMany([{ key: "ada", cost: 5 }, "ada", { key: "eve", cost: 5 }, "eve"]);
    const keys = ["bob", "ada", { key: "eve", cost: 2 }, "carol"];
    const results = await limiter.limitMany(keys);
    expect(results.map(({ success, cached = false }) => [success, cached])).toEqual([
      [true, false],
      [false, true],
      [false, true],
      [true, false],
    ]);
    expect(throttr.calls.at(-1)!.requests.map(({ key }) => key)).toEqual(["bob", "carol"]);
    expect(await callsOf(async () => await limiter.limitMany(["ada", "eve"]))).toBe(0);
  });

  it("a remembered refusal is shown in shadow mode too", async () => {
    const limiter = limiterOf({ shadow: true });
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    const calls = await callsOf(async () => {
      expect(await limiter.limit("ada")).toMatchObject({
        success: true,
        shadow: { success: false, cached: true },
      });
    });
    expect(calls).toBe(0);
  });

  it("a remembered refusal counts by the caller's clock, whatever the server's says", async () => {
    for (const skewMs of [-3_600_000, 3_600_000]) {
      throttr = new FakeBackend(clock);
      throttr.skewMs = skewMs;
      const limiter = limiterOf();
      await limiter.limit("ada", { cost: 5 });
      const refused = await limiter.limit("ada");
      await clock.advance(999);
      expect(await limiter.limit("ada")).toMatchObject({
        cached: true,
        retryAfterMs: 1,
        reset: refused.reset,
      });
      await clock.advance(1);
      expect(await limiter.limit("ada")).toMatchObject({ success: true });
    }
  });

  it("a remembered refusal counts from its answer", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5 });
    throttr.hold();
    const call = limiter.limit("ada");
    await clock.advance(400);
    await throttr.release();
    await call;
    await clock.advance(999);
    expect(await limiter.limit("ada")).toMatchObject({ cached: true });
    await clock.advance(1);
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });

  it("a remembered refusal ends when the clock goes back", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    clock.timeMs -= 1;
    expect(await callsOf(async () => await limiter.limit("ada"))).toBe(1);
  });
});

describe("a cache", () => {
  it("a limiter has no cache by default", async () => {
    const limiter = limiterOf({ cache: false });
    await limiter.limit("ada", { cost: 5 });
    await limiter.limit("ada");
    expect(await callsOf(async () => await limiter.limit("ada"))).toBe(1);
  });

  it("a cache has a bound, and drops the oldest refusal", async () => {
    const limiter = limiterOf({ cache: new RefusalCache({ entriesMax: 2 }) });
    for (const key of ["ada", "bob", "carol", "bob"]) {
      await limiter.limit(key, { cost: 5 });
      await limiter.limit(key);
    }
    const asked = ["ada", "bob", "carol"].map(async (key) => {
      return (await limiter.limit(key)).cached ?? false;
    });
    expect(await Promise.all(asked)).toEqual([false, true, true]);
  });

  it("a cache takes a renewed refusal for a young one", async () => {
    const limiter = limiterOf({ cache: new RefusalCache({ entriesMax: 2 }) });
    for (const key of ["ada", "bob"]) await limiter.limit(key, { cost: 5 });
    for (const key of ["ada", "bob"]) await limiter.limit(key, { cost: 5 });
    await limiter.limit("ada", { cost: 1 });
    for (const cost of [5, 1]) await limiter.limit("carol", { cost });
    expect(await limiter.limit("ada")).toMatchObject({ cached: true });
    expect(await callsOf(async () => await limiter.limit("bob"))).toBe(1);
  });

  it.each(["ada", "bob"])(
    "a cache remembers nothing that %s was refused before many refunds",
    async (key) => {
      const limiter = limiterOf({ cache: new RefusalCache({ entriesMax: 2 }) });
      await limiter.limit(key, { cost: 5 });
      throttr.hold();
      const refusal = limiter.limit(key);
      await settle();
      const changes = ["ada", "b", "c", "d"].map(async (key) => await limiter.refund(key));
      await settle();
      await throttr.release();
      await Promise.all([refusal, ...changes]);
      expect(await callsOf(async () => await limiter.limit(key))).toBe(1);
    },
  );

  it.each([0, -1, 1.5, NaN])("a cache does not accept a bound of %s", (entriesMax) => {
    expect(() => new RefusalCache({ entriesMax })).toThrow(RateLimitError);
  });
});

const limit = fc.integer({ min: 1, max: 6 });
const windowMs = fc.integer({ min: 1, max: 5_000 });
const bucket = fc.record({ burst: limit, rate: fc.constantFrom(0.3, 1, 2, 7.3, 1_000) });
const window = fc.record({ limit, windowMs });
const windows = fc
  .uniqueArray(window, {
    minLength: 1,
    maxLength: 3,
    selector: ({ limit, windowMs }) => limit / windowMs,
  })
  .map((quotas) => fixedWindow(quotas.map((quota, i) => ({ name: `q${i}`, ...quota }))));
const buckets = fc.oneof(bucket.map(tokenBucket), bucket.map(leakyBucket), bucket.map(gcra));
const strategies: fc.Arbitrary<LimitStrategy> = fc.oneof(
  buckets,
  windows,
  window.map(slidingWindow),
  fc.record({ primary: windows, secondary: buckets }).map(composite),
);
const step = fc.record({
  operation: fc.constantFrom("limit", "limit", "limit", "limit", "refund", "reset", "limitMany"),
  key: fc.constantFrom("ada", "bob"),
  cost: fc.integer({ min: 1, max: 7 }),
  afterMs: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 0, max: 3 }),
    fc.integer({ min: 0, max: 2_000 }),
  ),
});
const skewMs = fc.integer({ min: -100_000, max: 100_000 });

describe("a cache with a single caller", () => {
  it("a limiter with a cache gives the same answers with no more calls", async () => {
    await fc.assert(
      fc.asyncProperty(
        strategies,
        skewMs,
        fc.array(step, { minLength: 1, maxLength: 40 }),
        async (strategy, skewMs, steps) => {
          const time = new FakeClock();
          const cachedBackend = new FakeBackend(time);
          const plainBackend = new FakeBackend(time);
          cachedBackend.skewMs = plainBackend.skewMs = skewMs;
          const shared = { name: "api", strategy, clock: time };
          const cached = new RateLimiter({ ...shared, throttr: cachedBackend, cache: true });
          const plain = new RateLimiter({ ...shared, throttr: plainBackend });
          const untilMs = new Map<string, number>();
          for (const { operation, key, cost, afterMs } of steps) {
            time.timeMs += afterMs;
            if (operation === "reset") {
              expect(await cached.reset(key)).toBe(await plain.reset(key));
            } else if (operation === "refund") {
              expect(await cached.refund(key, { cost })).toEqual(await plain.refund(key, { cost }));
            } else {
              const isMany = operation === "limitMany";
              const [got, wanted] = await Promise.all(
                [cached, plain].map(async (limiter) => {
                  if (!isMany) return await limiter.limit(key, { cost });
                  return (await limiter.limitMany([{ key, cost }]))[0]!;
                }),
              );
              expect(got!.success).toBe(wanted!.success);
              expect(got!.reason).toBe(wanted!.reason);
              if (got!.cached === undefined) {
                expect(got).toEqual(wanted);
              } else {
                // Never later than it could be, never after the reset.
                expect(got!.retryAfterMs).toBeGreaterThan(0);
                expect(got!.retryAfterMs).toBeLessThanOrEqual(wanted!.retryAfterMs!);
                expect(time.timeMs).toBeLessThan(untilMs.get(key)!);
              }
              if (!wanted!.success && wanted!.retryAfterMs !== null && got!.cached === undefined) {
                untilMs.set(key, time.timeMs + wanted!.retryAfterMs);
              }
            }
          }
          expect(cachedBackend.calls.length).toBeLessThanOrEqual(plainBackend.calls.length);
        },
      ),
      RUNS,
    );
  });
});
