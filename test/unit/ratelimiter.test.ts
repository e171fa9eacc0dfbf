/** Rate limiters: what they answer, wait for, and do where the limit can't be asked. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  limitAll,
  RateLimiter,
  RateLimitError,
  slidingWindow,
  systemClock,
  type LegacyClock,
  ThrottrError,
  tokenBucket,
  type LimitBackend,
  type LimitStrategy,
  type QuotaOptions,
  type RateLimiterOptions,
  type WindowOptions,
} from "../../src/ratelimit/index.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { FakeServer } from "../support/client/server.ts";
import { FakeBackend, FakeClock, settle, START_MS } from "../support/rate-limits/backend.ts";
import { IsolateClock } from "../support/rate-limits/drawing.ts";

const BUCKET = tokenBucket({ burst: 3, rate: 1 });
const WINDOW = fixedWindow({ limit: 2, window: "10 s" });

let clock: FakeClock;
let throttr: FakeBackend;
const unhandled: unknown[] = [];
const note = (reason: unknown): void => {
  unhandled.push(reason);
};

beforeEach(() => {
  clock = new FakeClock();
  throttr = new FakeBackend(clock);
  unhandled.length = 0;
  process.on("unhandledRejection", note);
});

afterEach(async () => {
  await settle();
  process.off("unhandledRejection", note);
  assert.equal(clock.timers, 0);
  assert.deepEqual(unhandled, []);
});

function limiterOf(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  return new RateLimiter({ throttr, name: "api", strategy: BUCKET, clock, ...options });
}

async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return null;
}

/** Settles a promise while time passes. */
async function meanwhile<Result>(call: Promise<Result>, byMs: number): Promise<Result> {
  const settled = call.catch(() => {});
  await clock.advance(byMs);
  await settled;
  return await call;
}

