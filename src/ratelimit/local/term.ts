/** How long units of a limit may be spent after they were drawn. */
import type { LimitStrategy } from "../../wire/edge/limit.ts";

/** An allowance lives at most a tenth of its window, so no bound is more than 10 % above its limit. */
const TERM_PARTS = 10;
/** A message to a shard takes about as long: units that live no longer would be gone before they can be spent. */
const TERM_MS_MIN = 20;

/**
 * The longest life of drawn units, ms; null where it is so short that every decision is better asked for.
 *
 * @param leaseMs what the limiter is configured to
 */
export function termMsOf(strategy: LimitStrategy, leaseMs: number): number | null {
  const termMs = Math.min(leaseMs, Math.min(...windowsMs(strategy)) / TERM_PARTS);
  return termMs < TERM_MS_MIN ? null : termMs;
}

/**
 * Whether units that were not spent are worth a message of their own: in a short window they would soon be forgotten
 * anyway.
 */
export function isLongerThan(strategy: LimitStrategy, termMs: number): boolean {
  return Math.max(...windowsMs(strategy)) > TERM_PARTS * termMs;
}

/** The windows of a strategy, ms; of a bucket the time in which it fills. */
function windowsMs(strategy: LimitStrategy): readonly number[] {
  switch (strategy.strategy) {
    case "fixed_window":
      return strategy.quotas.map(({ windowMs }) => windowMs);
    case "sliding_window":
      return [strategy.windowMs];
    case "composite":
      return [...windowsMs(strategy.primary), ...windowsMs(strategy.secondary)];
    default:
      return [(strategy.burst / strategy.rate) * 1_000];
  }
}
