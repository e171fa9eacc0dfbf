/** The time of a server of tests: it moves ahead when a test says so, and everything that ends by it ends. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { sign } from "hono/jwt";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { WebSocket } from "ws";
import { http, ThrottrClient } from "throttr-edge/client";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { advanceClock, startThrottr, throttrWorker, type TestServer } from "throttr-edge/testing";
import { BUCKET, HoursModel, WINDOW } from "../support/models/hours.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const SECRET = "test-secret";

let server: TestServer;
let client: ThrottrClient;

beforeAll(async () => {
  server = await startThrottr({
    variables: {
      SHARDS: "2",
      TOKEN_SECRET: SECRET,
      IDEMPOTENCY_TTL_MS: String(HOUR_MS),
      REPLAY_MESSAGES_MAX: "10",
    },
  });
  client = server.client;
});

afterAll(async () => {
  await server.close();
});

describe("the time of a test server", () => {
  it("a record of a test server ends when its time was moved to its end, and not before", async () => {
    await client.set("session", "ada", { ttlMs: HOUR_MS });
    await server.advance(HOUR_MS - MINUTE_MS);
    expect(await client.get("session")).not.toBeNull();
    await server.advance(MINUTE_MS);
    expect(await client.get("session")).toBeNull();
    const taken = { expected: null, value: "eve", ttlMs: HOUR_MS };
    expect((await client.compareAndSet("session", taken)).applied).toBe(true);
  });

  it("a bucket of a test server refills when its time was moved", async () => {
    const strategy = tokenBucket({ burst: 2, rate: 1 / 60 });
    const limiter = new RateLimiter({ throttr: client, name: "logins", strategy });
    const ask = async () => (await limiter.limit("ada")).success;
    expect([await ask(), await ask(), await ask()]).toEqual([true, true, false]);
    await server.advance(MINUTE_MS);
    expect([await ask(), await ask()]).toEqual([true, false]);
  });

  it("a lease of a test server ends when its time was moved, and its resources are free", async () => {
    const acquire = async () => await client.acquire("gpu", { maximum: 1, ttlMs: HOUR_MS });
    const lease = (await acquire())!;
    expect(await acquire()).toBeNull();
    await server.advance(HOUR_MS);
    expect(await client.renew("gpu", lease.leaseId, { ttlMs: HOUR_MS })).toBeNull();
    expect(await acquire()).not.toBeNull();
  });

  it("a test server forgets the answer of an idempotency key when its time was moved", async () => {
    const once = { ttlMs: DAY_MS, idempotencyKey: "payment-1" };
    expect(await client.increment("payments", once)).toBe(1n);
    expect(await client.increment("payments", once)).toBe(1n);
    await server.advance(HOUR_MS);
    expect(await client.increment("payments", once)).toBe(2n);
  });

  it("a token expires when the time of a test server was moved to its end", async () => {
    const token = await tokenFor(HOUR_MS);
    const caller = new ThrottrClient(http(server.url, { token }));
    await caller.increment("calls", { ttlMs: DAY_MS });
    await server.advance(HOUR_MS);
    await expect(caller.query("calls")).rejects.toMatchObject({ code: "token_expired" });
  });

  it("a connection has ended once the time of a test server was moved behind the end of its token", async () => {
    const socket = await connectWith(await tokenFor(HOUR_MS));
    const closed = new Promise<[number, string]>((resolve) => {
      socket.on("close", (code, reason) => resolve([code, reason.toString()]));
    });
    await server.advance(HOUR_MS);
    await expect.poll(() => socket.readyState).toBe(WebSocket.CLOSING);
    // The runtime leaves its end of a closed socket open for ten seconds.
    socket.terminate();
    const [code, reason] = await closed;
    expect([code, reason.split(":")[0]]).toEqual([1008, "token_expired"]);
  });

  it("a test server gives a listener no message again that is older than a day by its moved time", async () => {
    expect(await replayed("fresh", HOUR_MS)).toEqual(["first", "second"]);
    expect(await replayed("old", DAY_MS)).toEqual([]);
  });

  it("the overview of a test server forgets the requests of the last minute when its time was moved", async () => {
    const perMinute = async () => (await overview()).requests.perMinute;
    for (let i = 0; i < 20; i++) await client.increment("busy", { ttlMs: DAY_MS });
    expect(await perMinute()).toBeGreaterThanOrEqual(20);
    await server.advance(2 * MINUTE_MS);
    expect(await perMinute()).toBeLessThan(20);
  });

  it("a test server's time does not go back, nor by parts of a millisecond", async () => {
    for (const ms of [-1, 0.5, Number.NaN, Infinity, 11 * 365 * DAY_MS]) {
      await expect(server.advance(ms)).rejects.toThrow(RangeError);
    }
    await server.advance(0);
  });

  it("a test server does not take a moved time for a fault of the clock", async () => {
    await client.increment("here", { ttlMs: DAY_MS });
    await server.advance(HOUR_MS);
    await client.increment("here", { ttlMs: DAY_MS });
    const { shards } = await overview();
    expect(shards.map(({ clockLagMs }) => clockLagMs)).toEqual([0, 0]);
  });
});

describe("the clock of tests", () => {
  it("what is deployed has no clock that could be moved", () => {
    expect(readFileSync("dist/test-worker.js", "utf8")).toContain("TestClock");
    expect(readFileSync("dist/worker.js", "utf8")).not.toContain("TestClock");
    expect(readFileSync("src/worker/index.ts", "utf8")).not.toContain("test-worker");
  });

  it("counters and limits agree with a model when time moves at random, while objects restart", async () => {
    const runtime = new Miniflare(convertV4MiniflareOptions({ workers: [await throttrWorker()] }));
    try {
      const url = (await runtime.ready).href;
      const actor = new ThrottrClient(http(url));
      let runs = 0;
      const property = fc.asyncProperty(steps, async (taken) => {
        const run = { runtime, actor, model: new HoursModel(), prefix: `${runs++}-` };
        for (const one of taken) await take(one, run);
        const { records } = await actor.list({ prefix: `${run.prefix}counter` });
        const keys = records.map(({ key }) => decoder.decode(key).slice(run.prefix.length));
        expect(keys.toSorted()).toEqual(run.model.keys());
      });
      await fc.assert(property, { seed: inject("seed"), numRuns: 12, endOnFailure: true });
    } finally {
      await runtime.dispose();
    }
  });
});

const counter = fc.constantFrom("counter-a", "counter-b", "counter-c");
const user = fc.constantFrom("ada", "eve");
const does = <Do extends string>(name: Do) => fc.constant(name);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: does("increment"),
      key: counter,
      ttlHours: fc.integer({ min: 1, max: 6 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: does("query"), key: counter }) },
  { weight: 3, arbitrary: fc.record({ do: does("window"), user }) },
  { weight: 3, arbitrary: fc.record({ do: does("bucket"), user }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: does("advance"), hours: fc.integer({ min: 0, max: 5 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: does("restart") }) },
);
const steps = fc.array(step, { minLength: 10, maxLength: 40 });

interface Run {
  readonly runtime: Miniflare;
  readonly actor: ThrottrClient;
  readonly model: HoursModel;
  /** Begins all keys of the run. */
  readonly prefix: string;
}

