/** Arguments of clients and limiters that no type has kept out: plain JavaScript, and slips of the pen. */
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { secondaryStorage } from "../../src/adapters/better-auth/secondary-storage.ts";
import { ThrottrStore as ExpressStore } from "../../src/adapters/express-rate-limit/store.ts";
import { KeyvThrottr } from "../../src/adapters/keyv/store.ts";
import { ThrottrStorage } from "../../src/adapters/nestjs/storage.ts";
import { RateLimiterThrottr } from "../../src/adapters/rate-limiter-flexible/rate-limiter-throttr.ts";
import { throttrDriver } from "../../src/adapters/unstorage/driver.ts";
import { serviceBinding } from "../../src/client/transport/binding.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { http } from "../../src/client/transport/http.ts";
import { webSocket } from "../../src/client/transport/web-socket.ts";
import { rateLimit } from "../../src/hono/rate-limit.ts";
import { ThrottrStore } from "../../src/hono/store.ts";
import { systemClock } from "../../src/ratelimit/clock.ts";
import { limitAll } from "../../src/ratelimit/limit-all.ts";
import type { RateLimiterOptions } from "../../src/ratelimit/limiter-options.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { RefusalCache } from "../../src/ratelimit/refusals.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
} from "../../src/ratelimit/strategies.ts";
import { pause } from "../../src/wire/clock.ts";
import { FakeHttp } from "../support/client/http.ts";

