/** The client over the real doors: HTTP, WebSocket and service binding. */
import { abortAllDurableObjects, evictAllDurableObjects, reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import {
  http,
  serviceBinding,
  ThrottrClient,
  ThrottrError,
  webSocket,
  type ClientOptions,
  type Fetch,
  type Subscription,
  type Token,
  type Transport,
} from "../../src/client/index.ts";
import { socketClassOver } from "../support/client/door-socket.ts";
import { nowS, tokenOf } from "../support/pool/tokens.ts";

const server = exports.default as unknown as Fetcher;
const entrypoint = exports.Throttr as unknown as Fetcher &
  ((options: { props: object }) => Fetcher);
const URL = "http://localhost";
const HOUR = { ttlMs: 3_600_000 };
const MAX = 2n ** 64n - 1n;
const BUCKET = { strategy: "token_bucket", burst: 3, rate: 0.001 } as const;

const fetch: Fetch = (url, init) => server.fetch(url, init);
const texts: string[] = [];
const WebSocket = socketClassOver(
  (url, init) => server.fetch(url, init),
  (text) => texts.push(text),
);

/** What may be done: all there is unless a token, or its like for a binding, says less. */
interface Rights {
  readonly scopes?: ("read" | "write" | "publish" | "subscribe" | "admin")[];
  readonly keyPrefixes?: string[];
}

const TRANSPORTS: Readonly<Record<string, (token?: Token, rights?: Rights) => Transport>> = {
  HTTP: (token) => http(URL, { fetch, WebSocket, ...(token === undefined ? {} : { token }) }),
  WebSocket: (token) => webSocket(URL, { WebSocket, ...(token === undefined ? {} : { token }) }),
  "service binding": (_, rights) =>
    serviceBinding(
      rights === undefined ? entrypoint : entrypoint({ props: { namespace: "tests", ...rights } }),
    ),
};

const clients: ThrottrClient[] = [];

function open(transport: Transport, options: ClientOptions = {}): ThrottrClient {
  const client = new ThrottrClient(transport, { timeoutMs: 30_000, ...options });
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  texts.length = 0;
  await reset();
});

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => "none",
    (error: ThrottrError) => error.code,
  );
}

async function take(subscription: Subscription, count: number): Promise<string[]> {
  const taken: string[] = [];
  while (taken.length < count) {
    const { value } = await subscription.next();
    if (value === undefined) break;
    taken.push(value.text());
  }
  return taken;
}

