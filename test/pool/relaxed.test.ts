/** Relaxed limits beside strict callers of one shard: what waits for a row, what a crash takes back, and what it costs. */
import {
  abortAllDurableObjects,
  evictDurableObject,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, describe, expect, inject, it } from "vitest";
import { InitialShards } from "../support/shards.ts";
import type { LimitBackend } from "../../src/ratelimit/backend.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { settle, type Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { LimitDurability } from "../../src/wire/edge/operations.ts";
import { edgeBatch, partsOf } from "../support/frames/index.ts";
import { breakJournal, holdSync, meterOf, shardStub } from "../support/pool/shards.ts";

const LIMIT = 1_000_000;
const ADA = {
  name: "api",
  key: "ada",
  strategy: {
    strategy: "fixed_window",
    quotas: [{ name: "age", limit: LIMIT, windowMs: 1e12 }],
  },
} as const;

afterEach(async () => {
  await reset();
});

/** One shard addressed directly, as doors of a deployment with SHARDS=1 would. */
const placement = new InitialShards("default", 1, "");
const stub = () => shardStub(0);

const batchOfOne = (operation: Operation<unknown>): Uint8Array =>
  edgeBatch([operation.frame], 1 << 20, placement);

async function call<Result>(operation: Operation<Result>): Promise<Result> {
  const answer = await stub().apply(batchOfOne(operation));
  const [settled] = settle([operation], partsOf(answer)[0]!.replies);
  if (!settled!.ok) throw settled!.error;
  return settled!.value;
}

const limit = async (durability: LimitDurability, cost = 1) =>
  await call(operations.limit({ ...ADA, cost, durability }));
const peek = async (durability: LimitDurability = "strict") =>
  await call(operations.peek({ ...ADA, durability }));
/** What a strict caller sees charged. */
const spent = async (): Promise<number> => LIMIT - (await peek()).remaining;

describe("relaxed limits", () => {
  it("a hundred relaxed limits, one after the other, are one row for each 50 ms that they take", async () => {
    await limit("strict");
    const meter = await meterOf(stub());
    const startMs = Date.now();
    for (let i = 0; i < 100; i++) expect((await limit("relaxed")).remaining).toBe(LIMIT - 2 - i);
    const passed = Math.floor((Date.now() - startMs) / 50);
    expect(meter.rows).toBeLessThanOrEqual(passed);
    await expect.poll(() => meter.rows).toBeGreaterThan(0);
    await scheduler.wait(100);
    expect(meter.rows).toBeLessThanOrEqual(passed + 1);
  });

  it("within 50 ms, relaxed limits of a shard are one row exactly", async () => {
    await limit("strict");
    const meter = await meterOf(stub());
    await runInDurableObject(stub(), async (shard) => {
      const batch = batchOfOne(operations.limit({ ...ADA, durability: "relaxed" }));
      // No I/O in between, so not even a millisecond passes.
      for (let i = 0; i < 100; i++) await shard.apply(batch);
      expect(meter.rows).toBe(0);
    });
    await scheduler.wait(150);
    expect(meter.rows).toBe(1);
    await abortAllDurableObjects();
    expect(await spent()).toBe(101);
  });

  it("a relaxed limit that is refused, and a relaxed peek, neither write nor wait", async () => {
    await limit("strict", LIMIT);
    const release = await holdSync(stub());
    // A commit is on its way to the disk, and a strict call waits for the next one.
    await call(operations.refund({ ...ADA }));
    const waiting = call(operations.refund({ ...ADA }));
    const meter = await meterOf(stub());
    expect((await limit("relaxed", 10)).success).toBe(false);
    expect((await peek("relaxed")).remaining).toBe(2);
    expect(meter.rows).toBe(0);
    await release();
    await waiting;
    await scheduler.wait(100);
    expect(meter.rows).toBe(1);
  });

  it("a relaxed limit is answered while strict callers wait for a commit, and shares their row", async () => {
    await limit("strict");
    const release = await holdSync(stub());
    await limit("strict");
    const meter = await meterOf(stub());
    let isAnswered = false;
    const strict = limit("strict").then(() => (isAnswered = true));
    expect((await limit("relaxed")).remaining).toBe(LIMIT - 4);
    expect(isAnswered).toBe(false);
    await scheduler.wait(100);
    expect(meter.rows).toBe(0);
    await release();
    await strict;
    await scheduler.wait(100);
    expect(meter.rows).toBe(1);
    await abortAllDurableObjects();
    expect(await spent()).toBe(4);
  });

  it("a strict caller that sees relaxed charges makes them durable before it is answered", async () => {
    await limit("strict");
    const meter = await meterOf(stub());
    await limit("relaxed");
    expect(await spent()).toBe(2);
    expect(meter.rows).toBe(1);
    await abortAllDurableObjects();
    expect(await spent()).toBe(2);
  });

  it("a strict caller is not answered when the row with the relaxed charges that it saw can't be written", async () => {
    await limit("strict");
    await breakJournal(stub());
    expect((await limit("relaxed")).success).toBe(true);
    await expect(peek()).rejects.toThrow(/disk full/);
    expect(await spent()).toBe(1);
  });

  it("a relaxed refund is taken back by a crash like a relaxed charge, and a reset is not", async () => {
    await limit("strict", 5);
    await breakJournal(stub());
    await call(operations.refund({ ...ADA, cost: 2, durability: "relaxed" }));
    await abortAllDurableObjects();
    expect(await spent()).toBe(5);
    await call(operations.reset({ ...ADA }));
    await abortAllDurableObjects();
    expect(await spent()).toBe(0);
  });

  it("an eviction right after a relaxed answer loses nothing: the row keeps the object awake", async () => {
    await limit("strict");
    for (let i = 0; i < 5; i++) {
      await limit("relaxed");
      await evictDurableObject(stub());
      expect(await spent()).toBe(2 + i);
    }
  });

  it("a repeated relaxed limit is charged once, also when a crash has taken the first one back", async () => {
    await limit("strict");
    const once = { ...ADA, durability: "relaxed", idempotencyKey: "x" } as const;
    await breakJournal(stub());
    expect((await call(operations.limit(once))).remaining).toBe(LIMIT - 2);
    await abortAllDurableObjects();
    for (const durability of ["relaxed", "strict", "relaxed"] as const) {
      const again = await call(operations.limit({ ...once, durability }));
      expect(again.remaining).toBe(LIMIT - 2);
    }
    await abortAllDurableObjects();
    expect((await call(operations.limit(once))).remaining).toBe(LIMIT - 2);
    expect(await spent()).toBe(2);
  });
});

