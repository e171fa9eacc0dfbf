/** Reservations through every door, with real shards. */
import { abortAllDurableObjects, evictAllDurableObjects, reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import type { LimitBackend } from "../../src/ratelimit/backend.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { composite, fixedWindow, tokenBucket } from "../../src/ratelimit/strategies.ts";
import type { ReserveResult } from "../../src/wire/edge/operations.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { closeClients, open, TRANSPORTS } from "../support/pool/transports.ts";
import { calling } from "../support/pool/v1-calls.ts";

const binding = exports.Throttr as unknown as Service<typeof Throttr>;
const strategy = { strategy: "token_bucket", burst: 1000, rate: 0.001 } as const;

/** What limiters ask: a client over each transport, and the binding itself. */
const BACKENDS: readonly (readonly [string, () => LimitBackend])[] = [
  ...Object.entries(TRANSPORTS).map(
    ([name, transportOf]) => [`a client over ${name}`, () => open(transportOf())] as const,
  ),
  ["the methods of a service binding", () => binding],
];

afterEach(async () => {
  await closeClients();
  await reset();
});

describe.each(BACKENDS)("%s", (_, backendOf) => {
  const limiterOf = (throttr: LimitBackend): RateLimiter =>
    new RateLimiter({
      throttr,
      name: "tokens",
      strategy: composite({
        primary: fixedWindow({ limit: 1000, window: "1 d" }),
        secondary: tokenBucket({ burst: 2000, rate: 0.001 }),
      }),
    });

  it("a reservation is charged, settled by its id, and released", async () => {
    const limiter = limiterOf(backendOf());
    const held = await limiter.reserve("203.0.113.7", { cost: 800, ttlMs: 60_000 });
    expect(held).toMatchObject({ success: true, remaining: 200 });
    expect(await limiter.reserve("203.0.113.7", { cost: 201 })).toMatchObject({
      success: false,
      id: null,
    });
    const elsewhere = limiterOf(binding);
    expect(await elsewhere.settle(held.id!, 523)).toMatchObject({ remaining: 477, settled: 523 });
    expect(await held.settle(1)).toMatchObject({ remaining: 477, settled: 523 });
    const other = await limiter.reserve("203.0.113.7", { cost: 400 });
    expect(await other.release()).toMatchObject({ remaining: 477, settled: 0 });
  });

  it("a reservation outlives the object that made it", async () => {
    const limiter = limiterOf(backendOf());
    const held = await limiter.reserve("ada", { cost: 800 });
    await limiter.limit("ada", { cost: 100 });
    await evictAllDurableObjects();
    expect(await held.settle(523)).toMatchObject({ remaining: 377, settled: 523 });
    await abortAllDurableObjects();
    const fresh = limiterOf(backendOf());
    expect(await fresh.settle(held.id!, 7)).toMatchObject({ remaining: 377, settled: 523 });
  });
});

describe("a reservation under /v1", () => {
  it("a settlement of an unknown reservation is a problem, and a repeated one is not", async () => {
    const call = calling(await bearerOf({ ns: "reservations" }));
    const path = "/v1/limits/tokens/ada";
    const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
    const settlement = { strategy, id, cost: 900 };
    const unknown = await call("POST", `${path}/settle`, { json: settlement });
    expect(unknown).toMatchObject({ status: 410, json: { code: "reservation_ended" } });
    for (let i = 0; i < 2; i++) {
      const { json } = await call("POST", `${path}/reserve`, { json: { strategy, cost: 800, id } });
      expect(json).toMatchObject({ success: true, remaining: 200, id });
    }
    const other = await call("POST", `${path}/reserve`, { json: { strategy, cost: 801, id } });
    expect(other).toMatchObject({ status: 409, json: { code: "reservation_conflict" } });
    for (let i = 0; i < 2; i++) {
      const { json } = await call("POST", `${path}/settle`, { json: settlement });
      expect(json).toMatchObject({ remaining: 100, settled: 900 });
    }
  });
});

describe("a batch of a service binding", () => {
  it("a reservation in a batch gets an id of its own, and can be settled in the next one", async () => {
    const limit = { name: "tokens", key: "ada", strategy };
    const made = await binding.batch([
      ["reserve", { ...limit, cost: 300 }],
      ["reserve", { ...limit, cost: 300 }],
    ]);
    const [first, second] = made as unknown as { value: ReserveResult }[];
    expect(first!.value.id).not.toBe(second!.value.id);
    const id = second!.value.id!;
    const [settled] = await binding.batch([["settle", { ...limit, id, cost: 0 }]]);
    expect(settled).toMatchObject({ ok: true, value: { remaining: 700, settled: 0 } });
  });

  it("a removal of everything takes reservations along", async () => {
    const limit = { name: "tokens", key: "ada", strategy };
    const { id } = await binding.reserve({ ...limit, cost: 300 });
    expect(await binding.removeAll("")).toBe(1);
    const refusal = await refusalOf(binding.settle({ ...limit, id: id!, cost: 0 }));
    expect(refusal).toContain("reservation_ended");
  });
});