describe("strategies", () => {
  const windows = [
    ["10 s", 10_000],
    ["10s", 10_000],
    ["500 ms", 500],
    ["1 m", 60_000],
    ["1.5 h", 5_400_000],
    ["1 d", 86_400_000],
  ] as const;
  it.each(windows)("strategies accept a window of %s", (window, windowMs) => {
    expect(slidingWindow({ limit: 1, window })).toEqual(slidingWindow({ limit: 1, windowMs }));
    expect(slidingWindow({ limit: 1, windowMs })).toEqual({
      strategy: "sliding_window",
      limit: 1,
      windowMs,
    });
  });

  it("strategies become configurations of the core", () => {
    expect(tokenBucket({ burst: 3, rate: 0.5 })).toEqual({
      strategy: "token_bucket",
      burst: 3,
      rate: 0.5,
    });
    expect(leakyBucket({ burst: 3, rate: 1 }).strategy).toBe("leaky_bucket");
    expect(gcra({ burst: 3, rate: 1 }).strategy).toBe("gcra");
    expect(fixedWindow({ limit: 2, window: "1 s" })).toEqual({
      strategy: "fixed_window",
      quotas: [{ name: "default", limit: 2, windowMs: 1_000 }],
    });
    const quotas: QuotaOptions[] = [
      { name: "burst", limit: 10, window: "1 s" },
      { name: "daily", limit: 1000, windowMs: 86_400_000 },
    ];
    expect(fixedWindow(quotas).quotas).toEqual([
      { name: "burst", limit: 10, windowMs: 1_000 },
      { name: "daily", limit: 1000, windowMs: 86_400_000 },
    ]);
    expect(composite({ primary: WINDOW, secondary: BUCKET })).toEqual({
      strategy: "composite",
      primary: WINDOW,
      secondary: BUCKET,
    });
  });

  it("a window that is a number in place of text is refused with the name of the field for milliseconds", () => {
    const options = { limit: 1, window: 60_000 } as unknown as WindowOptions;
    expect(() => fixedWindow(options)).toThrow(/milliseconds are windowMs, got 60000$/);
  });

  const wrong: [string, () => unknown, string, string][] = [
    ["burst", () => tokenBucket({ burst: 0, rate: 1 }), "burst_invalid", "burst"],
    ["rate", () => leakyBucket({ burst: 1, rate: Infinity }), "rate_invalid", "rate"],
    ["rate of GCRA", () => gcra({ burst: 1, rate: 2e9 }), "rate_invalid", "rate"],
    ["limit", () => fixedWindow({ limit: 1.5, window: "1 s" }), "limit_invalid", "limit"],
    [
      "limit of a quota",
      () => fixedWindow([{ name: "a", limit: 0, window: "1 s" }]),
      "limit_invalid",
      "quotas[0].limit",
    ],
    ["window", () => slidingWindow({ limit: 1, windowMs: 0 }), "window_invalid", "windowMs"],
    ["short window", () => fixedWindow({ limit: 1, windowMs: 1e-7 }), "window_invalid", "windowMs"],
    ["long window", () => slidingWindow({ limit: 1, windowMs: 2e12 }), "time_overflow", "windowMs"],
    [
      "long window in words",
      () => fixedWindow({ limit: 1, window: "99999999 d" }),
      "time_overflow",
      "window",
    ],
    [
      "long window of a quota",
      () => fixedWindow([{ name: "a", limit: 1, window: "99999999 d" }]),
      "time_overflow",
      "quotas[0].window",
    ],
    [
      "window in words",
      () => slidingWindow({ limit: 1, window: "1e3 s" }),
      "window_invalid",
      "window",
    ],
    [
      "window in another unit",
      () => slidingWindow({ limit: 1, window: "1 week" } as unknown as WindowOptions),
      "window_invalid",
      "window",
    ],
    [
      "two windows",
      () =>
        fixedWindow([
          { name: "a", limit: 1, window: "1 s", windowMs: 1 } as unknown as QuotaOptions,
        ]),
      "window_invalid",
      "quotas[0].window",
    ],
    [
      "no window",
      () => slidingWindow({ limit: 1 } as unknown as WindowOptions),
      "window_invalid",
      "windowMs",
    ],
    ["quotas", () => fixedWindow([]), "quotas_invalid", "quotas"],
    [
      "names",
      () => fixedWindow([{ name: "a b", limit: 1, window: "1 s" }]),
      "quota_name_invalid",
      "quotas[0].name",
    ],
    [
      "primary",
      () =>
        composite({
          primary: slidingWindow({ limit: 1, window: "1 s" }) as never,
          secondary: BUCKET,
        }),
      "combination_invalid",
      "primary.strategy",
    ],
    [
      "secondary",
      () => composite({ primary: WINDOW, secondary: WINDOW as never }),
      "combination_invalid",
      "secondary.strategy",
    ],
    [
      "pairs",
      () => composite({ primary: BUCKET as never, secondary: BUCKET }),
      "combination_invalid",
      "primary.strategy",
    ],
  ];
  it.each(wrong)("strategies refuse an invalid %s", async (_, build, code, field) => {
    const error = await thrownBy(build);
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ code, field });
  });
});

describe("construction", () => {
  const wrong: [string, Record<string, unknown>, string, string][] = [
    ["name", { name: "" }, "base_key_invalid", "name"],
    ["name with a space", { name: "a b" }, "base_key_invalid", "name"],
    ["strategy", { strategy: { strategy: "none" } }, "strategy_unknown", "strategy"],
    [
      "window of a strategy",
      { strategy: { strategy: "sliding_window", limit: 1, windowMs: 1e-7 } },
      "window_invalid",
      "windowMs",
    ],
    [
      "window of a quota",
      {
        strategy: {
          strategy: "fixed_window",
          quotas: [{ name: "a", limit: 1, windowMs: 2e12 }],
        },
      },
      "time_overflow",
      "quotas[0].windowMs",
    ],
    ["missing strategy", { strategy: undefined }, "strategy_unknown", "strategy"],
    ["missing backend", { throttr: undefined }, "configuration_invalid", "throttr"],
    ["timeout", { timeoutMs: 0 }, "configuration_invalid", "timeoutMs"],
    ["timeout beyond timers", { timeoutMs: 2 ** 31 }, "configuration_invalid", "timeoutMs"],
    ["timeout as text", { timeoutMs: "500" }, "configuration_invalid", "timeoutMs"],
    ["timeout NaN", { timeoutMs: NaN }, "configuration_invalid", "timeoutMs"],
    ["policy", { onError: "ajar" }, "configuration_invalid", "onError"],
    ["cache", { cache: new Map() }, "configuration_invalid", "cache"],
    ["clock without timers", { clock: { nowMs: () => 0 } }, "configuration_invalid", "clock"],
  ];
  it.each(wrong)("a limiter refuses an invalid %s", async (_, options, code, field) => {
    const error = await thrownBy(() => limiterOf(options as Partial<RateLimiterOptions>));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ code, field });
  });

  it("a limiter accepts the ends of every range", () => {
    for (const timeoutMs of [1, 2 ** 31 - 1, Infinity]) limiterOf({ timeoutMs });
  });

  it("a limiter accepts any backend with its methods", () => {
    expectTypeOf<FakeBackend>().toExtend<LimitBackend>();
    expectTypeOf<Omit<FakeBackend, "peek">>().not.toExtend<LimitBackend>();
  });
});

