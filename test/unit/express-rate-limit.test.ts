/** The store of express-rate-limit: its interface, its counts, and a real application of Express on top of it. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express, { type Express } from "express";
import { rateLimit, type Options, type Store } from "express-rate-limit";
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import { ThrottrStore, type CounterBackend } from "../../src/adapters/express-rate-limit/index.ts";
import type { ThrottrService } from "../../src/client/index.ts";
import { RateLimitError, ThrottrError } from "../../src/ratelimit/index.ts";
import { EngineServer } from "../support/client/engine-client.ts";
import { FakeClock } from "../support/rate-limits/backend.ts";

const WINDOW_MS = 60_000;
/** The server's clock is so far ahead of ours. */
const SKEW_MS = 3_600_000;

let clock: FakeClock;
let server: EngineServer;
let store: ThrottrStore;

beforeEach(() => {
  clock = new FakeClock();
  server = new EngineServer(clock.nowMs() + SKEW_MS);
  store = new ThrottrStore({ throttr: server.client, clock });
  store.init({ windowMs: WINDOW_MS });
});

/** Lets time pass, for us and the server. */
function advance(byMs: number): void {
  clock.timeMs += byMs;
  server.advance(byMs);
}

async function keys(): Promise<string[]> {
  const { records } = await server.client.exportPage();
  return records.map(({ key }) => new TextDecoder().decode(key as unknown as Uint8Array));
}

describe("the interface", () => {
  it("the store implements the interface of express-rate-limit", () => {
    expectTypeOf<ThrottrStore>().toExtend<Store>();
    expectTypeOf<ThrottrStore>().toExtend<Required<Omit<Store, "shutdown">>>();
    expectTypeOf<Omit<ThrottrStore, "decrement">>().not.toExtend<Store>();
    expectTypeOf<ThrottrService>().toExtend<CounterBackend>();
    expect(store.localKeys).toBe(false);
    expect(store.prefix).toBe("erl:");
  });
});

describe("a store", () => {
  it("a store counts in one call, and reports the end of its window by our clock", async () => {
    const resetTime = new Date(clock.nowMs() + WINDOW_MS);
    expect(await store.get("ada")).toBeUndefined();
    const messages = await server.messagesOf(async () => {
      expect(await store.increment("ada")).toEqual({ totalHits: 1, resetTime });
    });
    expect(messages).toBe(1);
    advance(10_000);
    expect(await store.increment("ada")).toEqual({ totalHits: 2, resetTime });
    expect(await store.get("ada")).toEqual({ totalHits: 2, resetTime });
    expect(await store.increment("bob")).toMatchObject({ totalHits: 1 });
    advance(WINDOW_MS - 10_000);
    expect(await store.get("ada")).toBeUndefined();
    expect(await store.increment("ada")).toMatchObject({ totalHits: 1 });
  });

  it("a window without an end lasts a hundred years", async () => {
    const endless = new ThrottrStore({ throttr: server.client, prefix: "endless:" });
    endless.init({ windowMs: Infinity });
    await endless.increment("ada");
    server.advance(99 * 365 * 86_400_000);
    expect(await endless.increment("ada")).toMatchObject({ totalHits: 2 });
  });

  it("a store counts concurrent requests exactly", async () => {
    const hits = await Promise.all(Array.from({ length: 50 }, () => store.increment("ada")));
    const counts = hits.map(({ totalHits }) => totalHits).toSorted((a, b) => a - b);
    expect(counts).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  });

  it("a store gives back, but not below 0 and not to an ended window", async () => {
    await store.decrement("ada");
    expect(await keys()).toEqual([]);
    const { resetTime } = await store.increment("ada");
    advance(1_000);
    await store.decrement("ada");
    await store.decrement("ada");
    expect(await store.get("ada")).toEqual({ totalHits: 0, resetTime });
    expect(await store.increment("ada")).toEqual({ totalHits: 1, resetTime });
  });

  it("a store forgets one client, or all of its prefix", async () => {
    const other = new ThrottrStore({ throttr: server.client, clock, prefix: "other:" });
    other.init({ windowMs: 100.5 });
    for (const key of ["ada", "bob"]) await store.increment(key);
    await other.increment("ada");
    await store.resetKey("ada");
    expect(await keys()).toEqual(["erl:bob", "other:ada"]);
    await store.resetAll();
    expect(await keys()).toEqual(["other:ada"]);
    const resetTime = new Date(clock.nowMs() + 101);
    expect(await other.get("ada")).toEqual({ totalHits: 1, resetTime });
  });

  it("a store accepts any key, the empty one included", async () => {
    const all = ["", "/a b", "x".repeat(1_000), "x".repeat(1_001), ".", "erl:"];
    for (const key of all) expect(await store.increment(key)).toMatchObject({ totalHits: 1 });
    const records = await keys();
    expect(records).toHaveLength(all.length);
    expect(records).toContain("erl:");
    expect(records).toContain("erl:.+2Fa+20b");
    for (const key of records) expect(key.length).toBeLessThanOrEqual(68);
  });

  it("a store fails with errors that have a code", async () => {
    await server.client.set("erl:ada", "text", { ttlMs: WINDOW_MS });
    for (const method of ["increment", "decrement", "get"] as const) {
      const error: unknown = await store[method]("ada").catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ThrottrError);
      expect(error).toMatchObject({ code: "kind_mismatch" });
    }
    server.fate = "lost";
    await expect(store.increment("ada")).rejects.toMatchObject({ code: "outcome_unknown" });
    await expect(store.resetKey("ada")).rejects.toMatchObject({ code: "outcome_unknown" });
    await expect(store.resetAll()).rejects.toMatchObject({ code: "outcome_unknown" });
  });

  it("a store fails with timeout where the server does not answer", async () => {
    const throttr = { batch: () => new Promise<never>(() => {}) } as never;
    const hanging = new ThrottrStore({ throttr, clock, timeoutMs: 250 });
    hanging.init({ windowMs: WINDOW_MS });
    const caught = hanging.increment("ada").catch((error: unknown) => error);
    await clock.advance(250);
    expect(await caught).toMatchObject({ code: "timeout" });
  });

  it("a store needs a window, a server and a prefix", async () => {
    const throttr = server.client;
    const fresh = new ThrottrStore({ throttr });
    for (const windowMs of [undefined, NaN, 0]) {
      expect(() => fresh.init({ windowMs: windowMs! })).toThrow(
        `configuration_invalid: windowMs: expected milliseconds above 0, got ${windowMs}`,
      );
    }
    await expect(fresh.increment("ada")).rejects.toThrow(/^configuration_invalid: windowMs: /);
    expect(() => new ThrottrStore({} as never)).toThrow(/^configuration_invalid: throttr: /);
    for (const prefix of ["", "x".repeat(129), "é".repeat(65)]) {
      expect(() => new ThrottrStore({ throttr, prefix })).toThrow(RateLimitError);
    }
  });
});

