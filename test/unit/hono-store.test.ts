/** The store for hono-rate-limiter: its interface, its counts, and the middleware on top of it. */
import { Hono } from "hono";
import { rateLimiter, type Store } from "hono-rate-limiter";
import { beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import { ThrottrStore, type CounterBackend } from "../../src/hono/index.ts";
import { RateLimitError, ThrottrError } from "../../src/ratelimit/index.ts";
import type {
  CounterChange,
  CounterRecord,
  IncrementOptions,
} from "../../src/wire/edge/operations.ts";
import { FakeClock } from "../support/rate-limits/backend.ts";

const WINDOW_MS = 60_000;
/** The server's clock is so far ahead of ours. */
const SKEW_MS = 3_600_000;

interface Counter {
  quota: bigint;
  readonly untilMs: number;
}

/** Counters with a TTL, as the server has them. */
class FakeCounters implements CounterBackend {
  readonly records = new Map<string, Counter>();
  /** Methods called so far. */
  readonly calls: string[] = [];
  failure: Error | null = null;
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  async increment(key: string, { ttlMs, by = 1 }: IncrementOptions): Promise<bigint> {
    const counter = this.#find("increment", key) ?? {
      quota: 0n,
      untilMs: this.#clock.nowMs() + ttlMs,
    };
    this.records.set(key, counter);
    counter.quota += BigInt(by);
    return counter.quota;
  }

  async increase(key: string, amount: number): Promise<CounterChange | null> {
    return this.#change("increase", key, BigInt(amount));
  }

  async decrease(key: string, amount: number): Promise<CounterChange | null> {
    return this.#change("decrease", key, -BigInt(amount));
  }

  async query(key: string): Promise<CounterRecord | null> {
    const counter = this.#find("query", key);
    return counter === null ? null : this.#recordOf(counter);
  }

  async purge(key: string): Promise<boolean> {
    return this.#find("purge", key) !== null && this.records.delete(key);
  }

  async removeAll(prefix: string): Promise<number> {
    this.calls.push("removeAll");
    const keys = [...this.records.keys()].filter((key) => key.startsWith(prefix));
    for (const key of keys) this.records.delete(key);
    return keys.length;
  }

  #change(method: string, key: string, by: bigint): CounterChange | null {
    const counter = this.#find(method, key);
    if (counter === null) return null;
    const applied = counter.quota + by >= 0n;
    if (applied) counter.quota += by;
    return { applied, ...this.#recordOf(counter) };
  }

  #find(method: string, key: string): Counter | null {
    this.calls.push(method);
    if (this.failure !== null) throw this.failure;
    const counter = this.records.get(key);
    return counter !== undefined && counter.untilMs > this.#clock.nowMs() ? counter : null;
  }

  #recordOf({ quota, untilMs }: Counter): CounterRecord {
    return { quota, ttlMs: untilMs - this.#clock.nowMs(), expiresAtMs: untilMs + SKEW_MS };
  }
}

let clock: FakeClock;
let throttr: FakeCounters;
let store: ThrottrStore;

beforeEach(() => {
  clock = new FakeClock();
  throttr = new FakeCounters(clock);
  store = new ThrottrStore({ throttr, clock });
  store.init({ windowMs: WINDOW_MS });
});

describe("the interface", () => {
  it("the store implements the interface of hono-rate-limiter", () => {
    expectTypeOf<ThrottrStore>().toExtend<Store>();
    expectTypeOf<ThrottrStore>().toExtend<Required<Omit<Store, "shutdown">>>();
    expectTypeOf<Omit<ThrottrStore, "decrement">>().not.toExtend<Store>();
    expect(store.localKeys).toBe(false);
    expect(store.prefix).toBe("hrl:");
  });
});