describe("limit", () => {
  it("limit grants and refuses as the strategy says", async () => {
    const limiter = limiterOf();
    expect(await limiter.limit("ada", { cost: 2 })).toEqual({
      success: true,
      limit: 3,
      remaining: 1,
      reset: START_MS,
      retryAfterMs: 0,
      quotas: { default: { allowed: true, limit: 3, remaining: 1, reset: START_MS } },
    });
    expect(await limiter.limit("ada", { cost: 2 })).toEqual({
      success: false,
      limit: 3,
      remaining: 1,
      reset: START_MS + 1_000,
      retryAfterMs: 1_000,
      quotas: { default: { allowed: false, limit: 3, remaining: 1, reset: START_MS + 1_000 } },
    });
    expect(await limiter.limit("ada", { cost: 4 })).toMatchObject({
      success: false,
      reason: "cost_exceeds_limit",
      reset: null,
      retryAfterMs: null,
    });
    expect(await limiter.limit("bob")).toMatchObject({ success: true, remaining: 2 });
  });

  it("limit sends its key, cost and options in one call", async () => {
    await limiterOf().limit("ada", { cost: 2, idempotencyKey: "once" });
    expect(throttr.calls).toEqual([
      {
        method: "limit",
        requests: [{ name: "api", key: "ada", strategy: BUCKET, cost: 2, idempotencyKey: "once" }],
      },
    ]);
  });

  it("limit drops unknown fields of an answer", async () => {
    const limit: LimitBackend["limit"] = async (request) => {
      const result = await throttr.limit(request);
      return { ...result, [Symbol.for("dispose")]: () => {}, extra: true };
    };
    const backend: LimitBackend = Object.assign(new FakeBackend(clock), { limit });
    const result = await limiterOf({ throttr: backend }).limit("ada");
    expect(new Set(Reflect.ownKeys(result))).toEqual(
      new Set(["success", "limit", "remaining", "reset", "retryAfterMs", "quotas"]),
    );
  });

  const wrong: [string, (limiter: RateLimiter) => Promise<unknown>, string][] = [
    ["an empty key", (limiter) => limiter.limit(""), "key_invalid"],
    ["a key that is no text", (limiter) => limiter.limit(7 as never), "key_invalid"],
    ["a cost of 0", (limiter) => limiter.limit("ada", { cost: 0 }), "cost_invalid"],
    ["half a cost", (limiter) => limiter.refund("ada", { cost: 0.5 }), "cost_invalid"],
    [
      "a cost that is no number",
      (limiter) => limiter.limitMany([{ key: "a", cost: NaN }]),
      "cost_invalid",
    ],
    ["an empty key among many", (limiter) => limiter.limitMany(["a", ""]), "key_invalid"],
    ["an empty key to peek", (limiter) => limiter.peek(""), "key_invalid"],
    ["an empty key to reset", (limiter) => limiter.reset(""), "key_invalid"],
    [
      "an empty idempotency key",
      (limiter) => limiter.limit("ada", { idempotencyKey: "" }),
      "idempotency_key_invalid",
    ],
    ["a wrong timeout", (limiter) => limiter.blockUntilReady("ada", -1), "timeout_invalid"],
    ["no timeout", (limiter) => limiter.blockUntilReady("ada", NaN), "timeout_invalid"],
  ];
  it.each(wrong)("limit refuses %s, whatever the policy", async (_, call, code) => {
    for (const options of [{}, { onError: "open" }, { shadow: true }] as const) {
      const error = await thrownBy(() => call(limiterOf(options)));
      expect(error).toBeInstanceOf(ThrottrError);
      expect(error).toMatchObject({ code });
    }
    expect(throttr.calls).toEqual([]);
  });
});

