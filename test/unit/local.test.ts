/** Limiters with `local`: what they decide in their isolate, what they send, and that nothing is spent twice. */
import { beforeEach, describe, expect, it, vi } from "vitest";
import {
  AllowanceStore,
  fixedWindow,
  limitAll,
  RateLimiter,
  RefusalCache,
  slidingWindow,
  ThrottrError,
  tokenBucket,
  type LegacyClock,
  type RateLimiterOptions,
  type RateLimitResult,
} from "../../src/ratelimit/index.ts";
import { settle } from "../support/rate-limits/backend.ts";
import { DrawServer, IsolateClock } from "../support/rate-limits/drawing.ts";

/** A tenth of its time is the lease; what is left of an ended allowance is not worth a message. */
const BUCKET = tokenBucket({ burst: 1_000, rate: 100 });
/** Its window lasts longer than ten leases: what is left is given back. */
const WINDOW = fixedWindow({ limit: 1_000, window: "1 h" });

let clock: IsolateClock;
let throttr: DrawServer;

beforeEach(() => {
  clock = new IsolateClock();
  throttr = new DrawServer(clock);
});

function limiterOf(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  return new RateLimiter({
    throttr,
    name: "api",
    strategy: BUCKET,
    clock,
    local: true,
    ...options,
  });
}

async function times(count: number, limiter: RateLimiter, key = "ada"): Promise<RateLimitResult[]> {
  const results: RateLimitResult[] = [];
  for (let i = 0; i < count; i++) results.push(await limiter.limit(key));
  return results;
}

/** Messages that a piece of work sends. */
async function sentBy(work: () => Promise<unknown>): Promise<number> {
  const before = throttr.messages.length;
  await work();
  await settle();
  return throttr.messages.length - before;
}

/** Makes a key hot, a lease ago: the next call draws as many units, and one for itself. */
async function warm(limiter: RateLimiter, count: number): Promise<void> {
  await limiter.limit("ada", { cost: count });
  await clock.advance(1_000);
  throttr.messages.length = 0;
}

