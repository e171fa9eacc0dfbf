/** The limiter of rate-limiter-flexible: beside the library's own limiter in memory, and what the library builds on it. */
import fc from "fast-check";
import {
  RateLimiterMemory,
  RateLimiterQueue,
  RateLimiterRes,
  RateLimiterUnion,
  type RateLimiterAbstract,
} from "rate-limiter-flexible";
import { afterEach, beforeEach, describe, expect, expectTypeOf, inject, it, vi } from "vitest";
import {
  RateLimiterThrottr,
  type PointsBackend,
  type RateLimiterThrottrOptions,
} from "../../src/adapters/rate-limiter-flexible/index.ts";
import type { ThrottrService } from "../../src/client/index.ts";
import { ThrottrError } from "../../src/ratelimit/index.ts";
import { EngineServer, ENGINE_START_MS } from "../support/client/engine-client.ts";
import { settle } from "../support/rate-limits/backend.ts";
import { runs } from "../support/runs.ts";

const decoder = new TextDecoder();
const YEAR_MS = 365 * 86_400_000;

let server: EngineServer;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: ENGINE_START_MS });
  server = new EngineServer();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Lets time pass, for the library and the server. */
async function advance(byMs: number, to = server): Promise<void> {
  await settle();
  to.advance(byMs);
  await vi.advanceTimersByTimeAsync(byMs);
  await settle();
}

function limiterOf(options: Partial<RateLimiterThrottrOptions> = {}): RateLimiterThrottr {
  return new RateLimiterThrottr({
    storeClient: server.client,
    points: 3,
    duration: 10,
    ...options,
  });
}

/** What a call gives: the figures of its result, of its refusal, or its error. */
async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  const shown = (value: unknown): unknown =>
    value instanceof RateLimiterRes ? value.toJSON() : value;
  return await call.then(shown, (reason: unknown) => ({ refused: shown(reason) }));
}

describe("the types", () => {
  it("the limiter is one of the library, over a service binding or a client", () => {
    expectTypeOf<RateLimiterThrottr>().toExtend<RateLimiterAbstract>();
    expectTypeOf<ThrottrService>().toExtend<PointsBackend>();
    expect(() => limiterOf({ storeClient: undefined as never })).toThrow("storeClient is not set");
    expect(() => limiterOf({ timeoutMs: 0 })).toThrow(/^option_invalid: timeoutMs/);
    expect(() => limiterOf({ points: Number.NaN })).toThrow(/points must be set/);
  });
});

describe("the limiter beside the library's own", () => {
  type Step =
    | readonly ["consume" | "penalty" | "reward", key: string, points: number]
    | readonly ["block", key: string, seconds: number]
    | readonly ["set", key: string, points: number, seconds: number]
    | readonly ["get" | "delete", key: string]
    | readonly ["pass", ms: number];

  const key = fc.constantFrom("a", "b c");
  const seconds = fc.integer({ min: 0, max: 4 });
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.tuple(fc.constantFrom("consume", "penalty", "reward"), key, fc.integer({ min: 1, max: 3 })),
    fc.tuple(fc.constant("block"), key, seconds),
    fc.tuple(fc.constant("set"), key, fc.integer({ min: -2, max: 5 }), seconds),
    fc.tuple(fc.constantFrom("get", "delete"), key),
    fc.tuple(fc.constant("pass"), fc.integer({ min: 1, max: 2_500 })),
  );

  async function take(limiter: RateLimiterAbstract, made: Step): Promise<unknown> {
    switch (made[0]) {
      case "pass":
        return null;
      case "block":
        return await outcomeOf(limiter.block(made[1], made[2]));
      case "set":
        return await outcomeOf(limiter.set(made[1], made[2], made[3]));
      case "get":
      case "delete":
        return await outcomeOf(limiter[made[0]](made[1]));
      default:
        return await outcomeOf(limiter[made[0]](made[1], made[2]));
    }
  }

  it("the limiter answers any sequence of calls as the library's limiter in memory does", async () => {
    const options = fc.record({
      points: fc.integer({ min: 0, max: 4 }),
      duration: fc.constantFrom(0, 1, 2.5),
      blockDuration: fc.constantFrom(0, 3),
    });
    const steps = fc.array(step, { minLength: 1, maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(options, steps, async (given, made) => {
        const fresh = new EngineServer(Date.now());
        const limiter = new RateLimiterThrottr({ storeClient: fresh.client, ...given });
        const model = new RateLimiterMemory(given);
        for (const one of made) {
          if (one[0] === "pass") await advance(one[1], fresh);
          const expected = withoutBlockedFirst(await take(model, one));
          expect(withoutBlockedFirst(await take(limiter, one))).toEqual(expected);
        }
      }),
      { seed: inject("seed"), numRuns: runs(1_200) },
    );
  });

  /** Where it blocks, the library's limiter in memory calls the key new, and its stores don't. */
  function withoutBlockedFirst(outcome: unknown): unknown {
    const { refused } = (outcome ?? {}) as { refused?: object };
    return refused === undefined ? outcome : { refused: { ...refused, isFirstInDuration: null } };
  }
});