describe("limitMany, peek, refund and reset", () => {
  it("limitMany asks for many keys in one call, in their order", async () => {
    const limiter = limiterOf();
    const results = await limiter.limitMany(["ada", { key: "bob", cost: 3 }, "/a", "ada", "bob"]);
    expect(results.map(({ success, remaining }) => [success, remaining])).toEqual([
      [true, 2],
      [true, 0],
      [true, 2],
      [true, 1],
      [false, 0],
    ]);
    expect(throttr.calls.map(({ method }) => method)).toEqual(["limitMany"]);
    expect(throttr.calls[0]!.requests.map(({ key }) => key)).toEqual([
      "ada",
      "bob",
      ".+2Fa",
      "ada",
      "bob",
    ]);
    expect(await limiter.limitMany([])).toEqual([]);
    expect(throttr.calls).toHaveLength(1);
  });

  it("limitMany asks for more keys than a batch has in calls one after the other", async () => {
    const limiter = limiterOf({ onError: "open" });
    const keys = Array.from({ length: 20_001 }, (_, i) => (i % 7_000 === 0 ? "ada" : `${i}`));
    const results = await limiter.limitMany(keys);
    expect(throttr.calls.map(({ requests }) => requests.length)).toEqual([10_000, 10_000, 1]);
    expect(results).toHaveLength(20_001);
    expect([0, 7_000, 14_000].map((i) => results[i]!.remaining)).toEqual([2, 1, 0]);
  });

  it("limitMany refuses an answer of another length", async () => {
    const limitMany: LimitBackend["limitMany"] = async () => [];
    const backend: LimitBackend = Object.assign(new FakeBackend(clock), { limitMany });
    const error = await thrownBy(() => limiterOf({ throttr: backend }).limitMany(["a", "b"]));
    expect(error).toMatchObject({ code: "reply_invalid" });
  });

  it("peek does not charge", async () => {
    const limiter = limiterOf();
    expect(await limiter.peek("ada")).toMatchObject({ success: true, remaining: 3 });
    await limiter.limit("ada", { cost: 3 });
    expect(await limiter.peek("ada")).toMatchObject({
      success: false,
      remaining: 0,
      retryAfterMs: 1_000,
    });
  });

  it("refund gives back, and reset forgets", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    expect(await limiter.refund("ada", { cost: 2 })).toMatchObject({ success: true, remaining: 2 });
    expect(await limiter.reset("ada")).toBe(true);
    expect(await limiter.reset("ada")).toBe(false);
    expect(await limiter.peek("ada")).toMatchObject({ remaining: 3 });
  });
});