describe("decisions of an isolate", () => {
  it("a limiter with local tells of a quota whatever its name is", async () => {
    const quotas = [
      { name: "__proto__", limit: 1_000, window: "1 h" },
      { name: "constructor", limit: 2_000, window: "1 d" },
    ] as const;
    const limiter = limiterOf({ strategy: fixedWindow([...quotas]) });
    await warm(limiter, 100);
    const known = (await times(2, limiter))[1]!;
    expect(known.local).toBe(true);
    const [first, second] = quotas.map(
      ({ name }) => Object.entries(known.quotas).find(([of]) => of === name)?.[1],
    );
    expect(first).toMatchObject({ allowed: true, limit: 1_000, remaining: 898 });
    expect(second).toMatchObject({ allowed: true, limit: 2_000, remaining: 1_898 });
  });

  it("a limiter with local draws what was asked for in the last lease, and spends it without a call", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    const first = await limiter.limit("ada");
    expect(throttr.last).toMatchObject({ cost: 1, wanted: 101, returns: [] });
    expect(first).toMatchObject({ success: true, limit: 1_000, remaining: 999 });
    expect(first.local).toBeUndefined();
    const sent = await sentBy(async () => {
      const [second, third] = await times(2, limiter);
      expect(second).toEqual({
        success: true,
        limit: 1_000,
        remaining: 998,
        reset: first.reset,
        retryAfterMs: 0,
        quotas: { default: { ...first.quotas["default"], remaining: 998 } },
        local: true,
      });
      expect(third!.remaining).toBe(997);
    });
    expect(sent).toBe(0);
  });

  it("one isolate alone admits exactly what the limit allows", async () => {
    const limiter = limiterOf({ strategy: fixedWindow({ limit: 100, window: "1 m" }) });
    const results: RateLimitResult[] = [];
    for (let i = 0; i < 150; i++) {
      results.push(await limiter.limit("ada"));
      await settle();
    }
    expect(results.filter(({ success }) => success)).toHaveLength(100);
    expect(results[99]!.remaining).toBe(0);
  });

  it("a cost above what is left gives the rest back and draws, in one message", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await limiter.limit("ada");
    const sent = await sentBy(async () => {
      expect(await limiter.limit("ada", { cost: 500 })).toMatchObject({
        success: true,
        remaining: 499,
      });
    });
    expect(sent).toBe(1);
    expect(throttr.last).toMatchObject({ cost: 500, returns: [{ units: 100 }] });
  });

  it("requests that come while a draw is under way wait for it, and spend what it brings", async () => {
    const limiter = limiterOf();
    await warm(limiter, 10);
    throttr.isHeld = true;
    const answers = Promise.all([1, 2, 3, 4].map(async () => await limiter.limit("ada")));
    await clock.advance(20);
    throttr.isHeld = false;
    await throttr.release();
    await clock.advance(8);
    expect((await answers).map(({ success, local }) => [success, local])).toEqual([
      [true, undefined],
      [true, true],
      [true, true],
      [true, true],
    ]);
    expect(throttr.methods).toEqual(["draw"]);
  });

  it("a request that has waited half a second for a draw asks for its own cost only", async () => {
    const limiter = limiterOf();
    await warm(limiter, 10);
    throttr.isHeld = true;
    const answers = Promise.all([limiter.limit("ada"), limiter.limit("ada", { cost: 2 })]);
    await clock.advance(499);
    expect(throttr.methods).toHaveLength(1);
    await clock.advance(9);
    throttr.isHeld = false;
    await throttr.release();
    await answers;
    const asked = throttr.messages.map(({ requests }) => requests[0]!);
    expect(asked.map(({ cost, wanted = 0 }) => [cost, wanted])).toEqual([
      [1, 13],
      [2, 0],
    ]);
  });

  it.each(["was aborted", "has timed out"])(
    "a request that %s while it waited for a draw spends nothing, and sends nothing",
    async (how) => {
      const limiter = limiterOf({ timeoutMs: 50 });
      await warm(limiter, 10);
      const patient = limiterOf();
      throttr.isHeld = true;
      const first = patient.limit("ada");
      await settle();
      const aborter = new AbortController();
      const hasEnded = vi.fn<(error: unknown) => void>();
      limiter.limit("ada", { signal: aborter.signal }).catch(hasEnded);
      await settle();
      if (how === "was aborted") aborter.abort();
      await clock.advance(50);
      expect(hasEnded).toHaveBeenCalledTimes(1);
      throttr.isHeld = false;
      await throttr.release();
      await clock.advance(500);
      expect((await first).remaining).toBe(999);
      expect(await patient.limit("ada")).toMatchObject({ local: true, remaining: 998 });
      expect(throttr.methods).toEqual(["draw"]);
    },
  );

  it("a request that was aborted while it waited for a draw that takes too long sends nothing", async () => {
    const limiter = limiterOf();
    await warm(limiter, 10);
    throttr.isHeld = true;
    const first = limiter.limit("ada");
    await settle();
    const aborter = new AbortController();
    const second = limiter.limit("ada", { signal: aborter.signal });
    await settle();
    aborter.abort(new Error("gone"));
    await expect(second).rejects.toThrow("gone");
    await clock.advance(1_000);
    expect(throttr.methods).toEqual(["draw"]);
    throttr.isHeld = false;
    await throttr.release();
    await first;
  });

  it("a draw whose answer never comes is not waited for longer than it could live", async () => {
    const limiter = limiterOf();
    throttr.isHeld = true;
    void limiter.limit("ada").catch(() => {});
    await settle();
    throttr.isHeld = false;
    await clock.advance(400);
    const second = limiter.limit("ada");
    await clock.advance(510);
    await second;
    expect(throttr.last.wanted).toBeUndefined();
    await clock.advance(90);
    await limiter.limit("ada");
    expect(throttr.last.wanted).toBeGreaterThan(0);
    await throttr.release();
  });

  it("a call with an idempotency key is always sent", async () => {
    const limiter = limiterOf();
    await warm(limiter, 10);
    await limiter.limit("ada");
    await limiter.limit("ada", { idempotencyKey: "one" });
    expect(throttr.methods).toEqual(["draw", "limit"]);
    await limiter.limitMany([{ key: "ada", idempotencyKey: "two" }, "ada", "bob"]);
    expect(throttr.methods.slice(2).toSorted()).toEqual(["draw", "limit"]);
  });
});

