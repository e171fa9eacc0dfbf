/** All strategies of rate limits, with limits that grant every check of a measurement. */
import type { LimitStrategy } from "../../src/wire/edge/limit.ts";
import { BUCKET } from "./workers/check-load.ts";

export type StrategyName = LimitStrategy["strategy"];

const { burst, ratePerS: rate } = BUCKET;
const LIMIT = 1e9;
const WINDOW_MS = 3_600_000;
const GCRA = { strategy: "gcra", burst, rate } as const;
const FIXED_WINDOW = {
  strategy: "fixed_window",
  quotas: [{ name: "hourly", limit: LIMIT, windowMs: WINDOW_MS }],
} as const;

export const STRATEGIES: Readonly<Record<StrategyName, LimitStrategy>> = {
  token_bucket: { strategy: "token_bucket", burst, rate },
  leaky_bucket: { strategy: "leaky_bucket", burst, rate },
  gcra: GCRA,
  fixed_window: FIXED_WINDOW,
  sliding_window: { strategy: "sliding_window", limit: LIMIT, windowMs: WINDOW_MS },
  composite: { strategy: "composite", primary: FIXED_WINDOW, secondary: GCRA },
};