describe("a call that fails", () => {
  const broken = new Error("ThrottrError: outcome_unknown: the shard failed");
  const figures = { limit: 3, remaining: 0, reset: null, quotas: {} };
  type Ask = (limiter: RateLimiter) => Promise<unknown>;
  const asks: [string, Ask][] = [
    ["limit", (limiter) => limiter.limit("ada")],
    ["peek", (limiter) => limiter.peek("ada")],
    ["refund", (limiter) => limiter.refund("ada")],
    ["blockUntilReady", (limiter) => limiter.blockUntilReady("ada", 60_000)],
    ["limitMany", async (limiter) => (await limiter.limitMany(["ada", "bob"]))[1]],
  ];

  it.each(asks)("a failed call throws without a policy: %s", async (_, ask) => {
    throttr.failure = broken;
    const error = await thrownBy(() => ask(limiterOf()));
    expect(error).toBeInstanceOf(ThrottrError);
    expect(error).toMatchObject({ code: "outcome_unknown" });
  });

  it.each(asks)(
    "a failed call is a success or a refusal as the policy says: %s",
    async (_, ask) => {
      throttr.failure = broken;
      const error = expect.objectContaining({ code: "outcome_unknown" });
      expect(await ask(limiterOf({ onError: "open" }))).toEqual({
        success: true,
        retryAfterMs: 0,
        reason: "error",
        error,
        ...figures,
      });
      expect(await ask(limiterOf({ onError: "closed" }))).toEqual({
        success: false,
        retryAfterMs: null,
        reason: "error",
        error,
        ...figures,
      });
    },
  );

  it.each(asks)("a call that takes too long has failed: %s", async (_, ask) => {
    throttr.hold();
    const error = await thrownBy(() => meanwhile(ask(limiterOf()), 5_000));
    expect(error).toBeInstanceOf(ThrottrError);
    expect(error).toMatchObject({ code: "timeout" });
    const open = await meanwhile(ask(limiterOf({ timeoutMs: 7, onError: "open" })), 7);
    expect(open).toMatchObject({ success: true, reason: "timeout", ...figures });
    const closed = await meanwhile(ask(limiterOf({ timeoutMs: 7, onError: "closed" })), 7);
    expect(closed).toMatchObject({ success: false, reason: "timeout", ...figures });
    await throttr.release();
  });

  it("a call answered in time has not failed", async () => {
    throttr.hold();
    const call = limiterOf({ timeoutMs: 10 }).limit("ada");
    await clock.advance(9);
    await throttr.release();
    expect(await call).toMatchObject({ success: true });
  });

  const charges: [string, (limiter: RateLimiter, signal?: AbortSignal) => Promise<unknown>][] = [
    ["limit", (limiter, signal) => limiter.limit("ada", { signal })],
    ["limitMany", (limiter, signal) => limiter.limitMany(["ada", "bob"], { signal })],
    ["reserve", (limiter, signal) => limiter.reserve("ada", { signal })],
    [
      "limitAll",
      (limiter, signal) =>
        limitAll(client, [{ limiter, key: "ada" }], { signal, timeoutMs: 7, onError: "open" }),
    ],
  ];
  let server: FakeServer;
  let client: ThrottrClient;

  beforeEach(() => {
    server = new FakeServer();
    client = new ThrottrClient(server);
  });

  /** Opens the connection that a call waits for, and counts the messages that the client sends then. */
  async function messagesOnceOpen(): Promise<number> {
    server.connection.open();
    await settle();
    const { length } = server.connection.messages;
    await client.close();
    return length;
  }

  it.each(charges)("a call that timed out before it was sent is never sent: %s", async (_, ask) => {
    for (const durability of ["strict", "relaxed"] as const) {
      const options = { throttr: client, durability, timeoutMs: 7, onError: "open" } as const;
      await meanwhile(ask(limiterOf(options)), 7);
    }
    expect(await messagesOnceOpen()).toBe(0);
  });

  it.each(charges)("a call aborted before it was sent is never sent: %s", async (_, ask) => {
    const aborter = new AbortController();
    const thrown = thrownBy(() => ask(limiterOf({ throttr: client }), aborter.signal));
    await settle();
    aborter.abort("enough");
    expect(await thrown).toBe("enough");
    expect(await messagesOnceOpen()).toBe(0);
  });

  it.each(charges)("a call whose caller waits is sent: %s", async (_, ask) => {
    const limiter = limiterOf({ throttr: client, timeoutMs: Infinity });
    const call = ask(limiter).catch(() => {});
    await settle();
    expect(await messagesOnceOpen()).toBe(1);
    await clock.advance(7);
    await call;
  });

  it.each(charges.slice(0, 3))(
    "a binding gets no signal, as RPC cannot carry one: %s",
    async (_, ask) => {
      const counts: number[] = [];
      const call = (...given: unknown[]): Promise<never> => {
        counts.push(given.length);
        return Promise.reject(broken);
      };
      // A stub has any property.
      const throttr = new Proxy({}, { get: () => call }) as LimitBackend;
      for (const durability of ["strict", "relaxed"] as const) {
        await ask(limiterOf({ throttr, durability, onError: "open" }));
      }
      expect(counts).toEqual([1, 1]);
    },
  );

  it("the second batch of a call is not sent to a binding once the caller is gone", async () => {
    throttr.hold();
    const keys = Array.from({ length: 10_001 }, (_, i) => `key ${i}`);
    const call = limiterOf({ timeoutMs: 7, onError: "open" }).limitMany(keys);
    expect(await meanwhile(call, 7)).toHaveLength(10_001);
    await throttr.release();
    expect(throttr.calls).toHaveLength(1);
  });

  it("a limiter can wait without a timeout", async () => {
    throttr.hold();
    const call = limiterOf({ timeoutMs: Infinity }).limit("ada");
    await clock.advance(1e12);
    expect(clock.timers).toBe(0);
    await throttr.release();
    expect(await call).toMatchObject({ success: true });
  });

  it("a call that fails after it was given up raises no unhandled rejection", async () => {
    let fail: (error: Error) => void = () => {};
    const limit: LimitBackend["limit"] = () => {
      return new Promise((_, reject) => {
        fail = reject;
      });
    };
    const backend: LimitBackend = Object.assign(new FakeBackend(clock), { limit });
    const call = limiterOf({ throttr: backend, timeoutMs: 5, onError: "open" }).limit("ada");
    expect(await meanwhile(call, 5)).toMatchObject({ reason: "timeout" });
    fail(broken);
    await settle();
  });

  it("a failed reset throws, whatever the policy", async () => {
    throttr.failure = broken;
    const error = await thrownBy(() => limiterOf({ onError: "open" }).reset("ada"));
    expect(error).toMatchObject({ code: "outcome_unknown" });
  });

  it("a backend that throws synchronously has failed", async () => {
    const limit: LimitBackend["limit"] = () => {
      throw new TypeError("not a stub");
    };
    const backend: LimitBackend = Object.assign(new FakeBackend(clock), { limit });
    const error = await thrownBy(() => limiterOf({ throttr: backend }).limit("ada"));
    expect(error).toMatchObject({ code: "outcome_unknown" });
  });

  it("a result of a policy has the smallest limit of the strategy", async () => {
    throttr.failure = broken;
    const strategies: [LimitStrategy, number][] = [
      [slidingWindow({ limit: 7, window: "1 s" }), 7],
      [
        fixedWindow([
          { name: "a", limit: 9, window: "1 s" },
          { name: "b", limit: 8, window: "1 h" },
        ]),
        8,
      ],
      [composite({ primary: WINDOW, secondary: BUCKET }), 2],
    ];
    for (const [strategy, limit] of strategies) {
      const result = await limiterOf({ strategy, onError: "open" }).limit("ada");
      expect(result.limit).toBe(limit);
    }
  });
});

