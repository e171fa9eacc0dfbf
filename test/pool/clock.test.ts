/** A platform's clock that was ahead and is set right: shards go on, through restarts, and can be set back. */
import {
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { InitialShards } from "../support/shards.ts";
import { writeBatchHeader } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import type { Overview } from "../../src/wire/overview.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf, nowS } from "../support/pool/tokens.ts";
import { calling, expectProblem, freshNamespace, type Calling } from "../support/pool/v1-calls.ts";

const HOUR_MS = 3_600_000;
const SHARDS = 4;

/** The platform's clock, which tests set: it stands still until then. */
let realMs = 0;
let ns = "";
let call: Calling;
const warnings: string[] = [];

beforeEach(async () => {
  // Ahead of the machine's clock, which alarms ring by: none rings by itself.
  realMs = Date.now() + 100 * HOUR_MS;
  ns = freshNamespace();
  call = calling(await bearerOf({ ns, exp: nowS() + 30 * 86_400 }));
  vi.spyOn(Date, "now").mockImplementation(() => realMs);
  warnings.length = 0;
  vi.spyOn(console, "warn").mockImplementation((line: string) => void warnings.push(line));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

const ok = async (...args: Parameters<Calling>): Promise<Record<string, unknown>> => {
  const got = await call(...args);
  expect(got.status).toBeLessThan(300);
  return got.json;
};
const increment = async (key: string, ttlMs: number): Promise<Record<string, unknown>> =>
  await ok("POST", `/v1/counters/${key}/increment`, { json: { ttlMs } });
const statusOf = async (key: string): Promise<number> =>
  (await call("GET", `/v1/counters/${key}`)).status;
const limit = async (key: string): Promise<Record<string, unknown>> =>
  (
    await call("POST", `/v1/limits/api/${key}`, {
      json: { strategy: { strategy: "token_bucket", burst: 2, rate: 1 } },
    })
  ).json;
const lagsOf = async (): Promise<number[]> => {
  const { shards } = (await ok("GET", "/v1/overview")) as unknown as Overview;
  return shards.map((shard) => (shard.isUnreachable ? -1 : shard.clockLagMs));
};
const logged = (event: string): number =>
  warnings.filter((line) => line.includes(`"${event}"`)).length;

/** All shards have seen a clock that is two hours ahead, which is set right then. */
async function stepAheadAndBack(): Promise<void> {
  realMs += 2 * HOUR_MS;
  for (let i = 0; i < 40; i++) await increment(`filler:${i}`, 10 * HOUR_MS);
  realMs -= 2 * HOUR_MS;
}

describe.each([
  ["while shards stay in memory", async () => {}],
  ["through restarts of shards", async () => await evictAllDurableObjects()],
])("a clock that was two hours ahead, %s", (_, between) => {
  it("a lag leaves no record, limit or lease longer than its answer says", async () => {
    await stepAheadAndBack();
    await between();
    await increment("k", 2000);
    const { ttlMs, expiresAtMs } = (await ok("GET", "/v1/counters/k")) as Record<string, number>;
    expect(ttlMs).toBe(2222);
    expect(expiresAtMs).toBe(realMs + 2222);
    const lease = (await ok("POST", "/v1/semaphores/s/leases", {
      json: { maximum: 1, ttlMs: 2000 },
    })) as Record<string, number>;
    for (let i = 0; i < 2; i++) expect(await limit("ada")).toMatchObject({ success: true });
    const refused = (await limit("ada")) as Record<string, number>;
    expect(refused).toMatchObject({ success: false });
    expect(refused.retryAfterMs).toBeGreaterThan(1000);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(1112);
    const startMs = realMs;
    realMs = startMs + refused.retryAfterMs!;
    await between();
    expect(await limit("ada")).toMatchObject({ success: true });
    realMs = startMs + 2221;
    expect(await statusOf("k")).toBe(200);
    expect((await call("GET", "/v1/semaphores/s")).json).toMatchObject({ consumption: 1 });
    await between();
    realMs = startMs + Math.max(ttlMs!, lease.ttlMs!);
    expect(await statusOf("k")).toBe(404);
    expect((await call("GET", "/v1/semaphores/s")).json).toMatchObject({ consumption: 0 });
  });

  it("a lag is logged once, and shown by the overview until it is gone", async () => {
    await stepAheadAndBack();
    await between();
    for (const lag of await lagsOf()) expect(lag).toBe(2 * HOUR_MS);
    realMs += HOUR_MS;
    await between();
    for (const lag of await lagsOf()) expect(Math.abs(lag - 1.9 * HOUR_MS)).toBeLessThan(10);
    realMs += 19 * HOUR_MS + 1000;
    await increment("k", 1000);
    expect(await lagsOf()).toEqual([0, 0, 0, 0]);
  });

  it("an operator who sets a clock back leaves every record the life that it had left", async () => {
    await stepAheadAndBack();
    await increment("k", 2000);
    const lease = await ok("POST", "/v1/semaphores/s/leases", {
      json: { maximum: 1, ttlMs: 2000 },
    });
    expect(lease.ttlMs).toBe(2222);
    for (let i = 0; i < 2; i++) await limit("ada");
    await between();
    const set = await ok("POST", "/v1/admin/clock", { json: { namespace: ns } });
    expect(set).toEqual({
      shards: Array.from({ length: SHARDS }, (_, index) => ({ index, setBackMs: 2 * HOUR_MS })),
    });
    await between();
    expect(await lagsOf()).toEqual([0, 0, 0, 0]);
    expect(await ok("GET", "/v1/counters/k")).toMatchObject({
      ttlMs: 2000,
      expiresAtMs: realMs + 2000,
    });
    expect(await limit("ada")).toMatchObject({ success: false, retryAfterMs: 1000 });
    realMs += 1000;
    await between();
    expect(await limit("ada")).toMatchObject({ success: true });
    realMs += 999;
    expect(await statusOf("k")).toBe(200);
    expect((await call("GET", "/v1/semaphores/s")).json).toMatchObject({ consumption: 1 });
    realMs += 1;
    expect(await statusOf("k")).toBe(404);
    expect((await call("GET", "/v1/semaphores/s")).json).toMatchObject({ consumption: 0 });
    const again = await ok("POST", "/v1/admin/clock", { json: { namespace: ns } });
    expect(again).toEqual({
      shards: Array.from({ length: SHARDS }, (_, index) => ({ index, setBackMs: 0 })),
    });
  });
});

it("a shard logs a lag once when it appears and once when it is gone, and ignores milliseconds", async () => {
  await increment("k", 1000);
  realMs -= 20;
  await increment("k", 1000);
  expect(logged("clock_lagging")).toBe(0);
  realMs -= HOUR_MS;
  for (let i = 0; i < 5; i++) await increment("k", 1000);
  expect(logged("clock_lagging")).toBe(1);
  realMs += 11 * HOUR_MS;
  for (let i = 0; i < 5; i++) await increment("k", 1000);
  expect([logged("clock_lagging"), logged("clock_right")]).toEqual([1, 1]);
});

it("a shard's alarm moves with the clock that it rings by", async () => {
  await increment("k", HOUR_MS);
  const index = await indexOf("k");
  const alarmOf = async (): Promise<number> =>
    await runInDurableObject(shardStub(index, ns), async (_, { storage }) => {
      return (await storage.getAlarm()) ?? Infinity;
    });
  expect(await alarmOf()).toBe(realMs + HOUR_MS);
  realMs -= 2 * HOUR_MS;
  const { expiresAtMs } = (await ok("GET", "/v1/counters/k")) as Record<string, number>;
  expect(expiresAtMs).toBeLessThan(realMs + 1.2 * HOUR_MS);
  // At most one alarm is set within a second.
  await expect
    .poll(() => {
      realMs += 100;
      return alarmOf();
    })
    .toBe(expiresAtMs);
  realMs = expiresAtMs!;
  await runDurableObjectAlarm(shardStub(index, ns));
  const records = await runInDurableObject(
    shardStub(index, ns),
    (shard) => shard.figures().records,
  );
  expect(records).toBe(0);
});

it("setting clocks back needs the scope admin and the namespace's name", async () => {
  await increment("k", 1000);
  expectProblem(
    await call("POST", "/v1/admin/clock", { json: { namespace: "another" } }),
    "namespace_mismatch",
  );
  const writer = calling(await bearerOf({ ns, scopes: ["read", "write"], exp: nowS() + 86_400 }));
  expectProblem(
    await writer("POST", "/v1/admin/clock", { json: { namespace: ns } }),
    "scope_missing",
  );
});

/** The shard that has a record. */
async function indexOf(key: string): Promise<number> {
  for (let index = 0; index < SHARDS; index++) {
    const records = await runInDurableObject(
      shardStub(index, ns),
      (shard) => shard.figures().records,
    );
    if (records > 0) return index;
  }
  throw new Error(`no shard has ${key}`);
}

it("a shard whose clock stands still while that of doors advances restarts, with all acknowledged writes", async () => {
  const stub = shardStub(0, ns);
  expect(await increment("k", 30 * HOUR_MS)).toMatchObject({ quota: "1" });
  const batch = new ByteWriter(64);
  writeBatchHeader(batch, new InitialShards(ns, SHARDS, "").placement);
  const bytes = batch.take();
  for (const passedMs of [0, 1000, 1999]) await stub.apply(bytes, realMs - HOUR_MS + passedMs);
  expect(logged("clock_still")).toBe(0);
  await stub.apply(bytes, realMs - HOUR_MS + 2000).catch(() => {});
  await expect.poll(() => logged("clock_still")).toBe(1);
  realMs -= HOUR_MS;
  await expect.poll(async () => await statusOf("k")).toBe(200);
  expect(await increment("k", 30 * HOUR_MS)).toMatchObject({ quota: "2" });
});