describe.each(Object.entries(TRANSPORTS))("over %s", (_, transportOf) => {
  it("the client's calls on counters have their documented results", async () => {
    const client = open(transportOf());
    expect(await client.insert("a", { quota: MAX, ...HOUR })).toBe(true);
    expect(await client.insert("a", { quota: 1, ...HOUR })).toBe(false);
    expect((await client.query("a"))?.quota).toBe(MAX);
    expect(await client.query("b")).toBeNull();
    expect(await client.increment("b", { by: 5, ...HOUR })).toBe(5n);
    expect(await client.increase("b", 2)).toMatchObject({ applied: true, quota: 7n });
    expect(await client.decrease("b", 8n)).toMatchObject({ applied: false, quota: 7n });
    expect(await client.patch("b", 1)).toMatchObject({ applied: true, quota: 1n });
    expect((await client.ttl("b", { ttlMs: 5000 }))?.ttlMs).toBeLessThanOrEqual(5000);
    expect(await client.purge("b")).toBe(true);
    expect(await client.purge("b")).toBe(false);
    expect(await codeOf(client.increment("a", HOUR))).toBe("quota_overflow");
  });

  it("the client's calls on buffers have their documented results", async () => {
    const client = open(transportOf());
    await client.set("a", "text", HOUR);
    expect(new TextDecoder().decode((await client.get("a"))?.value)).toBe("text");
    expect(await codeOf(client.increment("a", HOUR))).toBe("kind_mismatch");
    const swap = { expected: "text", value: new Uint8Array([1, 2]), ...HOUR };
    expect(await client.compareAndSet("a", swap)).toEqual({ applied: true, current: null });
    expect(await client.compareAndSet("a", swap)).toEqual({
      applied: false,
      current: new Uint8Array([1, 2]),
    });
    const large = new Uint8Array(1_000_000).fill(7);
    await client.set("large", large, HOUR);
    expect((await client.get("large"))?.value).toEqual(large);
  });

  it("the client's calls on limits have their documented results", async () => {
    const client = open(transportOf());
    const request = { name: "api", key: "a", strategy: BUCKET };
    expect(await client.peek(request)).toMatchObject({ success: true, remaining: 3 });
    const results = await client.limitMany([request, request, request, request]);
    expect(results.map(({ success }) => success)).toEqual([true, true, true, false]);
    expect((await client.limit(request)).retryAfterMs).toBeGreaterThan(0);
    expect(await client.refund({ ...request, cost: 2 })).toMatchObject({ remaining: 2 });
    expect(await client.reset(request)).toBe(true);
    expect(await client.limit({ ...request, cost: 4 })).toMatchObject({
      success: false,
      reason: "cost_exceeds_limit",
    });
  });

  it("the client lists records page by page, and removes them", async () => {
    const client = open(transportOf());
    const keys = Array.from({ length: 25 }, (_, i) => `user:${String(i).padStart(2, "0")}`);
    await Promise.all(keys.map((key) => client.increment(key, HOUR)));
    const listed: string[] = [];
    let cursor: Uint8Array | null = null;
    do {
      const page: Awaited<ReturnType<ThrottrClient["list"]>> = await client.list({
        prefix: "user:",
        limit: 10,
        ...(cursor === null ? {} : { cursor }),
      });
      listed.push(...page.records.map(({ key }) => new TextDecoder().decode(key)));
      cursor = page.cursor;
    } while (cursor !== null);
    expect(listed).toEqual(keys);
    expect((await client.info()).keys).toBe(25);
    expect(await client.removeAll("user:")).toBe(25);
    expect((await client.list()).records).toEqual([]);
  });

  it("calls of one turn are applied in their order", async () => {
    const client = open(transportOf());
    const counts = Array.from({ length: 2000 }, () => client.increment("a", HOUR));
    expect(await Promise.all(counts)).toEqual(counts.map((_, i) => BigInt(i + 1)));
    const value = new Uint8Array(300_000);
    for (let i = 0; i < 10; i++) void client.set("b", value.fill(i), HOUR);
    expect((await client.get("b"))?.value[0]).toBe(9);
  });

  it("calls of all kinds may be mixed, however often", async () => {
    const client = open(transportOf());
    const calls = Array.from({ length: 600 }, (_, i) => {
      if (i % 3 === 0) return client.increment("a", HOUR);
      return i % 3 === 1 ? client.publish(`channel ${i}`, "x") : client.list({ limit: 1 });
    });
    const results = await Promise.all(calls);
    expect(results[597]).toBe(200n);
    expect(results[598]).toBe(false);
    expect(results[599]).toMatchObject({ cursor: null });
  });

  it("a call that is too large fails alone", async () => {
    const client = open(transportOf());
    const calls = [
      client.increment("a", HOUR),
      client.set("b", new Uint8Array(1_500_000), HOUR),
      client.increment("a", HOUR),
    ];
    expect(await codeOf(calls[1]!)).toBe("frame_too_large");
    expect(await Promise.all([calls[0], calls[2]])).toEqual([1n, 2n]);
  });

  it("one turn gets replies of 40 MB", async () => {
    const client = open(transportOf());
    await client.set("a", new Uint8Array(1_000_000), HOUR);
    const buffers = await Promise.all(Array.from({ length: 40 }, () => client.get("a")));
    expect(buffers.every((buffer) => buffer?.value.length === 1_000_000)).toBe(true);
  });

  it("a call with an idempotency key counts once", async () => {
    const client = open(transportOf());
    const once = { idempotencyKey: "request 1", ...HOUR };
    const counts = [client.increment("a", once), client.increment("a", once)];
    expect(await Promise.all(counts)).toEqual([1n, 1n]);
    expect((await client.query("a"))?.quota).toBe(1n);
  });

  it("subscribers get messages in order until they leave", async () => {
    const client = open(transportOf());
    const news = client.subscribe("news");
    const other = client.subscribe("other");
    await Promise.all([news.ready, other.ready]);
    const published = Array.from({ length: 50 }, (_, i) => `message ${i}`);
    const taken = await Promise.all(published.map((text) => client.publish("news", text)));
    expect(taken.every(Boolean)).toBe(true);
    expect(await take(news, 50)).toEqual(published);
    await client.publish("other", new Uint8Array([0xff]));
    expect((await other.next()).value).toMatchObject({
      channel: "other",
      payload: new Uint8Array([0xff]),
      missed: 0,
    });
    await news.return();
    await expect.poll(() => client.publish("news", "nobody")).toBe(false);
    await other.return();
    const again = client.subscribe("news");
    await again.ready;
    expect(await client.publish("news", "back")).toBe(true);
    expect(await take(again, 1)).toEqual(["back"]);
  });

  it("subscriptions outlive objects that hibernate and objects that die", async () => {
    const client = open(transportOf(), { backoffBaseMs: 1 });
    let reconnects = 0;
    const news = client.subscribe("news", { onReconnect: () => reconnects++ });
    await news.ready;
    await evictAllDurableObjects();
    await client.publish("news", "awake");
    expect(await take(news, 1)).toEqual(["awake"]);
    expect(reconnects).toBe(0);
    await abortAllDurableObjects();
    await expect.poll(() => reconnects).toBe(1);
    await client.publish("news", "alive");
    expect(await take(news, 1)).toEqual(["alive"]);
  });

  it("a subscriber that only listens is not taken for one that does not read", async () => {
    const client = open(transportOf());
    const news = client.subscribe("news", { queueMax: 1000, queueBytesMax: 64 << 20 });
    await news.ready;
    const publisher = open(TRANSPORTS["HTTP"]!());
    const payload = "x".repeat(200_000);
    for (let i = 0; i < 100; i++) await publisher.publish("news", payload);
    expect((await take(news, 100)).every((text) => text === payload)).toBe(true);
  });

  it("calls without the right are refused, and all others pass", async () => {
    const rights: Rights = { scopes: ["read", "write"], keyPrefixes: ["mine:"] };
    const client = open(transportOf(await tokenOf(rights), rights));
    const calls = [
      client.increment("mine:a", HOUR),
      client.increment("a", HOUR),
      client.query("mine:a"),
      client.removeAll("mine:"),
    ];
    const codes = await Promise.all(calls.map((call) => codeOf(call)));
    expect(codes).toEqual(["none", "prefix_missing", "none", "scope_missing"]);
    expect(await codeOf(client.subscribe("news").ready)).toBe("subscribe_refused");
    expect((await client.query("mine:a"))?.quota).toBe(1n);
  });
});

