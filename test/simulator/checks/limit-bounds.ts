/** What a strategy admits, for charges of which each was made at some moment of a span. Written from the text of the strategies. */
import type {
  BucketConfiguration,
  RateLimitConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import { intervalViolation } from "./limit-intervals.ts";
import {
  exactFigures,
  giftsBeyond,
  givenWithin,
  ROUNDING,
  type Figure,
  type LimitTrack,
} from "./limit-track.ts";
import { slidingFigureViolation, slidingViolation } from "./limit-sliding.ts";
import { windowsViolation } from "./limit-windows.ts";
import type { ObjectTime } from "./object-time.ts";

/** What was granted too much; null when all is well. */
export function boundViolation(
  configuration: RateLimitConfiguration,
  track: LimitTrack,
  clocks: ClockHistory,
  object: string,
): string | null {
  switch (configuration.strategy) {
    case "fixed_window":
      return windowsViolation(configuration.quotas, "", track, clocks, object);
    case "sliding_window":
      return slidingViolation(configuration, track, clocks, object);
    case "composite":
      return (
        windowsViolation(configuration.primary.quotas, "primary_", track, clocks, object) ??
        bucketViolation(configuration.secondary, track, clocks, object)
      );
    default:
      return bucketViolation(configuration, track, clocks, object);
  }
}

/** Units a ms. GCRA counts in whole nanoseconds between two units. */
function rateOf({ strategy, rate }: BucketConfiguration): number {
  return strategy === "gcra" ? 1e6 / Math.trunc(1e9 / rate) : rate / 1e3;
}

/** Over every interval a bucket grants at most its burst and what it gains meanwhile. */
function bucketViolation(
  configuration: BucketConfiguration,
  track: LimitTrack,
  clocks: ClockHistory,
  object: string,
): string | null {
  const { burst } = configuration;
  const rate = rateOf(configuration);
  return intervalViolation(track, burst, (from, toMs) => {
    const passed = clocks.elapsed(object, from, { fromMs: toMs, toMs }).toMs;
    return burst + rate * passed;
  });
}

/** A bucket of a configuration, with the name of its figures. */
function bucketWithName(
  configuration: RateLimitConfiguration,
): [BucketConfiguration, string] | null {
  switch (configuration.strategy) {
    case "fixed_window":
    case "sliding_window":
      return null;
    case "composite":
      return [configuration.secondary, "secondary_default"];
    default:
      return [configuration, "default"];
  }
}

/**
 * Whether figures of a limit contradict each other: between two of them a charge was lost, or made twice. Fixed windows are
 * compared within a window, and each figure of a sliding one with the charges that it counts.
 */
export function figureViolation(
  configuration: RateLimitConfiguration,
  track: LimitTrack,
  time: ObjectTime,
): string | null {
  const bucket = bucketWithName(configuration);
  if (bucket !== null) {
    const [{ burst }, name] = bucket;
    const rate = rateOf(bucket[0]);
    const violation = pairViolation(name, track, burst, (from, to) => {
      const passed = time.elapsed(from.span, to.span);
      return { fromMs: rate * passed.fromMs, toMs: rate * passed.toMs };
    });
    if (violation !== null) return violation;
  }
  if (!time.isSteady) return null;
  if (configuration.strategy === "sliding_window") {
    return slidingFigureViolation(configuration, track, time);
  }
  const [quotas, prefix] =
    configuration.strategy === "fixed_window"
      ? [configuration.quotas, ""]
      : configuration.strategy === "composite"
        ? [configuration.primary.quotas, "primary_"]
        : [[], ""];
  for (const { name, limit, windowNs } of quotas) {
    const quota = prefix + name;
    const isSameWindow = (a: Figure, b: Figure): boolean => {
      const [first, second] = [a.result.quotas[quota]?.reset, b.result.quotas[quota]?.reset];
      const areKnown = typeof first === "number" && typeof second === "number";
      return areKnown && Math.abs(first - second) < Math.min(2, Number(windowNs) / 2e6);
    };
    const violation = pairViolation(quota, track, limit, (a, b) =>
      isSameWindow(a, b) ? NOTHING : null,
    );
    if (violation !== null) return violation;
  }
  return null;
}

const NOTHING: MsSpan = { fromMs: 0, toMs: 0 };

/**
 * @param most units when a limit is fresh
 * @param gained by a limit between two figures, at least and at most: less than 0 where a restart may have taken time back that only
 * reads have seen; null where they can't be compared
 */
function pairViolation(
  name: string,
  track: LimitTrack,
  most: number,
  gained: (from: Figure, to: Figure) => MsSpan | null,
): string | null {
  const { charges, gifts } = track;
  const said = exactFigures(track).filter(({ result }) => result.quotas[name] !== undefined);
  for (const [i, later] of said.entries()) {
    for (const earlier of endedBefore(said, i)) {
      const gain = gained(earlier, later);
      if (gain === null) continue;
      const first = earlier.result.quotas[name]!.remaining;
      const last = later.result.quotas[name]!.remaining;
      let least = 0;
      let greatest = 0;
      for (const { span, least: certain, most: possible, mostAfter = possible } of charges) {
        const isBetween = span.fromMs > earlier.span.toMs && span.toMs < later.span.fromMs;
        if (isBetween) least += certain;
        if (isBetween) greatest += mostAfter;
        else if (span.fromMs <= later.span.toMs && span.toMs >= earlier.span.fromMs)
          greatest += possible;
      }
      const between = { fromMs: earlier.span.fromMs, toMs: later.span.toMs };
      const amid = { fromMs: earlier.span.toMs, toMs: later.span.fromMs };
      const given = givenWithin(giftsBeyond(gifts, amid), between, most);
      const high = Math.min(most, first + 1 + gain.toMs + given - least) - later.cost;
      // A limit that is full gains nothing, so all charges may have come after that. The charge of the first is in its figure.
      const low = Math.min(most, first + gain.fromMs) - greatest + earlier.cost - 1;
      const text = `${name}: ${first} were left after ${earlier.by}, and ${last} after ${later.by}`;
      if (last > high + ROUNDING) {
        return `${text}: a charge is lost, as at most ${high.toFixed(3)} can be left`;
      }
      if (last < low - ROUNDING) {
        return `${text}: too much was charged, as at least ${low.toFixed(3)} must be left`;
      }
    }
  }
  return null;
}

/** Some figures that were surely earlier: the latest of them, which say more than older ones. */
function endedBefore(said: readonly Figure[], i: number): Figure[] {
  const { fromMs } = said[i]!.span;
  const before: Figure[] = [];
  for (let j = i - 1; j >= 0 && before.length < PAIRS_MAX; j--) {
    if (said[j]!.span.toMs < fromMs) before.push(said[j]!);
  }
  return before;
}

const PAIRS_MAX = 6;