describe("the life of drawn units", () => {
  async function drawn(limiter: RateLimiter): Promise<void> {
    await warm(limiter, 100);
    await limiter.limit("ada");
  }

  it("drawn units are spent until a lease after their draw was sent, and not later", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    throttr.isHeld = true;
    const answer = limiter.limit("ada");
    await clock.advance(400);
    throttr.isHeld = false;
    await throttr.release();
    await answer;
    await clock.advance(599);
    expect(await sentBy(() => limiter.limit("ada"))).toBe(0);
    await clock.advance(1);
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
  });

  it.each([
    ["the wall clock jumps past their end", 1_000],
    ["the wall clock goes back", -1],
  ])("drawn units end when %s", async (_, byMs) => {
    const limiter = limiterOf();
    await drawn(limiter);
    clock.skewMs += byMs;
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
    expect(throttr.last.returns).toMatchObject([{ units: 100 }]);
  });

  it("drawn units end by the monotonic clock while the wall clock stands still", async () => {
    const limiter = limiterOf();
    await drawn(limiter);
    await clock.advance(1_000);
    clock.skewMs = -1_000;
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
  });

  it("the wall clock that goes back ends the units of all keys", async () => {
    const limiter = limiterOf();
    await drawn(limiter);
    await clock.advance(500);
    await limiter.limit("bob");
    clock.skewMs = -100;
    await limiter.limit("bob");
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
  });

  it("units of a draw that was under way when the wall clock went back are only given back", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    throttr.isHeld = true;
    const answer = limiter.limit("ada");
    await settle();
    clock.skewMs = -100;
    const other = limiter.limit("bob");
    throttr.isHeld = false;
    await throttr.release();
    await Promise.all([answer, other]);
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
    expect(throttr.last.returns).toMatchObject([{ units: 100 }]);
  });

  it("a refill does not extend the life of older units", async () => {
    const limiter = limiterOf({ strategy: WINDOW });
    await warm(limiter, 100);
    await times(20, limiter);
    await clock.advance(500);
    await times(75, limiter);
    await settle();
    expect(throttr.messages.map(({ requests }) => requests[0]!.cost)).toEqual([1, 0]);
    await clock.advance(500);
    await limiter.limit("ada", { cost: 500 });
    expect(throttr.last.returns![0]).toMatchObject({ units: 6 });
  });
});