describe("a signal", () => {
  const reason = new Error("enough");

  it("a limiter with an aborted signal makes no call", async () => {
    const limiter = limiterOf({ onError: "open", cache: true });
    const signal = AbortSignal.abort(reason);
    const calls = [
      () => limiter.limit("ada", { signal }),
      () => limiter.limitMany(["ada"], { signal }),
      () => limiter.limitMany([], { signal }),
      () => limiter.peek("ada", { signal }),
      () => limiter.refund("ada", { signal }),
      () => limiter.reset("ada", { signal }),
      () => limiter.blockUntilReady("ada", 1_000, { signal }),
    ];
    for (const call of calls) expect(await thrownBy(call)).toBe(reason);
    expect(throttr.calls).toEqual([]);
  });

  it("a signal ends a call, whatever the policy", async () => {
    throttr.hold();
    for (const thrown of [reason, new ThrottrError("timeout", "mine")]) {
      const controller = new AbortController();
      const { signal } = controller;
      const call = limiterOf({ onError: "open" }).limit("ada", { signal });
      const error = thrownBy(() => call);
      await settle();
      controller.abort(thrown);
      expect(await error).toBe(thrown);
    }
    await throttr.release();
  });

  it("a signal ends a wait", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    const controller = new AbortController();
    const { signal } = controller;
    const error = thrownBy(() => limiter.blockUntilReady("ada", 60_000, { signal }));
    await clock.advance(999);
    expect(clock.timers).toBe(1);
    controller.abort(reason);
    expect(await error).toBe(reason);
  });

  it("an aborted signal ends a wait before it begins", async () => {
    const own = new FakeClock();
    const limiter = limiterOf({ clock: own });
    await limiter.limit("ada", { cost: 3 });
    const controller = new AbortController();
    const { signal } = controller;
    let looks = 0;
    own.nowMs = () => {
      looks++;
      // The first look is for the timeout, the second for what is left of it after the refusal.
      if (looks === 2) controller.abort(reason);
      return own.timeMs;
    };
    const error = await thrownBy(() => limiter.blockUntilReady("ada", 60_000, { signal }));
    expect(error).toBe(reason);
    expect(looks).toBe(2);
    expect(own.timers).toBe(0);
  });

  it("a limiter stops listening to its signal when the call ends", async () => {
    const { signal } = new AbortController();
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3, signal });
    await meanwhile(limiter.blockUntilReady("ada", 60_000, { signal }), 1_000);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

describe("blockUntilReady", () => {
  it("blockUntilReady waits exactly as long as it must", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    let result: unknown = null;
    const call = limiter.blockUntilReady("ada", 2_000, { cost: 2 }).then((granted) => {
      result = granted;
    });
    await clock.advance(1_999);
    expect(result).toBeNull();
    await clock.advance(1);
    await call;
    expect(result).toMatchObject({ success: true, remaining: 0 });
    expect(throttr.calls).toHaveLength(3);
  });

  it("blockUntilReady does not wait when the wait would be too long", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    expect(await limiter.blockUntilReady("ada", 999)).toMatchObject({
      success: false,
      reason: "timeout",
      retryAfterMs: 1_000,
      limit: 3,
    });
    expect(await limiter.blockUntilReady("ada", 0)).toMatchObject({ reason: "timeout" });
    expect(clock.timeMs).toBe(START_MS);
  });

  it("blockUntilReady does not wait for a cost that is never granted", async () => {
    const result = await limiterOf().blockUntilReady("ada", Infinity, { cost: 4 });
    expect(result).toMatchObject({ success: false, reason: "cost_exceeds_limit" });
  });

  it("blockUntilReady waits again when others came first, as long as time is left", async () => {
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    const call = limiter.blockUntilReady("ada", 2_500);
    await clock.advance(500);
    throttr.skewMs = 500;
    await limiter.limit("ada");
    throttr.skewMs = 0;
    // Somebody was there first, so it is granted after 2 s, not after 1.
    expect(await meanwhile(call, 5_000)).toMatchObject({ success: true });
    expect(throttr.calls).toHaveLength(5);

    await limiter.reset("ada");
    await limiter.limit("ada", { cost: 3 });
    const late = limiter.blockUntilReady("ada", 1_500);
    await clock.advance(999);
    throttr.skewMs = 1;
    await limiter.limit("ada");
    throttr.skewMs = 0;
    expect(await meanwhile(late, 5_000)).toMatchObject({ success: false, reason: "timeout" });
  });

  it("blockUntilReady waits no longer than its timeout when the wall clock is set back", async () => {
    const isolate = new IsolateClock();
    clock = isolate;
    throttr = new FakeBackend(isolate);
    const limiter = limiterOf();
    await limiter.limit("ada", { cost: 3 });
    const call = limiter.blockUntilReady("ada", 1_500);
    await clock.advance(999);
    throttr.skewMs = 1;
    await limiter.limit("ada");
    // The server's clock is right.
    throttr.skewMs = 3_600_000;
    isolate.skewMs = -3_600_000;
    expect(await meanwhile(call, 5_000)).toMatchObject({ success: false, reason: "timeout" });
  });

  it("blockUntilReady works with a cache", async () => {
    const limiter = limiterOf({ cache: true });
    await limiter.limit("ada", { cost: 3 });
    await limiter.limit("ada");
    const result = await meanwhile(limiter.blockUntilReady("ada", 3_000, { cost: 3 }), 3_000);
    expect(result).toMatchObject({ success: true, remaining: 0 });
  });

  it("blockUntilReady waits longer than a timer can", async () => {
    const strategy = fixedWindow({ limit: 1, window: "60 d" });
    const limiter = limiterOf({ strategy });
    await limiter.limit("ada");
    const call = limiter.blockUntilReady("ada", Infinity);
    expect(await meanwhile(call, 60 * 86_400_000)).toMatchObject({ success: true });
    expect(Math.max(...clock.delaysMs)).toBeLessThanOrEqual(2 ** 31 - 1);
  });
});