describe("a store", () => {
  it("a store counts, and reports the end of its window by our clock", async () => {
    const resetTime = new Date(clock.nowMs() + WINDOW_MS);
    expect(await store.get("ada")).toBeUndefined();
    expect(await store.increment("ada")).toEqual({ totalHits: 1, resetTime });
    expect(throttr.calls).toEqual(["query", "increase", "increment"]);
    clock.timeMs += 10_000;
    expect(await store.increment("ada")).toEqual({ totalHits: 2, resetTime });
    expect(throttr.calls.slice(3)).toEqual(["increase"]);
    expect(await store.get("ada")).toEqual({ totalHits: 2, resetTime });
    expect(await store.increment("bob")).toMatchObject({ totalHits: 1 });
    clock.timeMs += WINDOW_MS - 10_000;
    expect(await store.get("ada")).toBeUndefined();
    expect(await store.increment("ada")).toMatchObject({ totalHits: 1 });
  });

  it("a store gives back, but not below 0 and not to an ended window", async () => {
    await store.decrement("ada");
    expect(throttr.records.size).toBe(0);
    const { resetTime } = await store.increment("ada");
    clock.timeMs += 1_000;
    await store.decrement("ada");
    await store.decrement("ada");
    expect(await store.get("ada")).toEqual({ totalHits: 0, resetTime });
    expect(await store.increment("ada")).toEqual({ totalHits: 1, resetTime });
  });

  it("a store forgets one client, or all of its prefix", async () => {
    const other = new ThrottrStore({ throttr, clock, prefix: "other:" });
    other.init({ windowMs: 100.5 });
    for (const key of ["ada", "bob"]) await store.increment(key);
    await other.increment("ada");
    await store.resetKey("ada");
    expect([...throttr.records.keys()]).toEqual(["hrl:bob", "other:ada"]);
    await store.resetAll();
    expect([...throttr.records.keys()]).toEqual(["other:ada"]);
    expect(await other.get("ada")).toEqual({
      totalHits: 1,
      resetTime: new Date(clock.nowMs() + 101),
    });
  });

  it("a store accepts any key, the empty one included", async () => {
    const keys = ["", "/a b", "x".repeat(1_000), "x".repeat(1_001), ".", "hrl:"];
    for (const key of keys) expect(await store.increment(key)).toMatchObject({ totalHits: 1 });
    expect(throttr.records.size).toBe(keys.length);
    expect([...throttr.records.keys()].slice(0, 2)).toEqual(["hrl:", "hrl:.+2Fa+20b"]);
    for (const key of throttr.records.keys()) expect(key.length).toBeLessThanOrEqual(68);
  });

  it("a store fails with errors that have a code", async () => {
    throttr.failure = new Error("kind_mismatch: the record under the key is a buffer");
    for (const method of ["increment", "decrement", "get", "resetKey"] as const) {
      const error: unknown = await store[method]("ada").catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ThrottrError);
      expect(error).toMatchObject({ code: "kind_mismatch" });
    }
  });

  it("a store needs a window and a prefix", async () => {
    const fresh = new ThrottrStore({ throttr });
    await expect(fresh.increment("ada")).rejects.toThrow(/^configuration_invalid: windowMs: /);
    for (const prefix of ["", "x".repeat(129), "é".repeat(65)]) {
      expect(() => new ThrottrStore({ throttr, prefix })).toThrow(RateLimitError);
    }
  });
});

describe("hono-rate-limiter", () => {
  it("hono-rate-limiter limits with the store", async () => {
    const app = new Hono();
    app.use(
      rateLimiter({
        windowMs: WINDOW_MS,
        limit: 2,
        standardHeaders: "draft-7",
        skipFailedRequests: true,
        keyGenerator: (c) => c.req.header("user") ?? "",
        store: new ThrottrStore({ throttr }),
      }),
    );
    app.get("/:status", (c) => c.text("ok", Number(c.req.param("status")) as 200));
    clock.timeMs = Date.now();
    const statuses: number[] = [];
    for (const path of ["/200", "/500", "/200", "/200"]) {
      statuses.push((await app.request(path, { headers: { user: "ada" } })).status);
    }
    expect(statuses).toEqual([200, 500, 200, 429]);
    const response = await app.request("/200");
    expect(response.status).toBe(200);
    expect(response.headers.get("ratelimit-policy")).toBe("2;w=60");
    expect(response.headers.get("ratelimit")).toMatch(/^limit=2, remaining=1, reset=\d+$/);
  });
});
