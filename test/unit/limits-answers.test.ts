/**
 * What a shard says of a limit, at random, while it charges, gives back, reserves, settles, draws, cancels and restarts: a refused
 * cost is granted after its wait and not a millisecond before, and as much is granted as remains.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import type { LimitResult, LimitStrategy } from "../../src/wire/edge/limit.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { resultOf, together } from "../support/rate-limits/limit-all.ts";
import { ReservingShard } from "../support/rate-limits/reserving-shard.ts";
import { strategiesOf } from "../support/rate-limits/strategies.ts";
import { runs } from "../support/runs.ts";

const limit = fc.integer({ min: 1, max: 30 });
const rate = fc.constantFrom(0.3, 1, 3, 7.7, 100, 999.9);
const windowMs = fc.constantFrom(3, 50, 1000, 1500.5, 60_000);
const STRATEGIES = strategiesOf({ limit, rate, windowMs });

const NAMES = [
  "limit",
  "refund",
  "draw",
  "reserve",
  "settle",
  "charge",
  "cancel",
  "restart",
] as const;
const step = fc.record({
  do: fc.constantFrom(...NAMES),
  cost: fc.integer({ min: 1, max: 12 }),
  /** A real cost, or units that come back. */
  amount: fc.nat(20),
  waitMs: fc.constantFrom(0, 0, 1, 7, 49, 50, 333, 1000, 2500, 60_000),
});

/** Steps on one shard, with what is open in it. */
class Steps {
  readonly shard: ReservingShard;
  readonly #reservations: string[] = [];
  readonly #charges: { readonly id: string; readonly cost: number }[] = [];
  #returns: operations.DrawReturn[] = [];

  constructor(strategy: LimitStrategy) {
    this.shard = new ReservingShard(strategy);
  }

  get target() {
    return { name: "api", key: "ada", strategy: this.shard.strategy };
  }

  take({ do: name, cost, amount }: typeof step extends fc.Arbitrary<infer Step> ? Step : never) {
    const { shard, target } = this;
    const { nowMs, engine } = shard;
    switch (name) {
      case "limit":
        return void shard.limit(cost);
      case "refund":
        return void shard.refund(cost);
      case "draw": {
        const returns = this.#returns;
        const drawn = shard.call(operations.draw({ ...target, cost, wanted: amount, returns }));
        const { draw, units } = drawn;
        this.#returns = draw === null ? [] : [{ draw, units: Math.min(units, amount) }];
        return;
      }
      case "reserve": {
        const { id } = shard.reserve(cost, 86_400_000);
        if (id !== null) this.#reservations.push(id);
        return;
      }
      case "settle": {
        const id = this.#reservations.pop();
        if (id !== undefined) shard.settle(id, amount);
        return;
      }
      case "charge": {
        const id = shard.newId();
        const call = together({ ...target, cost });
        const { success } = resultOf(call, engine.limitAll(call.body, id, nowMs));
        if (success) this.#charges.push({ id, cost });
        return;
      }
      case "cancel": {
        const charge = this.#charges.pop();
        if (charge === undefined) return;
        const { body } = together({ ...target, cost: charge.cost });
        assert.equal(engine.cancelLimits(body, charge.id, nowMs), null);
        return;
      }
      case "restart":
        return shard.restart();
    }
  }
}

it.each(STRATEGIES)("a shard does what it says of a %s", (_, strategies) => {
  let refused = 0;
  const property = fc.property(
    strategies,
    fc.array(step, { size: "max", maxLength: 30 }),
    (strategy, all) => {
      const steps = new Steps(strategy);
      const { shard, target } = steps;
      const later = (afterMs: number, cost: number): LimitResult =>
        shard.callLater(afterMs, operations.limit({ ...target, cost }));
      for (const next of all) {
        shard.nowMs += next.waitMs;
        steps.take(next);
        const { remaining } = shard.peek();
        if (remaining > 0) expect(later(0, remaining).success).toBe(true);
        for (const cost of [1, next.cost, remaining + 1]) {
          const { success, reset, retryAfterMs } = later(0, cost);
          expect(success).toBe(cost <= remaining);
          if (success || retryAfterMs === null) continue;
          refused++;
          expect(reset).toBe(shard.nowMs + retryAfterMs);
          expect(later(retryAfterMs, cost).success).toBe(true);
          expect(later(retryAfterMs - 1, cost).success).toBe(false);
        }
      }
    },
  );
  fc.assert(property, { seed: inject("seed"), numRuns: runs(40) });
  expect(refused).toBeGreaterThan(0);
});
