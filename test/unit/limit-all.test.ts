/** `limitAll` of throttr-edge/ratelimit, and of the client: limiters that are charged together, or not at all. */
import { describe, expect, it } from "vitest";
import type { LimitBackend } from "../../src/ratelimit/backend.ts";
import {
  limitAll,
  type LimitAllOptions,
  type LimitTogether,
} from "../../src/ratelimit/limit-all.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { tokenBucket } from "../../src/ratelimit/strategies.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { LimitAllRequest } from "../../src/wire/edge/limit-all.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { EngineServer } from "../support/client/engine-client.ts";
import { FakeClock } from "../support/rate-limits/backend.ts";

const strategy = tokenBucket({ burst: 10, rate: 0.001 });

/** A server, and limiters of it. */
class Setting {
  readonly server = new EngineServer();
  readonly throttr = this.server.client;
  readonly perUser = new RateLimiter({ throttr: this.throttr, name: "user", strategy });
  readonly overall = new RateLimiter({ throttr: this.throttr, name: "all", strategy });

  all(entries: readonly LimitTogether[], options?: LimitAllOptions) {
    return limitAll(this.throttr, entries, options);
  }

  async remaining(): Promise<number[]> {
    const [user, all] = [await this.perUser.peek("ada"), await this.overall.peek("x")];
    return [user.remaining, all.remaining];
  }
}

/** A server of which limiters know this call, and that it is one. */
function backendOf(call: LimitBackend["limitAll"]): LimitBackend {
  return { limit: null, limitAll: call } as unknown as LimitBackend;
}

describe("limiters together", () => {
  it("limiters that all have room are charged in one message, with results in order", async () => {
    const setting = new Setting();
    const { server, perUser, overall } = setting;
    const entries = [
      { limiter: perUser, key: "ada", cost: 3 },
      { limiter: overall, key: "x" },
    ];
    expect(await server.messagesOf(() => setting.all(entries))).toBe(1);
    expect(await setting.all(entries)).toEqual({
      success: true,
      refusedBy: null,
      retryAfterMs: 0,
      results: [
        expect.objectContaining({ success: true, limit: 10, remaining: 4 }),
        expect.objectContaining({ success: true, limit: 10, remaining: 8 }),
      ],
    });
  });

  it("one that refuses keeps the others from being charged, and its index and wait are told", async () => {
    const setting = new Setting();
    await setting.perUser.limit("ada", { cost: 9 });
    const refused = await setting.all([
      { limiter: setting.overall, key: "x", cost: 2 },
      { limiter: setting.perUser, key: "ada", cost: 3 },
    ]);
    expect(refused).toMatchObject({
      success: false,
      refusedBy: 1,
      retryAfterMs: 2_000_000,
      results: [
        { success: true, remaining: 8 },
        { success: false, remaining: 1, retryAfterMs: 2_000_000 },
      ],
    });
    expect(await setting.remaining()).toEqual([1, 10]);
  });

  it("keys are encoded as by limit, and one limiter may come twice", async () => {
    const setting = new Setting();
    const { perUser } = setting;
    const key = "/a path, of any length: ".repeat(10);
    const entry = { limiter: perUser, key, cost: 2 };
    expect((await setting.all([entry, entry])).results).toMatchObject([
      { remaining: 6 },
      { remaining: 6 },
    ]);
    expect(await perUser.peek(key)).toMatchObject({ remaining: 6 });
  });

  it("a limiter in shadow mode never refuses, is charged with the others, and says what it decided", async () => {
    const setting = new Setting();
    const { throttr, overall } = setting;
    const limiter = new RateLimiter({ throttr, name: "user", strategy, shadow: true });
    const entries = [
      { limiter, key: "ada", cost: 6 },
      { limiter: overall, key: "x" },
    ];
    expect(await setting.all(entries)).toMatchObject({
      success: true,
      results: [{ success: true, shadow: { success: true, remaining: 4 } }, { remaining: 9 }],
    });
    const second = await setting.all(entries);
    expect(second).toMatchObject({
      success: true,
      refusedBy: null,
      results: [{ success: true, shadow: { success: false, remaining: 4 } }, { remaining: 8 }],
    });
    expect(second.results[1]).not.toHaveProperty("shadow");
    expect(await setting.remaining()).toEqual([4, 8]);
  });

  it("units that a limiter holds here are given back first, and are not spent here afterwards", async () => {
    const setting = new Setting();
    const { server, throttr, overall } = setting;
    const large = tokenBucket({ burst: 1_000, rate: 1 });
    const limiter = new RateLimiter({ throttr, name: "large", strategy: large, local: true });
    const exact = new RateLimiter({ throttr, name: "large", strategy: large });
    for (let i = 0; i < 40; i++) await limiter.limit("ada");
    expect((await exact.peek("ada")).remaining).toBeLessThan(950);
    const entries = [
      { limiter, key: "ada", cost: 960 },
      { limiter: overall, key: "x" },
    ];
    expect(await setting.all(entries)).toMatchObject({
      success: true,
      results: [{ remaining: 0 }, { remaining: 9 }],
    });
    expect(await server.messagesOf(() => limiter.limit("ada"))).toBe(1);
    expect((await limiter.limit("ada")).success).toBe(false);
  });

  it("a cached refusal does not answer, as the server decides", async () => {
    const setting = new Setting();
    const { throttr } = setting;
    const limiter = new RateLimiter({ throttr, name: "user", strategy, cache: true });
    await limiter.limit("ada", { cost: 10 });
    await limiter.limit("ada");
    await setting.perUser.reset("ada");
    expect((await setting.all([{ limiter, key: "ada" }])).success).toBe(true);
  });
});

