/** Limiters with `local` in the runtime that they are made for, and over every way to the server. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { build } from "tsdown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { http, ThrottrClient, webSocket, type Transport } from "throttr-edge/client";
import { fixedWindow, RateLimiter, type RateLimitResult } from "throttr-edge/ratelimit";
import { throttrWorker } from "throttr-edge/testing";

const strategy = fixedWindow({ limit: 10_000, window: "1 h" });
/** Of the Worker's limiters: longer than requests take on a busy machine. */
const LEASE_MS = 3_000;

let runtime: Miniflare;
let url: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "throttr-local-"));
  await build({
    config: false,
    entry: { worker: "test/support/process/local-worker.ts" },
    outDir: folder,
    platform: "neutral",
    target: "es2024",
    dts: false,
    logLevel: "silent",
    deps: { alwaysBundle: [/./], onlyBundle: false },
  });
  const contents = readFileSync(join(folder, "worker.js"), "utf8");
  rmSync(folder, { recursive: true });
  const mine = {
    name: "mine",
    compatibilityDate: "2026-05-01",
    modules: [{ type: "ESModule" as const, path: "worker.js", contents }],
    serviceBindings: { THROTTR: { name: "throttr-edge", entrypoint: "Throttr" } },
  };
  const server = {
    ...(await throttrWorker({ variables: { HOSTS: "localhost" } })),
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  };
  runtime = new Miniflare(convertV4MiniflareOptions({ workers: [mine, server] }));
  url = (await runtime.unsafeGetDirectURL("throttr-edge")).href;
});

afterAll(async () => {
  await runtime.dispose();
});

async function ask(path: string): Promise<RateLimitResult> {
  return (await (await runtime.dispatchFetch(`http://localhost${path}`)).json()) as RateLimitResult;
}

async function pass(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Units of a key that the shard has not charged. */
async function atShard(key: string): Promise<number> {
  const throttr = new ThrottrClient(http(url));
  try {
    return (await throttr.peek({ name: "api", key, strategy })).remaining;
  } finally {
    await throttr.close();
  }
}

describe.each(["limit", "hono"])("a Worker over a service binding: /%s", (route) => {
  const key = `of-${route}`;

  it(`limiters that are created for each request spend what one of them drew: /${route}`, async () => {
    await ask(`/limit/${key}?cost=40`);
    expect(await ask(`/${route}/${key}`)).not.toHaveProperty("local");
    expect(await ask(`/${route}/${key}`)).toMatchObject({ success: true, local: true });
    expect(await atShard(key)).toBeLessThan(10_000 - 40 - 40);
  });

  it(`a refill goes on after the response to the request that noticed, and what is left is given back: /${route}`, async () => {
    const drawn = await atShard(key);
    let asked = 42;
    while ((await atShard(key)) === drawn) {
      // Two at a time: a refill begins while units for more than that are left.
      const results = await Promise.all([ask(`/${route}/${key}`), ask(`/${route}/${key}`)]);
      asked += 2;
      for (const result of results) expect(result).toMatchObject({ success: true, local: true });
    }
    await pass(LEASE_MS + 500);
    expect(await atShard(key)).toBe(10_000 - asked);
  });
});

describe("requests of one isolate", () => {
  it("requests that come while another one draws don't wait for its answer", async () => {
    const results = await Promise.all(Array.from({ length: 30 }, () => ask("/limit/crowd")));
    expect(results.every(({ success }) => success)).toBe(true);
  });

  it("a draw whose request was cancelled is forgotten after the lease", async () => {
    await runtime.dispatchFetch("http://localhost/forget/cut");
    // They wait half a second in vain, and ask for their own cost.
    expect(await ask("/limit/cut?cost=40")).not.toHaveProperty("local");
    expect(await ask("/limit/cut")).not.toHaveProperty("local");
    await pass(LEASE_MS);
    for (let i = 0; i < 3; i++) await ask("/limit/cut");
    expect(await ask("/limit/cut")).toMatchObject({ success: true, local: true });
  });
});

describe.each<[string, (url: string) => Transport]>([
  ["HTTP", (at) => http(at)],
  ["WebSocket", (at) => webSocket(at)],
])("a client of Node over %s", (name, transport) => {
  it(`a limiter decides here, and gives back what it did not spend: ${name}`, async () => {
    const throttr = new ThrottrClient(transport(url));
    const limiter = new RateLimiter({ throttr, name: "api", strategy, local: true });
    const key = `node-${name}`;
    await limiter.limit(key, { cost: 40 });
    const results = await Promise.all(Array.from({ length: 3 }, () => limiter.limit(key)));
    expect(results.every(({ success }) => success)).toBe(true);
    for (let i = 0; i < 30; i++) expect(await limiter.limit(key)).toMatchObject({ local: true });
    const [other, own] = await limiter.limitMany([`${key}-other`, key]);
    expect([other!.local, own!.local]).toEqual([undefined, true]);
    await pass(LEASE_MS + 500);
    expect(await atShard(key)).toBe(10_000 - 40 - 3 - 30 - 1);
    await throttr.close();
  });
});