const URL = "https://throttr.example.com";
const strategy = tokenBucket({ burst: 10, rate: 1 });
const MESSAGE_OF_THE_LANGUAGE = /TypeError|undefined \(reading|Cannot destructure|not a function/;

/** Anything may be called with anything. */
type Loose = Record<string, (...args: unknown[]) => unknown>;
const loose = (value: object): Loose => value as Loose;

function start() {
  const server = new FakeHttp([]);
  return { server, client: new ThrottrClient(http(URL, { fetch: server.fetch })) };
}

/** Message of what a call throws, or rejects with. */
async function messageOf(call: () => unknown): Promise<string> {
  try {
    await call();
    return "none";
  } catch (error) {
    return (error as Error).message;
  }
}

describe("missing arguments", () => {
  it.each<[string, unknown[], RegExp]>([
    ["increment", ["a"], /^argument_invalid: options: expected an object with ttlMs, got undef/],
    ["insert", ["a"], /^argument_invalid: options: expected an object with quota and ttlMs/],
    ["set", ["a", "x"], /^argument_invalid: options: expected an object with ttlMs/],
    ["ttl", ["a"], /^argument_invalid: options: expected an object with ttlMs/],
    [
      "compareAndSet",
      ["a"],
      /^argument_invalid: options: expected an object with expected and value/,
    ],
    [
      "compareAndSet",
      ["a", { value: "x", ttlMs: 1 }],
      /^expected_invalid: expected: expected text or a Uint8Array, or null, got undefined/,
    ],
    [
      "compareAndSet",
      ["a", { expected: null, ttlMs: 1 }],
      /^value_invalid: value: expected text or a Uint8Array, or null, got undefined/,
    ],
    ["set", ["a", { b: 1 }, { ttlMs: 1 }], /^value_invalid: .*Uint8Array, got an object/],
    ["query", [5], /^key_invalid: key: expected text or a Uint8Array, got 5/],
    [
      "acquire",
      [{ maximum: 1, ttlMs: 1000 }],
      /^name_invalid: name: expected text or a Uint8Array, got an object/,
    ],
    ["acquire", ["a"], /^argument_invalid: options: expected an object with maximum and ttlMs/],
    [
      "renew",
      ["a", "0b7c9a4e-3f13-4d43-9d4b-111111111111"],
      /^argument_invalid: options: expected an obj/,
    ],
    ["limit", [], /^argument_invalid: request: expected an object with name, key and strategy/],
    ["peek", [], /^argument_invalid: request: expected an object with name, key and strategy/],
    [
      "limit",
      [{ name: "api", key: "a", strategy, durability: "fast" }],
      /^argument_invalid: durability: expected one of strict, relaxed, got "fast"/,
    ],
    ["reset", [], /^argument_invalid: request: expected an object with name, key and strategy/],
    ["limitMany", [], /^argument_invalid: requests: expected a list, got undefined/],
    [
      "batch",
      [[undefined]],
      /^argument_invalid: call: expected a list of a name and arguments, got undefined/,
    ],
    [
      "batch",
      [["get"]],
      /^argument_invalid: call: expected a list of a name and arguments, got "get"/,
    ],
    [
      "purge",
      ["a", { idempotencyKey: 5 }],
      /^idempotency_key_invalid: idempotencyKey: expected text/,
    ],
    [
      "purge",
      ["a", { idempotencyKey: "\ud800" }],
      /^idempotency_key_invalid: idempotencyKey: expected well-formed text/,
    ],
    ["limitAll", [{}], /^limit_all_invalid: requests: expected a list, got undefined/],
    [
      "limitAll",
      [{ requests: [{ name: "api", key: "a", strategy, returns: null }] }],
      /^draw_invalid: requests\[0\]\.returns: expected a list, got null/,
    ],
    [
      "limitAll",
      [{ requests: [{ name: "api", key: "a", strategy, returns: [null] }] }],
      /^argument_invalid: requests\[0\]\.returns\[0\]: expected an object with draw and units, got null/,
    ],
    [
      "draw",
      [{ name: "api", key: "a", strategy, returns: "one" }],
      /^draw_invalid: returns: expected a list, got "one"/,
    ],
    [
      "restore",
      [],
      /^argument_invalid: record: expected an object with key, kind, unit and expiresAtNs/,
    ],
    ["query", ["a", 5], /^argument_invalid: query: expected an object, got 5/],
    ["query", ["a", null], /^argument_invalid: query: expected an object, got null/],
  ])("the call %s%j names its missing argument and sends nothing", async (name, args, expected) => {
    const { server, client } = start();
    const message = await messageOf(() => loose(client)[name]!(...args));
    expect(message).toMatch(expected);
    expect(message).not.toMatch(MESSAGE_OF_THE_LANGUAGE);
    expect(server.requests).toHaveLength(0);
  });

  it("with() without a function is refused, and nothing is acquired", async () => {
    const { server, client } = start();
    const gpu = loose(client.semaphore("gpu", 4));
    expect(await messageOf(() => gpu.with!())).toBe(
      "argument_invalid: run: expected a function, got undefined",
    );
    expect(server.requests).toHaveLength(0);
  });
});

describe("unknown options", () => {
  it.each<[string, unknown[], string]>([
    ["insert", ["a", { quota: 1, ttlMs: 1, ttl: 5 }], "ttl"],
    ["increment", ["a", { ttlMs: 1, amount: 5 }], "amount"],
    ["increase", ["a", 1, { ttlMs: 5 }], "ttlMs"],
    ["query", ["a", { timeout: 5 }], "timeout"],
    ["set", ["a", "x", { ttlMs: 1, ex: 5 }], "ex"],
    ["compareAndSet", ["a", { expected: null, value: null, if: 1 }], "if"],
    ["acquire", ["a", { maximum: 1, ttlMs: 1, max: 1 }], "max"],
    ["renew", ["a", "id", { ttlMs: 1, ms: 1 }], "ms"],
    ["list", [{ count: 5 }], "count"],
    ["limit", [{ name: "api", key: "a", strategy, costs: 2 }], "costs"],
    ["limitMany", [[{ name: "api", key: "a", strategy, costs: 2 }]], "costs"],
    ["limit", [{ name: "api", key: "a", strategy }, { timeout: 5 }], "timeout"],
    ["semaphore", ["a", 1, { waitMs: 5 }], "waitMs"],
    ["subscribe", ["a", { reconnect: true }], "reconnect"],
  ])(
    "an unknown option of %s%j is refused by its name, and nothing is sent",
    async (name, args, option) => {
      const { server, client } = start();
      const message = await messageOf(() => loose(client)[name]!(...args));
      expect(message).toMatch(new RegExp(`^option_invalid: ${option}: .+ has no such option`));
      expect(server.requests).toHaveLength(0);
    },
  );

  it.each<[string, () => unknown, RegExp]>([
    [
      "a client",
      () => new ThrottrClient(http(URL), { timeout: 5 } as object),
      /^option_invalid: timeout: ThrottrClient has no such option; its options are timeoutMs, /,
    ],
    [
      "http()",
      () => http(URL, { tokens: "a" } as object),
      /^option_invalid: tokens: http has no such option; its options are token, WebSocket, fetch/,
    ],
    [
      "webSocket()",
      () => webSocket(URL, { fetch } as object),
      /^option_invalid: fetch: webSocket has no such option/,
    ],
    [
      "a wait for a semaphore",
      () =>
        start()
          .client.semaphore("a", 1)
          .acquire({ timeoutMs: 5 } as object),
      /^option_invalid: timeoutMs: acquire has no such option; its options are resources, ttlMs, waitMs, sig/,
    ],
  ])("an unknown option of %s is refused by its name", async (_, make, expected) => {
    expect(await messageOf(make)).toMatch(expected);
  });

  it("a clock that can't set timers is refused by a client", async () => {
    const make = () => new ThrottrClient(http(URL), { clock: { nowMs: () => 0 } as never });
    expect(await messageOf(make)).toBe(
      "option_invalid: clock: expected an object with nowMs, setTimer and clearTimer, got an object",
    );
  });

  it("a signal of null is none, as for fetch", async () => {
    const { server, client } = start();
    await client.set("a", "x", { ttlMs: 1, signal: null as never });
    expect(server.requests).toHaveLength(1);
  });

  it("a controller in place of its signal is refused by its name, and nothing is sent", async () => {
    const { server, client } = start();
    const signal = new AbortController() as never;
    const limiter = new RateLimiter({ throttr: client, name: "api", strategy, onError: "open" });
    const calls: (() => unknown)[] = [
      () => client.query("a", { signal }),
      () => client.batch([["get", "a"]], { signal }),
      () => client.limitMany([{ name: "api", key: "a", strategy }], { signal }),
      () => client.subscribe("a", { signal }),
      () => client.semaphore("a", 1).acquire({ signal }),
      () => limiter.limit("a", { signal }),
      () => limiter.limitMany(["a"], { signal }),
      () => limiter.reset("a", { signal }),
      () => limiter.blockUntilReady("a", 5, { signal }),
      () => limitAll(client, [{ limiter, key: "a" }], { signal }),
    ];
    for (const call of calls) {
      expect(await messageOf(call)).toBe(
        "option_invalid: signal: expected an AbortSignal, got an object",
      );
    }
    expect(server.requests).toHaveLength(0);
  });

  it("a wait takes a signal of null for none", async () => {
    await pause(1, systemClock, [null, undefined]);
  });

  it("options that every call has are accepted by all calls", async () => {
    const { client } = start();
    const { signal } = new AbortController();
    const always = { signal, timeoutMs: 1000 };
    await client.increment("a", { ttlMs: 1, by: 2, idempotencyKey: "x", ...always });
    await client.set("a", "x", { ttlMs: 1, ...always });
    await client.purge("a", { idempotencyKey: "x", ...always });
  });
});

describe("missing transports", () => {
  it.each<[string, () => unknown, RegExp]>([
    [
      "is refused",
      () => new ThrottrClient(undefined as never),
      /^argument_invalid: transport: expected an object with connect, as http\(\)/,
    ],
    [
      "is a limiter",
      () => new ThrottrClient({ limit: () => {} } as never),
      /^argument_invalid: transport: expected an object with connect, .* make it, got an object$/,
    ],
    [
      "has no binding: the message names it",
      () => serviceBinding(undefined as never),
      /^argument_invalid: binding: expected a service binding, got undefined/,
    ],
  ])("a client without its transport is refused: %s", async (_, make, expected) => {
    expect(await messageOf(make)).toMatch(expected);
  });
});

describe("options of transports", () => {
  it.each<[string, () => unknown, string]>([
    ["token", () => http(URL, { token: 5 as never }), "text, or a function that returns it, got 5"],
    [
      "token",
      () => webSocket(URL, { token: {} as never }),
      "text, or a function that returns it, got",
    ],
    ["fetch", () => http(URL, { fetch: "fetch" as never }), 'a function, got "fetch"'],
    ["WebSocket", () => webSocket(URL, { WebSocket: {} as never }), "the class, got an object"],
  ])("a wrong %s is refused when the transport is made", async (option, make, expected) => {
    expect(await messageOf(make)).toContain(`option_invalid: ${option}: expected ${expected}`);
  });
});

describe("the server of an adapter", () => {
  it.each<[string, (throttr: never) => unknown]>([
    ["express-rate-limit", (throttr) => new ExpressStore({ throttr })],
    ["hono-rate-limiter", (throttr) => new ThrottrStore({ throttr })],
    ["keyv", (throttr) => new KeyvThrottr({ throttr })],
    ["nestjs", (throttr) => new ThrottrStorage({ throttr })],
    ["unstorage", (throttr) => throttrDriver({ throttr })],
    ["better-auth", (throttr) => secondaryStorage({ throttr })],
    [
      "rate-limiter-flexible",
      (storeClient) => new RateLimiterThrottr({ storeClient, points: 1, duration: 1 }),
    ],
  ])("a transport or an address in place of the server of %s is refused", async (_, make) => {
    for (const wrong of [http(URL), URL]) {
      expect(await messageOf(() => make(wrong as never))).toMatch(
        /^configuration_invalid: (throttr|storeClient): expected a client or a service binding, got /,
      );
    }
    expect(await messageOf(() => make(start().client as never))).toBe("none");
  });
});

describe("limiter options", () => {
  const throttr = start().client;
  const options: RateLimiterOptions = { throttr, name: "api", strategy };

  it.each<[string, () => unknown, string]>([
    [
      "RateLimiter",
      () => new RateLimiter(undefined as never),
      "options: expected an object with throttr, n",
    ],
    [
      "RateLimiter",
      () => new RateLimiter({ ...options, onerror: "open" } as never),
      "onerror: unknown option: expected on",
    ],
    [
      "RateLimiter",
      () => new RateLimiter({ ...options, throttr: http(URL) as never, onError: "open" }),
      "throttr: expected a client or a service binding, got an object",
    ],
    [
      "RateLimiter",
      () => new RateLimiter({ ...options, shadow: "yes" } as never),
      "shadow: expected true",
    ],
    [
      "RateLimiter",
      () => new RateLimiter({ ...options, durability: "eventual" } as never),
      'durability: expected one of strict, relaxed, got "eventual"',
    ],
    [
      "RefusalCache",
      () => new RefusalCache({ max: 5 } as object),
      "max: unknown option: expected one of entriesMax",
    ],
    [
      "tokenBucket",
      () => loose({ tokenBucket }).tokenBucket!(),
      "options: expected an object with burst, r",
    ],
    [
      "tokenBucket",
      () => tokenBucket({ burst: 1, rate: 1, per: 1 } as never),
      'per: unknown option: expected one of burst, rate, got "per"',
    ],
    [
      "leakyBucket",
      () => loose({ leakyBucket }).leakyBucket!(),
      "options: expected an object with burst, r",
    ],
    ["gcra", () => loose({ gcra }).gcra!(null), "options: expected an object with burst, rate, "],
    [
      "fixedWindow",
      () => loose({ fixedWindow }).fixedWindow!(),
      "options: expected an object with limit, w",
    ],
    [
      "fixedWindow",
      () => fixedWindow([null] as never),
      "quotas[0]: expected an object with name, limit, wi",
    ],
    [
      "fixedWindow",
      () => fixedWindow([{ name: "a", limit: 1, window: "1 s", per: 1 }] as never),
      'quotas[0].per: unknown option: expected one of name, limit, window, windowMs, got "per"',
    ],
    [
      "slidingWindow",
      () => loose({ slidingWindow }).slidingWindow!(),
      "options: expected an object with li",
    ],
    [
      "composite",
      () => loose({ composite }).composite!(),
      "options: expected an object with primary, secon",
    ],
    [
      "rateLimit",
      () => loose({ rateLimit }).rateLimit!(),
      "options: expected an object with limiter, key, ",
    ],
    [
      "rateLimit",
      () =>
        new Hono().use(
          rateLimit({ limiter: new RateLimiter(options), key: () => "a", max: 5 } as never),
        ),
      "max: unknown option: expected one of limiter, key, ",
    ],
    [
      "ThrottrStore",
      () => new ThrottrStore({ throttr, prefx: "a" } as never),
      "prefx: unknown option: expected one of throt",
    ],
    [
      "ThrottrStore",
      () => new ThrottrStore({ throttr, prefx: "a" } as never),
      "prefx: unknown option: expected one of throt",
    ],
  ])("limiter options are refused by %s with their name", async (_, make, expected) => {
    expect(await messageOf(make)).toContain(`configuration_invalid: ${expected}`);
  });

  it.each<[string, unknown[], string]>([
    [
      "limit",
      ["a", { costs: 2 }],
      "option_invalid: costs: limit has no such option; its options are cost, sig",
    ],
    ["limit", ["a", 2], "argument_invalid: limit: expected an object"],
    [
      "peek",
      ["a", { cost: 2 }],
      "option_invalid: cost: peek has no such option; its options are signal",
    ],
    ["refund", ["a", { amount: 2 }], "option_invalid: amount: refund has no such option"],
    ["limitMany", ["a"], 'argument_invalid: keys: expected a list, got "a"'],
    ["limitMany", [[{ key: "a", weight: 2 }]], "option_invalid: weight: a key has no such option"],
    [
      "blockUntilReady",
      ["a", 5, { costs: 2 }],
      "option_invalid: costs: blockUntilReady has no such option",
    ],
  ])(
    "limiter options are refused by the call %s%j with their name",
    async (name, args, expected) => {
      const { server, client } = start();
      const limiter = loose(new RateLimiter({ ...options, throttr: client, onError: "open" }));
      expect(await messageOf(() => limiter[name]!(...args))).toContain(expected);
      expect(server.requests).toHaveLength(0);
    },
  );
});