describe("doors", () => {
  const throttr = exports.Throttr as unknown as LimitBackend;
  const request = { ...ADA, durability: "relaxed" } as const;
  const v1 = async (path: string, body: object): Promise<unknown> => {
    const url = `http://localhost/v1/limits${path}`;
    const response = await (exports.default as unknown as Fetcher).fetch(url, {
      method: "POST",
      body: JSON.stringify(body),
    });
    const json = await response.json<{ results?: { result: object }[] }>();
    return json.results?.[0]!.result ?? json;
  };
  const { name, key, strategy } = ADA;
  const body = { strategy, durability: "relaxed" };

  it.each<[string, () => PromiseLike<unknown>]>([
    ["limit of a binding", () => throttr.limit(request)],
    ["peek of a binding", () => throttr.peek(request)],
    ["refund of a binding", () => throttr.refund(request)],
    ["limitMany of a binding", async () => (await throttr.limitMany([request]))[0]],
    [
      "limit of a RateLimiter",
      () => new RateLimiter({ throttr, name, strategy, durability: "relaxed" }).limit(key),
    ],
    ["/v1/limits/{name}/{key}", () => v1(`/${name}/${key}`, body)],
    ["/v1/limits/{name}/{key}/peek", () => v1(`/${name}/${key}/peek`, body)],
    ["/v1/limits/{name}/{key}/refund", () => v1(`/${name}/${key}/refund`, body)],
    ["/v1/limits", () => v1("", { requests: [{ name, key, ...body }] })],
  ])("a relaxed call by %s is answered although no row can be written", async (_, ask) => {
    expect(await throttr.limit(ADA)).toMatchObject({ success: true });
    for (let i = 0; i < 4; i++) {
      await runInDurableObject(shardStub(i), () => {});
      await breakJournal(shardStub(i));
    }
    expect(await ask()).toMatchObject({ success: true });
    const strict = async (): Promise<unknown> => await throttr.limit(ADA);
    await expect(strict()).rejects.toThrow(/outcome_unknown/);
  });
});

describe("crashes", () => {
  const happening = fc.oneof(
    { weight: 4, arbitrary: fc.constant("relaxed" as const) },
    { weight: 2, arbitrary: fc.constant("strict" as const) },
    { weight: 1, arbitrary: fc.constant("peek" as const) },
    { weight: 1, arbitrary: fc.constant("pause" as const) },
    { weight: 1, arbitrary: fc.constant("crash" as const) },
  );

  it("a crash takes back relaxed charges since the last row at most, and nothing that a strict caller has seen", async () => {
    const property = fc.asyncProperty(
      fc.array(happening, { minLength: 5, maxLength: 25 }),
      async (happenings) => {
        await reset();
        let charged = 0;
        /** What must be there after a crash. */
        let durable = 0;
        for (const event of [...happenings, "crash" as const]) {
          if (event === "relaxed" || event === "strict") {
            expect((await limit(event)).remaining).toBe(LIMIT - ++charged);
            if (event === "strict") durable = charged;
          } else if (event === "peek") {
            expect(await spent()).toBe(charged);
            durable = charged;
          } else if (event === "pause") {
            await scheduler.wait(120);
            durable = charged;
          } else {
            await abortAllDurableObjects();
            const left = await spent();
            expect(left).toBeGreaterThanOrEqual(durable);
            expect(left).toBeLessThanOrEqual(charged);
            charged = durable = left;
          }
        }
      },
    );
    await fc.assert(property, { seed: inject("seed"), numRuns: 25 });
  });
});