describe("the limiter", () => {
  it("the limiter takes one call for each decision, and one more to block a key", async () => {
    const limiter = limiterOf({ points: 1, blockDuration: 60 });
    const calls: [string, () => Promise<unknown>, number][] = [
      ["consume", () => limiter.consume("a"), 1],
      ["consume that blocks", () => limiter.consume("a"), 2],
      ["consume of a blocked key", () => limiter.consume("a"), 1],
      ["penalty", () => limiter.penalty("a", 2), 1],
      ["reward", () => limiter.reward("a"), 1],
      ["get", () => limiter.get("a"), 1],
      ["set", () => limiter.set("a", 5, 60), 1],
      ["block", () => limiter.block("a", 60), 1],
      ["delete", () => limiter.delete("a"), 1],
    ];
    const taken: [string, number][] = [];
    for (const [name, call] of calls) {
      taken.push([name, await server.messagesOf(() => outcomeOf(call()))]);
    }
    expect(taken).toEqual(calls.map(([name, , messages]) => [name, messages]));
  });

  it("the limiter grants exactly its points to concurrent callers, and blocks once", async () => {
    const limiter = limiterOf({ points: 5, blockDuration: 60 });
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, () => outcomeOf(limiter.consume("a"))),
    );
    const granted = outcomes.filter((outcome) => !Object.hasOwn(outcome as object, "refused"));
    expect(granted.map((outcome) => (outcome as RateLimiterRes).consumedPoints)).toEqual([
      1, 2, 3, 4, 5,
    ]);
    await advance(10_000);
    expect(await outcomeOf(limiter.consume("a"))).toMatchObject({
      refused: { msBeforeNext: 50_000 },
    });
  });

  it("points are exact up to the largest safe integer, and can be blocked", async () => {
    const most = Number.MAX_SAFE_INTEGER;
    const limiter = limiterOf({ points: most - 1 });
    await limiter.set("a", most - 1, 60);
    expect((await limiter.get("a"))!.consumedPoints).toBe(most - 1);
    expect(await outcomeOf(limiter.consume("a", 1))).toMatchObject({
      refused: { consumedPoints: most },
    });
    await limiter.block("b", 60);
    expect((await limiter.get("b"))!.consumedPoints).toBe(most);
  });

  it("a key without a duration stays, and says -1", async () => {
    const limiter = limiterOf({ duration: 0 });
    expect((await limiter.consume("a")).msBeforeNext).toBe(-1);
    await advance(20 * YEAR_MS);
    expect(await limiter.get("a")).toMatchObject({ consumedPoints: 1, msBeforeNext: -1 });
  });

  it("durations of a fraction of a second are exact to the millisecond", async () => {
    const limiter = limiterOf({ duration: 16.1 });
    expect((await limiter.consume("a")).msBeforeNext).toBe(16_100);
    // As binary numbers, 32.2 s are a little more than 32,200 ms, and 1.001 s a little less than 1,001.
    for (const [seconds, ms] of [
      [32.2, 32_200],
      [1.001, 1_001],
      [0.0001, 1],
    ] as const) {
      await limiter.set("b", 1, seconds);
      expect((await limiter.get("b"))!.msBeforeNext).toBe(ms);
    }
  });

  it("customDuration, keyPrefix and any key work as in the other stores", async () => {
    const limiter = limiterOf();
    const result = await limiter.consume("a", 1, { customDuration: 60 });
    expect(result.msBeforeNext).toBe(60_000);
    const other = limiterOf({ keyPrefix: "login" });
    expect(await other.get("a")).toBeNull();
    const bare = limiterOf({ keyPrefix: "" });
    for (const key of [7, "a/b c", "x".repeat(1_000)]) {
      expect((await bare.consume(key)).consumedPoints).toBe(1);
      expect((await bare.consume(key)).consumedPoints).toBe(2);
    }
  });

  it("each record's name begins with keyPrefix and a colon, whatever the key", async () => {
    const keys = ["203.0.113.7", "/login", "f".repeat(64), "", 7];
    for (const keyPrefix of [undefined, "login attempts/é", ""]) {
      const limiter = limiterOf({ ...(keyPrefix !== undefined && { keyPrefix }) });
      for (const key of keys) {
        expect((await limiter.consume(key)).consumedPoints).toBe(1);
        expect((await limiter.get(key))!.consumedPoints).toBe(1);
      }
    }
    const named = async (prefix: string) =>
      (await server.client.exportPage({ prefix })).records.map(({ key }) =>
        decoder.decode(key as Uint8Array),
      );
    expect((await named("rlflx:")).toSorted()).toEqual([
      "rlflx:",
      "rlflx:.+2Flogin",
      "rlflx:203.0.113.7",
      "rlflx:7",
      `rlflx:${"f".repeat(64)}`,
    ]);
    expect(await named("login attempts/é:")).toHaveLength(keys.length);
    expect(await named("")).toHaveLength(3 * keys.length);
  });

  it("a keyPrefix that is changed later has counters of its own, one for each key", async () => {
    const limiter = limiterOf({ keyPrefix: "login attempts" });
    await limiter.consume("203.0.113.7");
    limiter.keyPrefix = "a";
    for (const key of ["203.0.113.7", "198.51.113.7"]) {
      expect((await limiter.consume(key)).consumedPoints).toBe(1);
      expect((await limiter.get(key))!.consumedPoints).toBe(1);
    }
    const { records } = await server.client.exportPage();
    expect(records.map(({ key }) => decoder.decode(key as Uint8Array)).toSorted()).toEqual([
      "a:198.51.113.7",
      "a:203.0.113.7",
      "login attempts:203.0.113.7",
    ]);
    limiter.keyPrefix = "x".repeat(128);
    await expect(limiter.consume("a")).rejects.toMatchObject({ code: "configuration_invalid" });
  });

  it("keyPrefix has at most 127 bytes of well-formed text", () => {
    expect(() => limiterOf({ keyPrefix: "x".repeat(127) })).not.toThrow();
    for (const keyPrefix of ["x".repeat(128), "ü".repeat(64), "\ud800"]) {
      expect(() => limiterOf({ keyPrefix })).toThrow(/^configuration_invalid: keyPrefix: /);
    }
  });

  it("points that are no integers are an error, and count nothing", async () => {
    const limiter = limiterOf();
    await expect(limiter.consume("a", 0.5)).rejects.toMatchObject({ code: "amount_invalid" });
    expect(await limiter.get("a")).toBeNull();
  });

  it("points beyond the range of a counter are an error", async () => {
    const limiter = limiterOf();
    await limiter.reward("a", 10 ** 15);
    await expect(limiter.reward("a", 1)).rejects.toMatchObject({ code: "quota_overflow" });
    expect((await limiter.get("a"))!.consumedPoints).toBe(-(10 ** 15));
  });

  it("setting points gives up where another caller always creates the key in between", async () => {
    let batches = 0;
    const storeClient = {
      batch: async () => {
        batches++;
        return [
          { ok: true, value: true },
          { ok: true, value: false },
        ];
      },
    } as never;
    await expect(limiterOf({ storeClient }).set("a", 1, 5)).rejects.toMatchObject({
      code: "exists",
    });
    expect(batches).toBe(3);
  });

  it("inMemoryBlockOnConsumed saves the calls for a blocked key", async () => {
    const limiter = limiterOf({ inMemoryBlockOnConsumed: 3 });
    for (let i = 0; i < 3; i++) await limiter.consume("a");
    const messages = await server.messagesOf(async () => {
      expect(await outcomeOf(limiter.consume("a"))).toMatchObject({
        refused: { msBeforeNext: 10_000 },
      });
    });
    expect(messages).toBe(0);
  });

  it("blockOnConsumed blocks above the points only", async () => {
    const limiter = limiterOf({ points: 1, blockOnConsumed: 3, blockDuration: 60 });
    await limiter.consume("a");
    expect(await outcomeOf(limiter.consume("a"))).toMatchObject({
      refused: { msBeforeNext: 10_000 },
    });
    expect(await outcomeOf(limiter.consume("a"))).toMatchObject({
      refused: { msBeforeNext: 60_000 },
    });
    expect((await limiter.get("a"))!.msBeforeNext).toBe(60_000);
  });

  it("execEvenly delays what is granted", async () => {
    const limiter = limiterOf({ execEvenly: true, points: 4 });
    await limiter.consume("a");
    let isDone = false;
    const second = limiter.consume("a").then(() => (isDone = true));
    await advance(2_499);
    expect(isDone).toBe(false);
    await advance(1);
    await second;
    expect(isDone).toBe(true);
  });
});