describe("express-rate-limit", () => {
  let close: () => void = () => {};

  afterEach(() => {
    close();
    vi.restoreAllMocks();
  });

  /** Starts an application of one limited path, which answers with its status code. */
  async function start(options: Partial<Options> = {}): Promise<string> {
    vi.spyOn(Date, "now").mockImplementation(() => clock.nowMs());
    const app: Express = express();
    app.use(
      rateLimit({
        windowMs: WINDOW_MS,
        limit: 3,
        standardHeaders: "draft-8",
        legacyHeaders: false,
        keyGenerator: (request) => String(request.headers.user),
        store,
        ...options,
      }),
    );
    app.get("/:status", (request, response) => {
      response.status(Number(request.params.status)).send("ok");
    });
    app.use(((error: Error, _request, response, _next) => {
      response.status(503).send(error.message);
    }) satisfies express.ErrorRequestHandler);
    const listener = app.listen(0, "127.0.0.1");
    await once(listener, "listening");
    close = () => listener.close();
    return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  }

  async function ask(url: string, status = 200, user = "ada"): Promise<Response> {
    return await fetch(`${url}/${status}`, { headers: { user, connection: "close" } });
  }

  it("an application of Express limits exactly, however many requests come at once", async () => {
    const url = await start();
    const responses = await Promise.all(Array.from({ length: 12 }, () => ask(url)));
    const allowed = responses.filter(({ status }) => status === 200);
    expect(allowed).toHaveLength(3);
    const refused = responses.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(9);
    expect(refused[0]!.headers.get("ratelimit")).toMatch(/r=0; t=60$/);
    expect(refused[0]!.headers.get("retry-after")).toBe("60");
    expect((await ask(url, 200, "bob")).status).toBe(200);
    advance(WINDOW_MS);
    expect((await ask(url)).status).toBe(200);
  });

  it("an application of Express gives failed requests back, and forgets a client", async () => {
    const handler = rateLimit({
      windowMs: WINDOW_MS,
      store: new ThrottrStore({ throttr: server.client }),
    });
    const url = await start({ skipFailedRequests: true });
    for (let i = 0; i < 5; i++) {
      expect((await ask(url, 500)).status).toBe(500);
      await vi.waitFor(async () => expect((await store.get("ada"))!.totalHits).toBe(0));
    }
    expect((await ask(url)).headers.get("ratelimit")).toMatch(/r=2; t=60$/);
    expect(await handler.getKey("ada")).toMatchObject({ totalHits: 1 });
    handler.resetKey("ada");
    await vi.waitFor(async () => expect(await handler.getKey("ada")).toBeUndefined());
  });

  it("an application of Express fails closed, or open with passOnStoreError", async () => {
    server.fate = "lost";
    const closed = await ask(await start());
    expect(closed.status).toBe(503);
    expect(await closed.text()).toContain("outcome_unknown: ");
    close();
    const error = vi.fn<() => void>();
    const open = await start({ passOnStoreError: true, logger: { error, warn: error } });
    expect((await ask(open)).status).toBe(200);
    const passed = [expect.objectContaining({ code: "outcome_unknown" }), expect.any(String)];
    expect(error.mock.calls).toContainEqual(passed);
  });
});
