/** Limits that the simulation plays: ordinary ones, and those at the ends of what people configure. */
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
} from "../../../src/ratelimit/strategies.ts";

const YEAR_MS = 365 * 86_400_000;

export const STRATEGIES: Readonly<Record<string, readonly LimitStrategy[]>> = {
  "token bucket": [
    tokenBucket({ burst: 100, rate: 10 }),
    tokenBucket({ burst: 7, rate: 1 / 3 }),
    tokenBucket({ burst: 1, rate: 1 }),
    tokenBucket({ burst: 10, rate: 3.7 }),
    tokenBucket({ burst: 1_000_000, rate: 98_765.4321 }),
    tokenBucket({ burst: 1000, rate: 1e-5 }),
    tokenBucket({ burst: 20, rate: 100 }),
  ],
  "leaky bucket": [
    leakyBucket({ burst: 60, rate: 7.3 }),
    leakyBucket({ burst: 2, rate: 0.1 }),
    leakyBucket({ burst: 5000, rate: 777.7 }),
    leakyBucket({ burst: 9, rate: 1e-6 }),
  ],
  GCRA: [
    gcra({ burst: 50, rate: 9 }),
    gcra({ burst: 1, rate: 7 }),
    gcra({ burst: 10, rate: 3 }),
    gcra({ burst: 100_000, rate: 30_011 }),
    gcra({ burst: 300, rate: 1e-4 }),
  ],
  "fixed window": [
    fixedWindow({ limit: 100, window: "1 m" }),
    fixedWindow({ limit: 20, window: "1 s" }),
    fixedWindow({ limit: 1, window: "10 s" }),
    fixedWindow({ limit: 3, window: "2 s" }),
    fixedWindow({ limit: 1000, windowMs: 5 * YEAR_MS }),
    fixedWindow({ limit: 50_000, window: "10 s" }),
  ],
  "several windows": [
    fixedWindow([
      { name: "minute", limit: 100, window: "1 m" },
      { name: "second", limit: 20, window: "1 s" },
    ]),
    fixedWindow([
      { name: "burst", limit: 5, window: "3 s" },
      { name: "minute", limit: 60, window: "1 m" },
      { name: "year", limit: 100_000, windowMs: YEAR_MS },
    ]),
  ],
  "sliding window": [
    slidingWindow({ limit: 80, window: "20 s" }),
    slidingWindow({ limit: 1, window: "1 s" }),
    slidingWindow({ limit: 10, window: "10 s" }),
    slidingWindow({ limit: 500, windowMs: YEAR_MS }),
    slidingWindow({ limit: 20_000, window: "10 s" }),
  ],
  composite: [
    composite({
      primary: fixedWindow({ limit: 100, window: "1 m" }),
      secondary: tokenBucket({ burst: 40, rate: 5 }),
    }),
    composite({
      primary: fixedWindow({ limit: 10, window: "10 s" }),
      secondary: gcra({ burst: 4, rate: 1.5 }),
    }),
    composite({
      primary: fixedWindow([
        { name: "year", limit: 1000, windowMs: YEAR_MS },
        { name: "seconds", limit: 20, window: "5 s" },
      ]),
      secondary: leakyBucket({ burst: 30, rate: 3 }),
    }),
  ],
};