describe("shadow mode", () => {
  it("shadow mode reports the decision and refuses nothing", async () => {
    const limiter = limiterOf({ shadow: true });
    const granted = await limiter.limit("ada", { cost: 3 });
    expect(granted).toMatchObject({ success: true, shadow: { success: true, remaining: 0 } });
    const refused = await limiter.limit("ada");
    expect(refused).toEqual({
      success: true,
      limit: 3,
      remaining: 0,
      reset: START_MS + 1_000,
      retryAfterMs: 0,
      quotas: expect.anything(),
      shadow: {
        success: false,
        limit: 3,
        remaining: 0,
        reset: START_MS + 1_000,
        retryAfterMs: 1_000,
        quotas: expect.anything(),
      },
    });
    expect(await limiter.limit("ada", { cost: 9 })).toMatchObject({
      success: true,
      shadow: { success: false, reason: "cost_exceeds_limit" },
    });
    expect(await limiter.blockUntilReady("ada", 60_000)).toMatchObject({
      success: true,
      shadow: { success: false },
    });
    expect(await limiter.peek("ada")).toMatchObject({ success: true, shadow: { success: false } });
    expect((await limiter.limitMany(["ada"]))[0]).toMatchObject({ shadow: { success: false } });
  });

  it("shadow mode throws for no failure", async () => {
    throttr.failure = new Error("no network");
    const error = expect.objectContaining({ code: "outcome_unknown" });
    expect(await limiterOf({ shadow: true }).limit("ada")).toMatchObject({
      success: true,
      shadow: { success: false, reason: "error", error },
    });
    expect(await limiterOf({ shadow: true, onError: "open" }).limit("ada")).toMatchObject({
      success: true,
      shadow: { success: true, reason: "error", error },
    });
  });
});