describe("failures", () => {
  it("a call that fails rejects with an error that has a code", async () => {
    server.fate = "lost";
    const limiter = limiterOf();
    for (const call of [
      () => limiter.consume("a"),
      () => limiter.penalty("a"),
      () => limiter.get("a"),
      () => limiter.block("a", 1),
      () => limiter.delete("a"),
    ]) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ThrottrError);
      expect(["outcome_unknown", "connection_failed"]).toContain((error as ThrottrError).code);
    }
  });

  it("a call that takes longer than timeoutMs rejects", async () => {
    const storeClient = { batch: () => new Promise<never>(() => {}) } as never;
    const caught = outcomeOf(limiterOf({ storeClient, timeoutMs: 100 }).consume("a"));
    await advance(100);
    expect(await caught).toMatchObject({ refused: { code: "timeout" } });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("the insuranceLimiter decides while the server fails", async () => {
    const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 10 });
    const limiter = limiterOf({ insuranceLimiter });
    await limiter.consume("a");
    server.fate = "unsent";
    expect((await limiter.consume("a")).consumedPoints).toBe(1);
    expect(await outcomeOf(limiter.consume("a"))).toMatchObject({ refused: { consumedPoints: 2 } });
    server.fate = "through";
    expect((await limiter.consume("a")).consumedPoints).toBe(2);
  });
});

describe("what the library builds on limiters", () => {
  it("a union grants what both of its limiters grant", async () => {
    const union = new RateLimiterUnion(
      limiterOf({ keyPrefix: "second", points: 2, duration: 1 }),
      limiterOf({ keyPrefix: "minute", points: 3, duration: 60 }),
    );
    expect(Object.keys(await union.consume("a"))).toEqual(["second", "minute"]);
    await union.consume("a");
    await expect(union.consume("a")).rejects.toHaveProperty("second");
    await advance(1_000);
    await expect(union.consume("a")).rejects.toHaveProperty("minute");
  });

  it("a queue waits for the next duration", async () => {
    const queue = new RateLimiterQueue(limiterOf({ points: 2, duration: 1 }));
    const order: number[] = [];
    const waits = [1, 2, 3].map(async (i) => {
      await queue.removeTokens(1);
      order.push(i);
    });
    await advance(999);
    expect(order).toEqual([1, 2]);
    await advance(1);
    await Promise.all(waits);
    expect(order).toEqual([1, 2, 3]);
    expect(await queue.getTokensRemaining()).toBe(1);
  });
});