describe("a server that can't be asked", () => {
  const failing = async (options?: LimitAllOptions) => {
    const setting = new Setting();
    const { throttr, perUser, server } = setting;
    const shadow = new RateLimiter({ throttr, name: "all", strategy, shadow: true });
    server.fate = "lost";
    return await setting.all(
      [
        { limiter: perUser, key: "ada" },
        { limiter: shadow, key: "x" },
      ],
      options,
    );
  };

  it.each([undefined, null, "https://throttr.example.com", { connect: () => {} }])(
    "a server of %j is refused, whatever onError is",
    async (throttr) => {
      const { perUser } = new Setting();
      const entries = [{ limiter: perUser, key: "ada" }];
      await expect(limitAll(throttr as never, entries, { onError: "open" })).rejects.toThrow(
        /^argument_invalid: throttr: expected a client or a service binding, got /,
      );
    },
  );

  it("a failure throws with the code of the server, unless onError decides", async () => {
    await expect(failing()).rejects.toMatchObject({ code: "outcome_unknown" });
  });

  it.each([
    ["open", true, 0],
    ["closed", false, null],
  ] as const)("onError %s answers for all limiters", async (onError, success, retryAfterMs) => {
    const failed = await failing({ onError });
    expect(failed).toMatchObject({ success, refusedBy: null, retryAfterMs });
    expect(failed.results).toMatchObject([
      { success, limit: 10, remaining: 0, reason: "error", error: { code: "outcome_unknown" } },
      { success: true, shadow: { success, reason: "error" } },
    ]);
  });

  it("a call that takes longer than timeoutMs ends, by the clock of the first limiter", async () => {
    const clock = new FakeClock();
    const throttr = backendOf(() => new Promise(() => {}));
    const limiter = new RateLimiter({ throttr, name: "user", strategy, clock });
    const asked = limitAll(throttr, [{ limiter, key: "ada" }], { timeoutMs: 300, onError: "open" });
    await clock.advance(299);
    expect(clock.timers).toBe(1);
    await clock.advance(1);
    expect((await asked).results[0]).toMatchObject({ success: true, reason: "timeout" });
  });

  it("a signal ends the wait with its reason", async () => {
    const throttr = backendOf(() => new Promise(() => {}));
    const limiter = new RateLimiter({ throttr, name: "user", strategy });
    const abort = new AbortController();
    const entries = [{ limiter, key: "ada" }];
    const asked = limitAll(throttr, entries, { signal: abort.signal, onError: "open" });
    abort.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });

  it.each<[string, LimitBackend["limitAll"]]>([
    ["has no such method", undefined],
    [
      "is a binding to a server before 0.5",
      () => Promise.reject(new TypeError('The RPC receiver does not implement "limitAll".')),
    ],
    [
      "does not know the command",
      () => Promise.reject(new ThrottrError("request_type_unknown", "byte 0: dialect edge has no")),
    ],
  ])("a server that %s is named, and nothing was charged", async (_, method) => {
    const throttr = backendOf(method);
    const limiter = new RateLimiter({ throttr, name: "user", strategy });
    await expect(limitAll(throttr, [{ limiter, key: "ada" }])).rejects.toThrow(
      "request_type_unknown: the server cannot charge limits together: update it to 0.5",
    );
  });
});