describe("the clock of the platform", () => {
  it("the platform's clock tells the time, and sets and clears timers", async () => {
    expect(Math.abs(systemClock.nowMs() - Date.now())).toBeLessThan(60_000);
    const called: string[] = [];
    systemClock.clearTimer(systemClock.setTimer(() => called.push("cancelled"), 1));
    await new Promise<void>((resolve) => {
      systemClock.setTimer(resolve, 5);
    });
    expect(called).toEqual([]);
  });

  it("a clock in the shape of release 0.4 is still accepted", async () => {
    const legacy: LegacyClock = {
      now: () => clock.nowMs(),
      after: (delayMs, callback) => {
        const timer = clock.setTimer(callback, delayMs);
        return () => clock.clearTimer(timer);
      },
    };
    const limiter = limiterOf({ clock: legacy, strategy: BUCKET });
    await limiter.limit("ada", { cost: 3 });
    const waiting = limiter.blockUntilReady("ada", Infinity);
    await clock.advance(999);
    expect(clock.timers).toBe(1);
    await clock.advance(60_000);
    expect(await waiting).toMatchObject({ success: true });
    expect(clock.timers).toBe(0);
    expect(systemClock.now() - Date.now()).toBeLessThan(60_000);
  });

  it("a limiter uses the platform's clock by default", async () => {
    const limiter = new RateLimiter({ throttr, name: "api", strategy: BUCKET });
    expect(limiter.clock).toBe(systemClock);
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
  });
});