describe("refills and returns", () => {
  it("at a tenth of the units the request that notices answers at once, and draws what is missing beside it", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await times(90, limiter);
    throttr.isHeld = true;
    const work: Promise<unknown>[] = [];
    const waitUntil = (one: Promise<unknown>): void => void work.push(one);
    expect(await limiter.limit("ada", { waitUntil })).toMatchObject({ local: true, success: true });
    expect(work).toHaveLength(1);
    expect(throttr.last).toMatchObject({ cost: 0, wanted: 4 * 90 - 10, granted: 90 });
    expect(await sentBy(() => times(10, limiter))).toBe(0);
    throttr.isHeld = false;
    await throttr.release();
    await work[0];
    expect(await sentBy(() => times(60, limiter))).toBe(0);
  });

  it("units that are left when they end are given back where the window is long", async () => {
    const limiter = limiterOf({ strategy: WINDOW });
    await warm(limiter, 100);
    await times(11, limiter);
    await clock.advance(1_000);
    expect(throttr.methods).toEqual(["draw", "draw"]);
    expect(throttr.last).toMatchObject({ cost: 0, returns: [{ units: 90 }], granted: 10 });
    expect((await limiter.peek("ada")).remaining).toBe(889);
    await clock.advance(5_000);
    expect(throttr.methods).toEqual(["draw", "draw", "peek"]);
  });

  it("units that are left when they end are given back with the next message where the window is short", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await times(11, limiter);
    await clock.advance(1_000);
    expect(throttr.methods).toEqual(["draw"]);
    await limiter.limit("ada");
    expect(throttr.last).toMatchObject({ cost: 1, returns: [{ units: 90 }] });
  });

  it("units whose draw the shard has forgotten are not given back", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await times(11, limiter);
    await clock.advance(2_000);
    await limiter.limit("ada");
    expect(throttr.last.returns).toEqual([]);
  });

  it("units are given back once, also when the message that gives them back fails", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await limiter.limit("ada");
    throttr.failure = new ThrottrError("outcome_unknown", "cut");
    await expect(limiter.limit("ada", { cost: 200 })).rejects.toThrow(/outcome_unknown/);
    throttr.failure = null;
    await limiter.limit("ada", { cost: 200 });
    expect(throttr.last.returns).toEqual([]);
  });
});

describe("refusals", () => {
  const tight = tokenBucket({ burst: 10, rate: 1 });

  it("a refusal is remembered until its retry, and counted at the next draw", async () => {
    const limiter = limiterOf({ strategy: tight });
    await limiter.limit("ada", { cost: 10 });
    expect(await limiter.limit("ada")).toMatchObject({ success: false, retryAfterMs: 1_000 });
    await clock.advance(400);
    const sent = await sentBy(async () => {
      expect(await limiter.limit("ada")).toMatchObject({
        success: false,
        retryAfterMs: 600,
        local: true,
      });
    });
    expect(sent).toBe(0);
    await clock.advance(600);
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
    expect(throttr.last).toMatchObject({ granted: 0, refused: 1 });
  });

  it("a refusal is remembered for a lease at most, as others may give units back", async () => {
    const limiter = limiterOf({ strategy: fixedWindow({ limit: 10, window: "1 d" }) });
    await limiter.limit("ada", { cost: 10 });
    await limiter.limit("ada");
    await clock.advance(999);
    expect(await sentBy(() => limiter.limit("ada"))).toBe(0);
    await clock.advance(1);
    expect(await sentBy(() => limiter.limit("ada"))).toBe(1);
  });

  it("a grant ends a remembered refusal of a greater cost", async () => {
    const limiter = limiterOf({ strategy: tight });
    await limiter.limit("ada", { cost: 8 });
    await limiter.limit("ada", { cost: 5 });
    expect(await sentBy(() => limiter.limit("ada", { cost: 5 }))).toBe(0);
    await limiter.limit("ada");
    expect(await sentBy(() => limiter.limit("ada", { cost: 5 }))).toBe(1);
  });

  it("a smaller cost than the refused one is asked for", async () => {
    const limiter = limiterOf({ strategy: tight });
    await limiter.limit("ada", { cost: 8 });
    await limiter.limit("ada", { cost: 3 });
    expect(await limiter.limit("ada", { cost: 2 })).toMatchObject({ success: true });
  });

  it.each([
    ["refund", (limiter: RateLimiter) => limiter.refund("ada", { cost: 5 })],
    ["reset", (limiter: RateLimiter) => limiter.reset("ada")],
  ])("a %s ends a remembered refusal", async (_, change) => {
    const limiter = limiterOf({ strategy: tight });
    await limiter.limit("ada", { cost: 10 });
    await limiter.limit("ada");
    await change(limiter);
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });

  it("a reset drops what is here, so that the key is full and no more", async () => {
    const limiter = limiterOf();
    await warm(limiter, 100);
    await limiter.limit("ada");
    await limiter.reset("ada");
    await limiter.limit("ada");
    expect(throttr.last.returns).toEqual([]);
  });
});

