/** An isolate alone, at random: what its limiter refuses is granted after the wait that it names, or says that none helps. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  RateLimiter,
  slidingWindow,
  tokenBucket,
  type RateLimitResult,
} from "../../src/ratelimit/index.ts";
import { settle } from "../support/rate-limits/backend.ts";
import { DrawServer, IsolateClock } from "../support/rate-limits/drawing.ts";
import { runs } from "../support/runs.ts";

/** All have room for 20 at most, and units that live for 200 ms. */
const BUCKET = { burst: 20, rate: 10 };
const WINDOW = { limit: 20, windowMs: 2_000 };
const STRATEGIES = {
  "token bucket": tokenBucket(BUCKET),
  "leaky bucket": leakyBucket(BUCKET),
  GCRA: gcra(BUCKET),
  "fixed window": fixedWindow(WINDOW),
  "sliding window": slidingWindow(WINDOW),
  composite: composite({
    primary: fixedWindow({ limit: 30, windowMs: 5_000 }),
    secondary: tokenBucket(BUCKET),
  }),
};
const LIMIT = 20;

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ costs: fc.array(fc.integer({ min: 1, max: 25 })) }) },
  { weight: 4, arbitrary: fc.record({ costs: fc.array(fc.constant(1), { maxLength: 20 }) }) },
  { weight: 3, arbitrary: fc.record({ waitMs: fc.integer({ min: 1, max: 900 }) }) },
);

it.each(Object.entries(STRATEGIES))(
  "a limiter with local and a %s grants a refused cost after its wait",
  async (_, strategy) => {
    let refused = 0;
    const property = fc.asyncProperty(
      fc.array(step, { size: "max", maxLength: 40 }),
      async (all) => {
        const clock = new IsolateClock();
        const throttr = new DrawServer(clock);
        const limiter = new RateLimiter({ throttr, name: "api", strategy, clock, local: true });
        const ask = async (cost: number): Promise<RateLimitResult> => {
          const result = await limiter.limit("ada", { cost });
          await settle();
          return result;
        };
        for (const next of all) {
          if ("waitMs" in next) await clock.advance(next.waitMs);
          else for (const cost of next.costs) await ask(cost);
          const never = await ask(LIMIT + 1);
          expect(never).toMatchObject({ reason: "cost_exceeds_limit", retryAfterMs: null });
        }
        for (const cost of [1, LIMIT]) {
          const { success, retryAfterMs, local } = await ask(cost);
          // A greater cost than the one that the server has refused may have to wait longer.
          if (success || (local && cost > 1)) continue;
          refused++;
          await clock.advance(retryAfterMs!);
          expect((await ask(cost)).success).toBe(true);
        }
      },
    );
    await fc.assert(property, { seed: inject("seed"), numRuns: runs(100) });
    expect(refused).toBeGreaterThan(0);
  },
);
