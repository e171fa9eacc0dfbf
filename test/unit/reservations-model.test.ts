/** Reservations against a model of what they promise: exact alone, never too much among others, the same over restarts. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ReservationModel } from "../support/models/reservations.ts";
import { ReservationRun, type ReservationStep } from "../support/rate-limits/reservation-run.ts";
import { ReservingShard } from "../support/rate-limits/reserving-shard.ts";
import { strategiesOf } from "../support/rate-limits/strategies.ts";
import { runs } from "../support/runs.ts";

const PARAMETERS = { seed: inject("seed"), numRuns: runs(300) };

const amount = fc.integer({ min: 1, max: 900 });
/** Several fit a limit, so that some are open while others come. */
const cost = fc.integer({ min: 1, max: 300 });
/** A unit or two in each millisecond, so that amounts are whole. */
const rate = fc.constantFrom(1000, 2000);
const windowMs = fc.integer({ min: 100, max: 4000 });
const STRATEGIES = strategiesOf({ limit: amount, rate, windowMs });

const waitMs = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 400 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 4000 }) },
);
const ttlMs = fc.integer({ min: 1000, max: 8000 });
/** Less than was reserved, nothing, or more. */
const real = fc.oneof(fc.integer({ min: 0, max: 500 }), fc.constant(0));

const step: fc.Arbitrary<ReservationStep> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("limit"), cost }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("refund"), cost }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("wait"), ms: waitMs }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("reserve"), cost, ttlMs }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("settle"), which: fc.nat(), cost: real }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("snapshot") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reset") }) },
) as fc.Arbitrary<ReservationStep>;

describe.each(STRATEGIES)("reservations of a %s", (_, strategies) => {
  it("reservations among other callers never let more through than the settled costs allow", () => {
    const property = fc.property(
      strategies,
      fc.array(step, { maxLength: 60, size: "max" }),
      (strategy, steps) => {
        const run = new ReservationRun(strategy, true);
        for (const next of steps) run.take(next);
      },
    );
    fc.assert(property, PARAMETERS);
  });

  it("a restart at any moment changes no answer", () => {
    const property = fc.property(
      strategies,
      fc.array(step, { maxLength: 60, size: "max" }),
      (strategy, steps) => {
        const [restarting, steady] = [
          new ReservationRun(strategy, true),
          new ReservationRun(strategy, false),
        ];
        for (const next of steps) {
          restarting.take(next);
          steady.take(next);
        }
        expect(restarting.answers).toEqual(steady.answers);
      },
    );
    fc.assert(property, PARAMETERS);
  });

  it("a reservation without other callers leaves what its real cost would have left at its moment", () => {
    const alone = fc.record({ cost, waitMs, ttlMs: fc.constant(10_000), real });
    const before = fc.array(
      fc.oneof(
        fc.record({ do: fc.constant("limit" as const), cost }),
        fc.record({ do: fc.constant("wait" as const), ms: waitMs }),
      ),
      { maxLength: 8 },
    );
    const property = fc.property(
      strategies,
      fc.array(fc.tuple(before, alone), { maxLength: 6 }),
      (strategy, rounds) => {
        const shard = new ReservingShard(strategy);
        const model = new ReservationModel(strategy);
        for (const [steps, { cost, waitMs, ttlMs, real }] of rounds) {
          for (const next of steps) {
            if (next.do === "wait") shard.nowMs += next.ms;
            else if (shard.limit(next.cost).success) model.charge(shard.nowMs, next.cost);
          }
          const { id } = shard.reserve(cost, ttlMs);
          expect(id !== null).toBe(model.has(shard.nowMs, cost));
          if (id === null) continue;
          const held = model.charge(shard.nowMs, cost);
          shard.nowMs += waitMs;
          const answer = shard.settle(id, real);
          model.settle(shard.nowMs, held, real);
          expect(answer.remaining).toBe(model.remaining(shard.nowMs));
          const { retryAfterMs } = shard.peek();
          expect(model.has(shard.nowMs + retryAfterMs!, 1)).toBe(true);
          if (retryAfterMs !== 0) expect(model.has(shard.nowMs + retryAfterMs! - 1, 1)).toBe(false);
        }
      },
    );
    fc.assert(property, PARAMETERS);
  });
});

it.each(["token_bucket", "leaky_bucket", "gcra"] as const)(
  "a reservation of a %s that is released leaves the bucket full, whatever has refilled until then",
  (strategy) => {
    const arbitrary = fc.record({
      burst: fc.integer({ min: 1, max: 50 }),
      rate: fc.integer({ min: 1, max: 500_000 }).map((hundredths) => hundredths / 100),
      cost: fc.integer({ min: 1, max: 50 }),
      /** Of the time in which what is reserved would refill. */
      share: fc.integer({ min: 0, max: 1200 }).map((thousandths) => thousandths / 1000),
    });
    const property = fc.property(arbitrary, ({ burst, rate, cost, share }) => {
      const shard = new ReservingShard({ strategy, burst, rate });
      const reserved = Math.min(cost, burst);
      const { id } = shard.reserve(reserved, 86_400_000);
      shard.nowMs += Math.floor(((reserved * share) / rate) * 1000);
      expect(shard.settle(id, 0).remaining).toBe(burst);
    });
    fc.assert(property, { ...PARAMETERS, numRuns: runs(2000) });
  },
);