describe("a key that many isolates ask for", () => {
  const empty = tokenBucket({ burst: 10, rate: 0.1 });
  const isolates = (count: number): RateLimiter[] =>
    Array.from({ length: count }, () =>
      limiterOf({ strategy: empty, local: { store: new AllowanceStore() } }),
    );

  it("the more isolates wait for a key, the longer each refuses before it asks again", async () => {
    const all = isolates(100);
    await all[0]!.limit("ada", { cost: 10 });
    for (const limiter of all) await limiter.limit("ada");
    await clock.advance(1_000);
    const [first, last] = [all[0]!, all.at(-1)!];
    expect(await sentBy(() => first.limit("ada"))).toBe(1);
    expect(await sentBy(() => last.limit("ada"))).toBe(1);
  });

  it("a pause that is longer than units live is kept", async () => {
    const short = slidingWindow({ limit: 10, window: "1 s" });
    const all = Array.from({ length: 100 }, () =>
      limiterOf({ strategy: short, local: { store: new AllowanceStore() } }),
    );
    await all[0]!.limit("ada", { cost: 10 });
    for (const limiter of all) await limiter.limit("ada");
    await clock.advance(499);
    expect(await sentBy(() => all.at(-1)!.limit("ada"))).toBe(0);
    await clock.advance(1);
    expect(await sentBy(() => all.at(-1)!.limit("ada"))).toBe(1);
    expect(await sentBy(() => all[1]!.limit("ada"))).toBe(1);
  });

  it("an isolate that gets less than it wants lets those that wait come first", async () => {
    const [one, ...others] = isolates(51);
    await one!.limit("ada", { cost: 8 });
    for (const limiter of others) await limiter.limit("ada", { cost: 5 });
    await one!.limit("ada");
    expect(throttr.last.cost).toBe(1);
    const sent = await sentBy(async () => {
      expect(await one!.limit("ada")).toMatchObject({ success: false, local: true });
    });
    expect(sent).toBe(0);
    await clock.advance(160);
    expect(await sentBy(() => one!.limit("ada"))).toBe(1);
  });
});

