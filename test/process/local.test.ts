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
import { FakeClock } from "../support/rate-limits/backend.ts";

const strategy = fixedWindow({ limit: 10_000, window: "1 h" });
/**
 * Of limiters whose clock a test moves, where no lease ends because a machine is slow. The longest there is: a shard, whose
 * clock runs on, takes units back for two of them.
 */
const LEASE_MS = 10_000;

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

/** Lets time pass for requests with `?held`. */
async function pass(ms: number): Promise<void> {
  await runtime.dispatchFetch(`http://localhost/pass/${ms}`);
}

/** Asks, and lets time pass until the answer comes, for a request that may have to wait. */
async function askInTime(path: string, stepMs: number): Promise<RateLimitResult> {
  const answer = ask(path);
  for (;;) {
    const result = await Promise.race([answer, pass(stepMs)]);
    if (result !== undefined) return result;
  }
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
  it(`limiters that are created for each request spend what one of them drew: /${route}`, async () => {
    const key = `shared-${route}`;
    await ask(`/limit/${key}?cost=40`);
    expect(await ask(`/${route}/${key}`)).not.toHaveProperty("local");
    // On a busy machine the units of a draw may be over before the next request comes.
    await expect
      .poll(async () => await ask(`/${route}/${key}`))
      .toMatchObject({ success: true, local: true });
  });

  it(`a refill goes on after the response to the request that noticed, and what is left is given back: /${route}`, async () => {
    const key = `refilled-${route}`;
    const path = `/${route}/${key}?held`;
    await ask(`/limit/${key}?held&cost=4`);
    const full = await atShard(key);
    expect(await ask(path)).not.toHaveProperty("local");
    const drawn = await atShard(key);
    const left = full - drawn - 1;
    expect(left).toBeGreaterThan(4);
    // All but one, so that no request has to wait for the refill that one of them starts.
    for (let i = 1; i < left; i++) expect(await ask(path)).toMatchObject({ local: true });
    await expect.poll(async () => await atShard(key)).toBeLessThan(drawn);
    const refilled = await atShard(key);
    // The answer of the refill has come as well: more units can be spent than were left. It may be a moment behind.
    for (let i = 0; i < 4; i++) {
      expect(await askInTime(path, 1)).toMatchObject({ success: true, local: true });
    }
    expect(await atShard(key)).toBe(refilled);
    await pass(LEASE_MS);
    await expect.poll(async () => await atShard(key)).toBe(10_000 - 4 - 1 - (left - 1) - 4);
  });
});

describe("requests of one isolate", () => {
  it("requests that come while another one draws don't wait for its answer", async () => {
    const results = await Promise.all(Array.from({ length: 30 }, () => ask("/limit/crowd")));
    expect(results.every(({ success }) => success)).toBe(true);
  });

  it("a draw whose request was cancelled is forgotten after the lease", async () => {
    await runtime.dispatchFetch("http://localhost/forget/cut?held");
    // They wait half a second in vain, and ask for their own cost.
    const path = "/limit/cut?held";
    expect(await askInTime(`${path}&cost=40`, 50)).not.toHaveProperty("local");
    expect(await askInTime(path, 50)).not.toHaveProperty("local");
    await pass(LEASE_MS);
    for (let i = 0; i < 3; i++) await askInTime(path, 50);
    expect(await askInTime(path, 50)).toMatchObject({ success: true, local: true });
  });
});

describe.each<[string, (url: string) => Transport]>([
  ["HTTP", (at) => http(at)],
  ["WebSocket", (at) => webSocket(at)],
])("a client of Node over %s", (name, transport) => {
  it(`a limiter decides here, and gives back what it did not spend: ${name}`, async () => {
    const throttr = new ThrottrClient(transport(url));
    const clock = new FakeClock();
    const local = { leaseMs: LEASE_MS };
    const limiter = new RateLimiter({ throttr, name: "api", strategy, clock, local });
    const key = `node-${name}`;
    await limiter.limit(key, { cost: 40 });
    expect(await limiter.limit(key)).not.toHaveProperty("local");
    for (let i = 0; i < 30; i++) expect(await limiter.limit(key)).toMatchObject({ local: true });
    const [other, own] = await limiter.limitMany([`${key}-other`, key]);
    expect([other!.local, own!.local]).toEqual([undefined, true]);
    await clock.advance(LEASE_MS);
    await expect.poll(async () => await atShard(key)).toBe(10_000 - 40 - 1 - 30 - 1);
    await throttr.close();
  });
});