describe("over a WebSocket", () => {
  it("more calls than a server queues for a WebSocket are all answered", async () => {
    const client = open(TRANSPORTS["WebSocket"]!(), { queueMax: 1_000_000 });
    const key = "k".repeat(200);
    const calls = Array.from({ length: 40_000 }, () => client.query(key));
    expect((await Promise.all(calls)).every((counter) => counter === null)).toBe(true);
  });

  it("pings over a WebSocket are answered", async () => {
    const client = open(TRANSPORTS["WebSocket"]!(), { pingIntervalMs: 20 });
    await client.query("a");
    await expect.poll(() => texts.length).toBeGreaterThan(3);
    expect(new Set(texts)).toEqual(new Set(["pong"]));
    expect(await client.query("a")).toBeNull();
  });

  it("an expired token is replaced without calls or subscriptions noticing", async () => {
    let tokens = 0;
    const token = async (): Promise<string> =>
      await tokenOf({ exp: nowS() + (tokens++ === 0 ? 1 : 1000) });
    const isFirst = (): boolean => tokens === 1;
    const client = open(TRANSPORTS["WebSocket"]!(token));
    const news = client.subscribe("news");
    await news.ready;
    for (let count = 1n; count <= 10n || isFirst(); count++) {
      expect(await client.increment("a", HOUR)).toBe(count);
    }
    await expect.poll(() => client.publish("news", "still here")).toBe(true);
    expect(await take(news, 1)).toEqual(["still here"]);
  });

  it("a token that cannot be replaced ends the calls that need it", async () => {
    const client = open(TRANSPORTS["WebSocket"]!(await tokenOf({ exp: nowS() + 2 })), {
      backoffBaseMs: 1,
    });
    const news = client.subscribe("news");
    await news.ready;
    await expect(news.next()).rejects.toThrow(/^token_expired: /);
    await expect(client.query("a")).rejects.toThrow(/^connection_failed: .*HTTP 401/);
  });

  it("calls fail when the server is gone, and say what is known", async () => {
    const client = open(TRANSPORTS["WebSocket"]!(), { backoffBaseMs: 1 });
    await client.increment("a", HOUR);
    const calls = [client.increment("a", HOUR), client.query("a")];
    await Promise.resolve();
    await abortAllDurableObjects();
    expect(["none", "outcome_unknown"]).toContain(await codeOf(calls[0]!));
    expect(await codeOf(calls[1]!)).toBe("none");
  });
});

describe("over HTTP", () => {
  it("each HTTP request gets a token", async () => {
    let tokens = 0;
    const token = async (): Promise<string> => {
      const ttlS = tokens++ === 1 ? -1 : 1000;
      return await tokenOf({ exp: nowS() + ttlS });
    };
    const client = open(TRANSPORTS["HTTP"]!(token));
    expect(await client.increment("a", HOUR)).toBe(1n);
    await expect(client.increment("a", HOUR)).rejects.toThrow(/^token_expired: /);
    expect(await client.increment("a", HOUR)).toBe(2n);
  });

  it("problems of the server come with their codes over HTTP", async () => {
    const client = open(TRANSPORTS["HTTP"]!("no-token"));
    await expect(client.query("a")).rejects.toThrow(/^token_invalid: /);
    // A path is the prefix of all routes, also where it looks like one of them.
    const lost = open(http(`${URL}/throttr/9`, { fetch }));
    await expect(lost.query("a")).rejects.toThrow(/^not_found: .*\/throttr\/9\/throttr\/edge/);
    const elsewhere = open(http(`${URL}/health`, { fetch }));
    await expect(elsewhere.query("a")).rejects.toThrow(/^not_found: /);
  });
});

describe("over a service binding", () => {
  it("invalid props of a service binding are named", async () => {
    const transport = serviceBinding(entrypoint({ props: { namespace: "no/slash" } }));
    const client = open(transport, { backoffBaseMs: 1 });
    expect(await codeOf(client.query("a"))).toBe("props_invalid");
  });
});