describe("what users do", () => {
  it.each([1, 2, 5, 10])(
    "a limit of %d is exact, and draws nothing ahead of need",
    async (limit) => {
      const limiter = limiterOf({ strategy: fixedWindow({ limit, window: "1 m" }) });
      const results = await times(limit + 3, limiter);
      expect(results.map(({ success }) => success)).toEqual(
        Array.from({ length: limit + 3 }, (_, i) => i < limit),
      );
      expect(results.map(({ remaining }) => remaining)).toEqual(
        Array.from({ length: limit + 3 }, (_, i) => Math.max(0, limit - 1 - i)),
      );
    },
  );

  it("a window of years is drawn from, and what is left is given back after a lease", async () => {
    const limiter = limiterOf({ strategy: fixedWindow({ limit: 1_000, window: "3650 d" }) });
    await warm(limiter, 100);
    await times(10, limiter);
    await clock.advance(1_000);
    expect((await limiter.peek("ada")).remaining).toBe(890);
  });

  it("a cost larger than all that is left is refused by the shard, and what was left is not lost", async () => {
    const limiter = limiterOf({ strategy: WINDOW });
    await warm(limiter, 100);
    await limiter.limit("ada");
    expect(await limiter.limit("ada", { cost: 1_000 })).toMatchObject({
      success: false,
      remaining: 899,
    });
    expect(await limiter.limit("ada")).toMatchObject({ success: true, remaining: 898 });
  });

  it("a cost that the limit never grants is sent while a smaller one is refused here", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 1_000 });
    expect(await limiter.limit("ada")).toMatchObject({ success: false });
    expect(await limiter.limit("ada", { cost: 1_000 })).toMatchObject({ local: true });
    const never = { success: false, reason: "cost_exceeds_limit", reset: null, retryAfterMs: null };
    expect(await limiter.limit("ada", { cost: 1_001 })).toMatchObject(never);
  });

  it("a cost that the limit never grants is always sent", async () => {
    const limiter = limiterOf();
    for (let i = 0; i < 2; i++) {
      const sent = await sentBy(async () => {
        expect(await limiter.limit("ada", { cost: 1_001 })).toMatchObject({
          success: false,
          reason: "cost_exceeds_limit",
          retryAfterMs: null,
        });
      });
      expect(sent).toBe(1);
    }
  });

  it("a key that turns from quiet to hot and back draws for what it is now", async () => {
    const limiter = limiterOf({ strategy: fixedWindow({ limit: 100_000, window: "1 h" }) });
    await limiter.limit("ada");
    expect(throttr.last.wanted).toBe(1);
    await clock.advance(10_000);
    for (let i = 0; i < 40; i++) {
      const asked = times(50, limiter);
      await clock.advance(50);
      await asked;
    }
    const hot = throttr.messages.map(({ requests }) => requests[0]!.wanted ?? 0);
    expect(Math.max(...hot)).toBeGreaterThan(400);
    expect(Math.max(...hot)).toBeLessThan(2_200);
    expect(hot.length).toBeLessThan(20);
    await clock.advance(10_000);
    await limiter.limit("ada");
    expect(throttr.last.wanted).toBe(1);
  });

  it("in shadow mode local decisions are reported, and refuse nothing", async () => {
    const limiter = limiterOf({ strategy: tokenBucket({ burst: 10, rate: 1 }), shadow: true });
    await limiter.limit("ada", { cost: 10 });
    await limiter.limit("ada");
    const result = await limiter.limit("ada");
    expect(result).toMatchObject({
      success: true,
      local: true,
      shadow: { success: false, local: true },
    });
  });

  it("blockUntilReady waits through a refusal that is remembered", async () => {
    const limiter = limiterOf({ strategy: tokenBucket({ burst: 10, rate: 1 }) });
    await limiter.limit("ada", { cost: 10 });
    await limiter.limit("ada");
    const ready = limiter.blockUntilReady("ada", 5_000);
    await clock.advance(1_000);
    expect(await ready).toMatchObject({ success: true });
    expect(throttr.methods).toEqual(["draw", "draw", "draw"]);
  });

  it.each(["open", "closed"] as const)(
    "a shard that fails leaves what is here to be spent, and then onError decides: %s",
    async (onError) => {
      const limiter = limiterOf({ onError });
      await warm(limiter, 10);
      await limiter.limit("ada");
      throttr.failure = new ThrottrError("outcome_unknown", "the shard failed");
      const results = await times(12, limiter);
      expect(results.slice(0, 10).every(({ success, local }) => success && local)).toBe(true);
      for (const { success, reason } of results.slice(10)) {
        expect([success, reason]).toEqual([onError === "open", "error"]);
      }
      throttr.failure = null;
      expect(await limiter.limit("ada")).toMatchObject({ success: true });
    },
  );

  it("an answer that comes after the timeout is not lost", async () => {
    const limiter = limiterOf({ onError: "closed", timeoutMs: 100 });
    await warm(limiter, 20);
    throttr.isHeld = true;
    const late = limiter.limit("ada");
    await clock.advance(100);
    expect(await late).toMatchObject({ success: false, reason: "timeout" });
    throttr.isHeld = false;
    await throttr.release();
    expect(await limiter.limit("ada")).toMatchObject({ success: true, local: true });
  });

  it("an isolate with 10,000 hot keys draws for each of them", async () => {
    const limiter = limiterOf();
    const keys = Array.from({ length: 10_000 }, (_, i) => `key-${i}`);
    await limiter.limitMany(keys.map((key) => ({ key, cost: 3 })));
    await clock.advance(1_000);
    await limiter.limitMany(keys);
    const sent = await sentBy(async () => {
      for (const { local } of await limiter.limitMany(keys)) expect(local).toBe(true);
    });
    expect(sent).toBe(0);
  });

  it("keys that need a hash have allowances, too", async () => {
    const limiter = limiterOf();
    const key = "a long key ".repeat(20);
    await limiter.limit(key, { cost: 10 });
    await clock.advance(1_000);
    await limiter.limit(key, { cost: 5 });
    await clock.advance(500);
    await limiter.limit(key);
    expect(await limiter.limit(key)).toMatchObject({ success: true, local: true });
  });

  it("a waitUntil that is not bound to its context is warned of once, and decisions go on", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const waitUntil = (): never => {
      throw new TypeError("Illegal invocation");
    };
    const limiter = limiterOf({ strategy: WINDOW, local: { waitUntil } });
    await warm(limiter, 100);
    expect((await times(150, limiter)).every(({ success }) => success)).toBe(true);
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });
});

