/** The store for hono-rate-limiter: that of express-rate-limit, with a prefix of its own, and the middleware on top. */
import { Hono } from "hono";
import { rateLimiter, type Store } from "hono-rate-limiter";
import { beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import { ThrottrStore } from "../../src/hono/index.ts";
import { EngineServer } from "../support/client/engine-client.ts";

const WINDOW_MS = 60_000;

let server: EngineServer;

beforeEach(() => {
  server = new EngineServer(Date.now());
});

describe("the interface", () => {
  it("the store implements the interface of hono-rate-limiter", () => {
    expectTypeOf<ThrottrStore>().toExtend<Store>();
    expectTypeOf<ThrottrStore>().toExtend<Required<Omit<Store, "shutdown">>>();
    expectTypeOf<Omit<ThrottrStore, "decrement">>().not.toExtend<Store>();
    const store = new ThrottrStore({ throttr: server.client });
    expect(store.localKeys).toBe(false);
    expect(store.prefix).toBe("hrl:");
    expect(new ThrottrStore({ throttr: server.client, prefix: "login:" }).prefix).toBe("login:");
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
        store: new ThrottrStore({ throttr: server.client }),
      }),
    );
    app.get("/:status", (c) => c.text("ok", Number(c.req.param("status")) as 200));
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