/** Drops the object from memory, as the platform does with one that has been idle for long. */
async function evict(runtime: Miniflare, shard: string): Promise<void> {
  try {
    await runtime.unsafeEvictDurableObject("throttr-edge", "Shard", { name: shard });
  } catch (error) {
    if (!String(error).includes("not currently running")) throw error;
  }
}

/** Takes a step at the server and in the model, and compares them. */
async function take(
  one: typeof step extends fc.Arbitrary<infer Step> ? Step : never,
  { runtime, actor, model, prefix }: Run,
): Promise<void> {
  switch (one.do) {
    case "advance":
      model.advance(one.hours);
      return await advanceClock(runtime, one.hours * HOUR_MS);
    case "restart":
      return await evict(runtime, "default/0");
    case "increment": {
      const ttlMs = one.ttlHours * HOUR_MS;
      const quota = await actor.increment(prefix + one.key, { ttlMs });
      expect(Number(quota)).toBe(model.increment(one.key, one.ttlHours));
      return;
    }
    case "query": {
      const record = await actor.query(prefix + one.key);
      const told = record && {
        quota: Number(record.quota),
        hours: Math.ceil(record.ttlMs! / HOUR_MS),
      };
      expect(told).toEqual(model.query(one.key));
      return;
    }
    case "window":
    case "bucket": {
      const strategy = one.do === "window" ? WINDOW_STRATEGY : BUCKET_STRATEGY;
      const { success, remaining } = await actor.limit({
        name: one.do,
        key: prefix + one.user,
        strategy,
      });
      expect({ success, remaining }).toEqual(model[one.do](one.user));
    }
  }
}

const WINDOW_STRATEGY = {
  strategy: "fixed_window",
  quotas: [{ name: "hours", limit: WINDOW.limit, windowMs: WINDOW.hours * HOUR_MS }],
} as const;
const BUCKET_STRATEGY = {
  strategy: "token_bucket",
  burst: BUCKET.burst,
  rate: BUCKET.tokensAnHour / 3600,
} as const;

const decoder = new TextDecoder();

interface Overview {
  readonly atMs: number;
  readonly requests: { readonly perMinute: number };
  readonly shards: readonly { readonly clockLagMs: number }[];
}

async function overview(): Promise<Overview> {
  return (await (await fetch(`${server.url}v1/overview`)).json()) as Overview;
}

/** A token that ends so long after the server's present. */
async function tokenFor(ttlMs: number): Promise<string> {
  const { atMs } = await overview();
  const exp = Math.floor((atMs + ttlMs) / 1000);
  return await sign({ ns: "default", scopes: ["read", "write"], exp }, SECRET, "HS256");
}

async function connectWith(token: string): Promise<WebSocket> {
  const url = new URL("throttr/7.3/uint16", server.url.replace("http", "ws"));
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
  await once(socket, "open");
  return socket;
}

/** What a listener is given again that lost its connection before two messages, and comes back after `awayMs`. */
async function replayed(channel: string, awayMs: number): Promise<string[]> {
  const url = `${server.url}channels/${channel}`;
  const [lastId] = (await eventsUntilStart(url)).ids;
  for (const body of ["first", "second"]) await fetch(url, { method: "POST", body });
  await server.advance(awayMs);
  return (await eventsUntilStart(`${url}?lastEventId=${lastId}`)).data;
}

/** Reads a stream of events until the one without data, which says where the stream begins, and ends it. */
async function eventsUntilStart(url: string): Promise<{ ids: string[]; data: string[] }> {
  const abort = new AbortController();
  const { body } = await fetch(url, { signal: abort.signal });
  let received = "";
  for await (const chunk of body!) {
    received += decoder.decode(chunk);
    if (/(^|\n\n)id: \d+\n\n/.test(received)) break;
  }
  abort.abort();
  const all = (field: string) =>
    Array.from(received.matchAll(new RegExp(`^${field}: (.*)$`, "gm")), ([, value]) => value!);
  return { ids: all("id"), data: all("data") };
}