describe("options and servers", () => {
  it("local and cache exclude each other", () => {
    for (const cache of [true, new RefusalCache()]) {
      expect(() => limiterOf({ cache })).toThrow(/^configuration_invalid: cache: /);
    }
  });

  it.each([
    [{ leaseMs: 49 }, "local.leaseMs"],
    [{ leaseMs: 10_001 }, "local.leaseMs"],
    [{ leaseMs: 99.5 }, "local.leaseMs"],
    [{ keysMax: 0 }, "keysMax"],
    [{ keysMax: 1, store: new AllowanceStore() }, "local.keysMax"],
    [{ store: {} }, "local.store"],
    [{ waitUntil: true }, "local.waitUntil"],
    [{ lease: 1 }, "local.lease"],
  ])("a wrong option of local is refused by its name: %j", (local, field) => {
    expect(() => limiterOf({ local: local as never })).toThrow(
      new RegExp(`^configuration_invalid: ${field}: `),
    );
  });

  it("a limit whose units would live for less than 20 ms is asked exactly", async () => {
    const limiter = limiterOf({ strategy: slidingWindow({ limit: 10, windowMs: 199 }) });
    await limiter.limit("ada");
    await limiterOf({ strategy: slidingWindow({ limit: 10, windowMs: 200 }) }).limit("ada");
    expect(throttr.methods).toEqual(["limit", "draw"]);
  });

  it("a server without draws is asked exactly, with one warning, and tried again after a minute", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const draw = vi.fn<() => Promise<never>>(() =>
      Promise.reject(new ThrottrError("request_type_unknown", "0x36")),
    );
    Object.assign(throttr, { draw });
    const limiter = limiterOf();
    expect((await times(3, limiter)).every(({ success }) => success)).toBe(true);
    expect(throttr.methods).toEqual(["limit", "limit", "limit"]);
    expect(draw).toHaveBeenCalledTimes(1);
    await clock.advance(60_000);
    await limiter.limit("ada");
    expect(draw).toHaveBeenCalledTimes(2);
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });

  it("limiters that are created for each request share the units of their server", async () => {
    await warm(limiterOf(), 50);
    await limiterOf().limit("ada");
    expect(
      await sentBy(async () => {
        expect(await limiterOf().limit("ada")).toMatchObject({ local: true });
      }),
    ).toBe(0);
  });

  it("a limiter that was made before any draw gives back what another one of its name has drawn", async () => {
    const [one, other] = [limiterOf(), limiterOf()];
    await warm(one, 50);
    await one.limit("ada");
    const limitAllOf = vi.fn<() => never>(() => {
      throw new ThrottrError("internal", "not under test");
    });
    Object.assign(throttr, { limitAll: limitAllOf });
    await expect(limitAll(throttr, [{ limiter: other, key: "ada" }])).rejects.toThrow(/internal/);
    expect(limitAllOf).toHaveBeenCalledWith({
      requests: [expect.objectContaining({ returns: [{ draw: expect.any(Number), units: 50 }] })],
    });
  });

  it("a reset by a limiter that was made before any draw ends the units of another one of its name", async () => {
    const [one, other] = [limiterOf(), limiterOf()];
    await warm(one, 50);
    await one.limit("ada");
    await other.reset("ada");
    expect(await sentBy(() => one.limit("ada"))).toBe(1);
    expect(throttr.last.returns).toEqual([]);
  });

  it("limiters with different clocks have units and refusals of their own", async () => {
    const monotonic = limiterOf({ strategy: tokenBucket({ burst: 10, rate: 1 }) });
    const wall = limiterOf({
      strategy: monotonic.strategy,
      clock: {
        nowMs: () => clock.nowMs(),
        setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
        clearTimer: (timer) => clock.clearTimer(timer),
      },
    });
    await wall.limit("ada", { cost: 10 });
    expect(await wall.limit("ada")).toMatchObject({ success: false });
    await clock.advance(2_000);
    expect(await monotonic.limit("ada")).toMatchObject({ success: true });
  });

  it("limiters that are created for each request with a clock of release 0.4 share the units of their server", async () => {
    const legacy: LegacyClock = {
      now: () => clock.nowMs(),
      after: (delayMs, run) => {
        const timer = clock.setTimer(run, delayMs);
        return () => clock.clearTimer(timer);
      },
    };
    await warm(limiterOf({ clock: legacy }), 50);
    await limiterOf({ clock: legacy }).limit("ada");
    expect(await limiterOf({ clock: legacy }).limit("ada")).toMatchObject({ local: true });
  });

  it("limiters of one name with different strategies have units of their own", async () => {
    const store = new AllowanceStore();
    await warm(limiterOf({ local: { store } }), 50);
    await limiterOf({ local: { store } }).limit("ada");
    const other = limiterOf({ local: { store }, strategy: tokenBucket({ burst: 5, rate: 1 }) });
    expect(await other.limit("ada")).not.toHaveProperty("local");
  });

  it("the key that was drawn for longest ago gives its units back when the store is full", async () => {
    const limiter = limiterOf({ local: { keysMax: 2 } });
    await warm(limiter, 20);
    await limiter.limit("ada");
    await limiter.limit("bob");
    await limiter.limit("eve");
    await settle();
    expect(throttr.messages.map(({ requests }) => requests[0])).toMatchObject([
      { key: "ada" },
      { key: "bob" },
      { key: "ada", cost: 0, returns: [{ units: 20 }] },
      { key: "eve" },
    ]);
  });

  it("limitMany draws for all keys that need it in one message", async () => {
    const limiter = limiterOf();
    await warm(limiter, 20);
    await limiter.limit("ada");
    throttr.messages.length = 0;
    const results = await limiter.limitMany(["ada", "bob", { key: "eve", cost: 2 }]);
    expect(results.map(({ remaining, local }) => [remaining, local])).toEqual([
      [998, true],
      [999, undefined],
      [998, undefined],
    ]);
    expect(throttr.messages.map(({ method, requests }) => [method, requests.length])).toEqual([
      ["drawMany", 2],
    ]);
  });

  it("limitMany draws for more keys than a batch has in messages one after the other", async () => {
    const limiter = limiterOf({ onError: "open", local: { keysMax: 20_000 } });
    const keys = Array.from({ length: 10_002 }, (_, i) => `${i}`);
    const results = await limiter.limitMany(keys);
    expect(new Set(results.map(({ remaining }) => remaining))).toEqual(new Set([999]));
    expect(results).toHaveLength(10_002);
    expect(throttr.messages.map(({ method, requests }) => [method, requests.length])).toEqual([
      ["drawMany", 10_000],
      ["drawMany", 2],
    ]);
  });
});
