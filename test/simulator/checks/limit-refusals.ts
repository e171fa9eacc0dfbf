/**
 * Refusals: a limit refuses only what it has no room for, and says when to retry; the retry is granted unless another caller was
 * sooner. This holds for every strategy, so nothing here depends on how a strategy counts.
 */
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import {
  exactFigures,
  ROUNDING,
  type Charge,
  type Figure,
  type LimitTrack,
} from "./limit-track.ts";
import type { ObjectTime } from "./object-time.ts";

/** Ends and waits are rounded to a ms. */
const ROUNDED_MS = 1;

/** What was refused that should have been granted, or with times that can't be; null when all is well. */
export function refusalViolation(
  configuration: RateLimitConfiguration,
  track: LimitTrack,
  time: ObjectTime,
): string | null {
  for (const figure of track.figures.filter(isRefusal)) {
    const wrong = wrongRefusal(figure, time);
    if (wrong !== null) return `${wrong}: ${figure.by}`;
  }
  const exact = exactFigures(track).filter(isRefusal);
  return longViolation(configuration, exact, time) ?? retryViolation(exact, track.charges, time);
}

const isRefusal = ({ result }: Figure): boolean => !result.success;

function wrongRefusal({ span, asked, result }: Figure, time: ObjectTime): string | null {
  const { quotas, remaining, reset, retryAfterMs } = result;
  if (Object.values(quotas).every((quota) => quota.remaining >= asked)) {
    return `${asked} were refused where ${remaining} were left`;
  }
  if (reset === null || retryAfterMs === null) return null;
  const now = time.spanOf(span);
  const said = `a refusal lasts for ${retryAfterMs} ms until ${reset}`;
  if (reset < now.fromMs) return `${said}, which was over at ${now.fromMs}`;
  const beginMs = reset - retryAfterMs;
  if (beginMs < now.fromMs - ROUNDED_MS || beginMs > now.toMs + ROUNDED_MS) {
    return `${said}, and it was ${now.fromMs} to ${now.toMs} then`;
  }
  return null;
}

/** A refusal that lasts longer than all that was charged needs to come back. */
function longViolation(
  configuration: RateLimitConfiguration,
  refused: readonly Figure[],
  time: ObjectTime,
): string | null {
  // A time that is ahead of its clock runs slower.
  if (!time.isSteady) return null;
  const most = waitMsMost(configuration) * (1 + ROUNDING) + ROUNDED_MS;
  for (const { result, by } of refused) {
    const { retryAfterMs } = result;
    if (retryAfterMs === null || retryAfterMs <= most) continue;
    return `a refusal lasts for ${retryAfterMs} ms, where all comes back in ${most.toFixed(0)} ms: ${by}`;
  }
  return null;
}

/** How long a limit needs at most to be fresh again. */
function waitMsMost(configuration: RateLimitConfiguration): number {
  switch (configuration.strategy) {
    case "fixed_window":
      return Math.max(...configuration.quotas.map(({ windowNs }) => Number(windowNs) / 1e6));
    case "sliding_window":
      return (2 * Number(configuration.windowNs)) / 1e6;
    case "composite":
      return Math.max(waitMsMost(configuration.primary), waitMsMost(configuration.secondary));
    default:
      return (configuration.burst / configuration.rate) * 1e3;
  }
}

/** A refusal of what an earlier one has promised: as much or less, when its wait was over, and nothing was charged since. */
function retryViolation(
  refused: readonly Figure[],
  charges: readonly Charge[],
  time: ObjectTime,
): string | null {
  for (const [i, later] of refused.entries()) {
    const chargedMs = lastCharged(charges, later);
    for (let j = i - 1; j >= 0; j--) {
      const earlier = refused[j]!;
      if (earlier.span.fromMs <= chargedMs) break;
      const { retryAfterMs } = earlier.result;
      if (retryAfterMs === null || earlier.asked < later.asked) continue;
      if (earlier.span.toMs >= later.span.fromMs) continue;
      if (time.elapsed(earlier.span, later.span).fromMs < retryAfterMs) continue;
      return (
        `${later.asked} were refused, though ${earlier.asked} were to be granted after ${retryAfterMs} ms:` +
        ` first by ${earlier.by}, and then by ${later.by}`
      );
    }
  }
  return null;
}

/** When something may have been charged last, before a refusal or beside it. */
const lastCharged = (charges: readonly Charge[], { span }: Figure): number =>
  charges.reduce(
    (last, charge) => (charge.span.fromMs <= span.toMs ? Math.max(last, charge.span.toMs) : last),
    -Infinity,
  );
