/** Adapters over a service binding, and with the server in the same Worker: each decision is one call, and exact. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { rateLimitStorage, secondaryStorage } from "../../src/adapters/better-auth/index.ts";
import { ThrottrStore } from "../../src/adapters/express-rate-limit/index.ts";
import { guard } from "../../src/adapters/fetch/index.ts";
import { RateLimiterThrottr } from "../../src/adapters/rate-limiter-flexible/index.ts";
import { throttr as throttrOfWorker } from "../../src/embedded/index.ts";
import { RateLimiter, tokenBucket } from "../../src/ratelimit/index.ts";
import type { ThrottrService } from "../../src/wire/edge/service.ts";

type Calls = Record<string, (...given: unknown[]) => unknown>;

/** Names of the calls that were made. */
let calls: string[];

/** A server that notes the calls to it. */
function noted(server: object): ThrottrService {
  const get = (_: object, name: string) => {
    return (...given: unknown[]) => {
      calls.push(name);
      return (server as Calls)[name]!(...given);
    };
  };
  return new Proxy({}, { get }) as ThrottrService;
}

beforeEach(() => {
  calls = [];
});

afterEach(async () => {
  await reset();
});

const times = <Result>(count: number, run: () => Promise<Result>): Promise<Result[]> =>
  Promise.all(Array.from({ length: count }, run));

describe.each([
  ["over a service binding", noted(exports.Throttr)],
  ["in the Worker of the server", noted(throttrOfWorker())],
])("%s", (_, throttr) => {
  it("guard asks once, and refuses exactly", async () => {
    const strategy = tokenBucket({ burst: 3, rate: 0.001 });
    const limiter = new RateLimiter({ throttr, name: "api", strategy });
    const request = new Request("https://app.example/");
    const guarded = await times(8, () => guard(request, { limiter, key: "ada" }));
    const statuses = guarded.map(({ response }) => response?.status ?? 200);
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 429)).toHaveLength(5);
    expect(calls).toEqual(Array.from({ length: 8 }, () => "limit"));
  });

  it("the storages of better-auth decide, count and take exactly", async () => {
    const limits = rateLimitStorage({ throttr });
    const decisions = await times(8, () => limits.consume("a|/sign-in", { window: 60, max: 3 }));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3);
    expect(calls).toEqual(Array.from({ length: 8 }, () => "limit"));
    calls = [];
    const storage = secondaryStorage({ throttr });
    const counts = await times(5, () => storage.increment("c", 60));
    expect(counts.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5]);
    await storage.set("otp", "123456", 60);
    expect(await storage.get("otp")).toBe("123456");
    expect(calls).toEqual([...Array.from({ length: 5 }, () => "increment"), "set", "get"]);
    calls = [];
    const taken = await times(6, () => storage.getAndDelete("otp"));
    expect(taken.filter((value) => value !== null)).toEqual(["123456"]);
    expect(calls).toEqual(Array.from({ length: 6 }, () => "batch"));
    expect(await storage.get("c")).toBe("5");
    await expect(storage.set("c", "text", 60)).rejects.toMatchObject({ code: "kind_mismatch" });
  });

  it("the store of express-rate-limit counts exactly, and resets", async () => {
    const store = new ThrottrStore({ throttr });
    store.init({ windowMs: 60_000 });
    const hits = await times(9, () => store.increment("ada"));
    const counts = hits.map(({ totalHits }) => totalHits).toSorted((a, b) => a - b);
    expect(counts).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(calls).toEqual(Array.from({ length: 9 }, () => "batch"));
    await store.decrement("ada");
    const { totalHits, resetTime } = (await store.get("ada"))!;
    expect(totalHits).toBe(8);
    expect(resetTime.getTime()).toBeGreaterThan(Date.now() + 50_000);
    await store.resetAll();
    expect(await store.get("ada")).toBeUndefined();
    await throttr.set("erl:ada", "text", { ttlMs: 60_000 });
    await expect(store.increment("ada")).rejects.toMatchObject({ code: "kind_mismatch" });
  });

  it("the limiter of rate-limiter-flexible grants exactly, and blocks", async () => {
    const limiter = new RateLimiterThrottr({
      storeClient: throttr,
      points: 4,
      duration: 60,
      blockDuration: 600,
    });
    const settled = await Promise.allSettled(
      Array.from({ length: 10 }, () => limiter.consume("ada")),
    );
    expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
    // The one that blocks the key makes the eleventh call.
    expect(calls).toEqual(Array.from({ length: 11 }, () => "batch"));
    const blocked = (await limiter.get("ada"))!;
    expect(blocked.msBeforeNext).toBeGreaterThan(500_000);
    expect(await limiter.delete("ada")).toBe(true);
    expect((await limiter.reward("ada", 2)).remainingPoints).toBe(6);
  });
});