describe("wrong arguments", () => {
  const setting = new Setting();
  const limiter = setting.perUser;
  const many = Array.from({ length: 33 }, (_, i) => ({ limiter, key: `${i}` }));

  it.each<[string, unknown, object | undefined]>([
    ["limit_all_invalid: entries: expected a list of 1 to 32, got undefined", undefined, undefined],
    ["limit_all_invalid: entries: expected a list of 1 to 32", [], undefined],
    ["limit_all_invalid: entries: expected a list of 1 to 32, got 33", many, undefined],
    ["argument_invalid: an entry: expected an object, got null", [null], undefined],
    ["argument_invalid: entries[0].limiter: expected a RateLimiter", [{ key: "a" }], undefined],
    ["option_invalid: costs: an entry has no such option", [{ limiter, costs: 1 }], undefined],
    ["key_invalid: key: expected text", [{ limiter, key: "" }], undefined],
    ["cost_invalid: cost: expected", [{ limiter, key: "a", cost: 0 }], undefined],
    ["option_invalid: wait: limitAll has no such option", [{ limiter, key: "a" }], { wait: 1 }],
    ["option_invalid: timeoutMs: expected 1 to ", [{ limiter, key: "a" }], { timeoutMs: 0 }],
    ["option_invalid: onError: expected one of", [{ limiter, key: "a" }], { onError: "maybe" }],
  ])("%s", async (message, entries, options) => {
    const { server } = setting;
    const ask = () => setting.all(entries as LimitTogether[], options as LimitAllOptions);
    const messages = await server.messagesOf(async () => {
      const error: unknown = await ask().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ThrottrError);
      expect((error as ThrottrError).message).toContain(message);
    });
    expect(messages).toBe(0);
  });

  it("an idempotency key or a durability is refused by every way to the server, as it would be ignored", () => {
    const entry = { name: "user", key: "ada", strategy };
    const make = (request: object) => () => operations.limitAll(request as LimitAllRequest);
    expect(make({ requests: [entry], idempotencyKey: "x" })).toThrow(
      "option_invalid: idempotencyKey: a request has no such option; its options are requests",
    );
    for (const more of [{ idempotencyKey: "x" }, { durability: "relaxed" }]) {
      expect(make({ requests: [entry, { ...entry, ...more }] })).toThrow(
        `option_invalid: requests[1].${Object.keys(more)[0]}: an entry has no such option`,
      );
    }
  });

  it("limiters that share a record but not the strategy are refused by the server, whatever onError is", async () => {
    const setting = new Setting();
    const { throttr, perUser } = setting;
    const other = new RateLimiter({ throttr, name: "user", strategy: { ...strategy, burst: 5 } });
    const entries = [perUser, other].map((limiter) => ({ limiter, key: "ada" }));
    const choices: LimitAllOptions[] = [{}, { onError: "open" }, { onError: "closed" }];
    for (const options of choices) {
      const asked = setting.all(entries, options);
      await expect(asked).rejects.toMatchObject({ code: "limit_all_invalid" });
    }
  });
});
