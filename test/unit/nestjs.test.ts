/** The storage of @nestjs/throttler: its interface, and a model of its contract. */
import type { ThrottlerStorage } from "@nestjs/throttler";
import fc from "fast-check";
import { beforeEach, expect, expectTypeOf, inject, it } from "vitest";
import { ThrottrStorage, type ThrottlerHits } from "../../src/adapters/nestjs/index.ts";
import type { ThrottrService } from "../../src/client/index.ts";
import { EngineServer } from "../support/client/engine-client.ts";
import { runs } from "../support/runs.ts";

let server: EngineServer;
let storage: ThrottrStorage;

beforeEach(() => {
  server = new EngineServer();
  storage = new ThrottrStorage({ throttr: server.client });
});

const hit = async (
  limit: number,
  { key = "k", ttl = 60_000, block = 60_000, name = "default" } = {},
): Promise<ThrottlerHits> => await storage.increment(key, ttl, limit, block, name);

it("the storage of Nest's throttler has its interface, and runs on bindings", () => {
  expectTypeOf<ThrottrStorage>().toExtend<ThrottlerStorage>();
  expectTypeOf<ThrottrService>().toExtend<
    ConstructorParameters<typeof ThrottrStorage>[0]["throttr"]
  >();
});

it("the storage of Nest's throttler takes one call for a hit, and two for the one that blocks", async () => {
  const calls: number[] = [];
  for (let i = 0; i < 4; i++) calls.push(await server.messagesOf(async () => await hit(2)));
  expect(calls).toEqual([1, 1, 2, 1]);
});

it.each([undefined, null, NaN, "ten"])(
  "the storage of Nest's throttler refuses a limit of %s, and counts nothing",
  async (limit) => {
    const refusal = /^argument_invalid: limit: expected a number, got (undefined|null|NaN|"ten")$/;
    await expect(hit(limit as never)).rejects.toThrow(refusal);
    expect(await hit(1)).toMatchObject({ totalHits: 1, isBlocked: false });
  },
);

it("the storage of Nest's throttler blocks from the hit above the limit on, then counts anew", async () => {
  const block = 5_000;
  expect(await hit(1, { block })).toEqual({
    totalHits: 1,
    timeToExpire: 60,
    isBlocked: false,
    timeToBlockExpire: 0,
  });
  server.advance(1_500);
  const blocked = { totalHits: 2, timeToExpire: 5, isBlocked: true, timeToBlockExpire: 5 };
  expect(await hit(1, { block })).toEqual(blocked);
  server.advance(4_900);
  expect(await hit(1, { block })).toMatchObject({ isBlocked: true, timeToBlockExpire: 1 });
  server.advance(100);
  expect(await hit(1, { block })).toMatchObject({ totalHits: 1, isBlocked: false });
});

it("the storage of Nest's throttler blocks for longer than the window", async () => {
  const times = { ttl: 1_000, block: 10_000 };
  await hit(1, times);
  await hit(1, times);
  server.advance(9_999);
  expect(await hit(1, times)).toMatchObject({ isBlocked: true, totalHits: 2 });
  server.advance(1);
  expect(await hit(1, times)).toMatchObject({ isBlocked: false, totalHits: 1 });
});

it("the storage of Nest's throttler blocks at the first hit above its limit where limits of a key differ", async () => {
  for (let i = 0; i < 5; i++) expect(await hit(100)).toMatchObject({ isBlocked: false });
  expect(await hit(2, { block: 5_000 })).toEqual({
    totalHits: 3,
    timeToExpire: 5,
    isBlocked: true,
    timeToBlockExpire: 5,
  });
  server.advance(4_999);
  expect(await hit(100)).toMatchObject({ isBlocked: true, timeToBlockExpire: 1 });
  server.advance(1);
  expect(await hit(2)).toMatchObject({ totalHits: 1, isBlocked: false });
});

it("a hit of a blocked key is refused whatever its own limit is, an unlimited one too", async () => {
  for (let i = 0; i < 2; i++) await hit(1);
  for (const limit of [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, Infinity]) {
    expect(await hit(limit)).toMatchObject({ isBlocked: true, totalHits: limit + 1 });
  }
});

it("the storage of Nest's throttler refuses all hits where the limit is 0", async () => {
  expect(await hit(0)).toMatchObject({ isBlocked: true, totalHits: 1 });
});

it("the storage of Nest's throttler allows exactly the limit under concurrency", async () => {
  const all = await Promise.all(Array.from({ length: 50 }, () => hit(7)));
  expect(all.filter(({ isBlocked }) => !isBlocked)).toHaveLength(7);
  expect(new Set(all.map(({ totalHits }) => totalHits))).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8]));
});

it("keys and throttlers of Nest don't share hits, whatever their names are", async () => {
  for (const [name, key] of [
    ["a", "b:c"],
    ["a:b", "c"],
    ["a", ""],
    ["", "a"],
  ] as const) {
    expect(await hit(1, { key, name })).toMatchObject({ totalHits: 1 });
  }
});

it("a block of Nest's throttler that could not be stored is refused by the count", async () => {
  await hit(1);
  server.fate = "lost";
  await expect(hit(1)).rejects.toMatchObject({ code: expect.any(String) as string });
  server.fate = "through";
  expect(await hit(1)).toMatchObject({ isBlocked: true });
  expect(await hit(1)).toMatchObject({ isBlocked: true });
});

it("the storage of Nest's throttler agrees with a model of its contract", async () => {
  const limits = fc.record({
    ttl: fc.integer({ min: 1, max: 5_000 }),
    limit: fc.integer({ min: 0, max: 4 }),
    block: fc.integer({ min: 0, max: 8_000 }),
  });
  const steps = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 4_000 }) },
    ),
    { maxLength: 40 },
  );
  const property = fc.asyncProperty(limits, steps, async ({ ttl, limit, block }, waits) => {
    const engine = new EngineServer();
    const tested = new ThrottrStorage({ throttr: engine.client });
    const model = new Model(ttl, limit, block);
    let nowMs = 0;
    for (const waitMs of waits) {
      engine.advance(waitMs);
      nowMs += waitMs;
      expect(await tested.increment("k", ttl, limit, block, "default")).toEqual(model.hit(nowMs));
    }
  });
  await fc.assert(property, { seed: inject("seed"), numRuns: runs(400) });
});

/** One key: hits in windows that begin with their first hit, and a block that ends with a fresh start. */
class Model {
  readonly #ttl: number;
  readonly #limit: number;
  readonly #block: number;
  #hits = 0;
  #isBlocked = false;
  #endsAtMs = -1;

  constructor(ttl: number, limit: number, block: number) {
    this.#ttl = ttl;
    this.#limit = limit;
    this.#block = block;
  }

  hit(nowMs: number): ThrottlerHits {
    if (nowMs >= this.#endsAtMs) {
      this.#hits = 0;
      this.#isBlocked = false;
      this.#endsAtMs = nowMs + this.#ttl;
    }
    if (!this.#isBlocked && this.#hits <= this.#limit) this.#hits++;
    const isRefused = this.#hits > this.#limit;
    if (isRefused && !this.#isBlocked && this.#block > 0) {
      this.#isBlocked = true;
      this.#endsAtMs = nowMs + this.#block;
    }
    const seconds = Math.ceil((this.#endsAtMs - nowMs) / 1000);
    return {
      totalHits: this.#hits,
      timeToExpire: seconds,
      isBlocked: isRefused,
      timeToBlockExpire: isRefused ? seconds : 0,
    };
  }
}
