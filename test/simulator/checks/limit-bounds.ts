/** What a strategy admits, for charges of which each was made at some moment of a span. Written from the text of the strategies. */
import type { LimitResult } from "../../../src/wire/edge/limit.ts";
import type {
  BucketConfiguration,
  QuotaConfiguration,
  RateLimitConfiguration,
  SlidingWindowConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import type { ObjectTime } from "./object-time.ts";

/** Units that left a limit. */
export interface Charge {
  /** When it was made, in true time. */
  readonly span: MsSpan;
  /** Units that a client was granted for certain. */
  readonly least: number;
  /** Units that it may have taken. */
  readonly most: number;
  /** What it has taken once its span is over, where a part came back within: `most` unless given. */
  readonly mostAfter?: number;
  readonly result: LimitResult | null;
  readonly by: string;
}

/** Units that came back. */
export interface Gift {
  readonly span: MsSpan;
  readonly units: number;
  /** More may be granted for it; else a charge that was never granted is taken back. */
  readonly isFreeOfCharge: boolean;
}

/** What a limit said is left, after a charge of its own. */
export interface Figure {
  readonly span: MsSpan;
  readonly cost: number;
  readonly result: LimitResult;
  readonly by: string;
}

/** All that happened to a limit. */
export interface LimitTrack {
  readonly charges: Charge[];
  readonly gifts: Gift[];
  readonly figures: Figure[];
  /** False where something else changes what is left: allowances, relaxed calls, debts. */
  isExact: boolean;
}

/** Doubles and whole units are rounded. */
const ROUNDING = 1e-6;

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

/**
 * Whether more was granted in some interval than it admits.
 *
 * @param least what the shortest interval admits
 * @param admitted of the interval that begins with a charge, which was executed within `from`: where a clock is set meanwhile,
 * a later moment may lie further back by it
 */
function intervalViolation(
  { charges, gifts }: LimitTrack,
  least: number,
  admitted: (from: MsSpan, toMs: number) => number,
): string | null {
  const granted = charges.filter((charge) => charge.least > 0 && charge.span.toMs < Infinity);
  if (granted.reduce((sum, charge) => sum + charge.least, 0) <= least) return null;
  const byEnd = granted.toSorted((a, b) => a.span.toMs - b.span.toMs);
  const free = gifts.filter(({ isFreeOfCharge }) => isFreeOfCharge);
  for (const { span } of granted) {
    const { fromMs } = span;
    let sum = 0;
    for (const charge of byEnd) {
      if (charge.span.fromMs < fromMs) continue;
      sum += charge.least;
      if (sum <= least) continue;
      const { toMs } = charge.span;
      const most = admitted(span, toMs) + givenWithin(free, { fromMs, toMs });
      if (sum <= most * (1 + ROUNDING)) continue;
      return (
        `${sum} units were granted within ${(toMs - fromMs).toFixed(1)} ms, where ${most.toFixed(3)} are allowed;` +
        ` the last of them by ${charge.by}`
      );
    }
  }
  return null;
}

function givenWithin(gifts: readonly Gift[], { fromMs, toMs }: MsSpan): number {
  let units = 0;
  for (const { span, units: given } of gifts) {
    if (span.fromMs <= toMs && span.toMs >= fromMs) units += given;
  }
  return units;
}

/** In each window of a quota at most its limit is granted. The result of a grant says which window it was. */
function windowsViolation(
  quotas: readonly QuotaConfiguration[],
  prefix: string,
  track: LimitTrack,
  clocks: ClockHistory,
  object: string,
): string | null {
  const timeOf = ({ fromMs, toMs }: MsSpan): MsSpan => clocks.spanOf(object, fromMs, toMs);
  for (const { name, limit, windowNs } of quotas) {
    const windowMs = Number(windowNs) / 1e6;
    const violation =
      (clocks.isSteady(object)
        ? windowViolation(prefix + name, { limit, windowMs }, track, timeOf)
        : null) ??
      intervalViolation(track, limit, (from, toMs) => {
        const passed = clocks.elapsed(object, from, { fromMs: toMs, toMs }).toMs;
        return limit * (Math.floor(passed / windowMs) + 2);
      });
    if (violation !== null) return `${prefix}${name}: ${violation}`;
  }
  return null;
}

/** @param timeOf the object's time in a span of true time */
function windowViolation(
  name: string,
  { limit, windowMs }: { readonly limit: number; readonly windowMs: number },
  track: LimitTrack,
  timeOf: (span: MsSpan) => MsSpan,
): string | null {
  const free = track.gifts.filter(({ isFreeOfCharge }) => isFreeOfCharge);
  const windows = windowsOf(name, windowMs, track.charges);
  placeByTime(track.charges, windows, timeOf);
  for (const { fromMs, toMs, charges } of windows) {
    const granted = charges.reduce((sum, { least }) => sum + least, 0);
    if (granted <= limit) continue;
    const most = limit + givenWithin(free, { fromMs, toMs });
    if (granted > most) {
      return `${granted} units were granted in the window that ends at ${toMs}, where ${most} are allowed; the last of them by ${charges.at(-1)!.by}`;
    }
  }
  return null;
}

/** Ends of windows are rounded up to a ms. */
const ENDS_MS = 2;

interface CountedWindow extends MsSpan {
  toMs: number;
  readonly charges: Charge[];
}

/**
 * Charges by the window that they were counted in. Windows begin at least their length apart; one may begin anew before its end
 * if all was given back: that counts as one.
 */
function windowsOf(name: string, windowMs: number, charges: readonly Charge[]): CountedWindow[] {
  const ends = charges.flatMap((charge) => {
    const end = charge.result?.quotas[name]?.reset;
    return charge.least > 0 && typeof end === "number" ? [{ charge, end }] : [];
  });
  const windows: CountedWindow[] = [];
  let firstEnd = -Infinity;
  for (const { charge, end } of ends.toSorted((a, b) => a.end - b.end)) {
    if (end - firstEnd >= Math.max(ENDS_MS, windowMs / 2)) {
      firstEnd = end;
      windows.push({ fromMs: end - windowMs - ENDS_MS, toMs: end, charges: [] });
    }
    const window = windows.at(-1)!;
    window.toMs = end;
    window.charges.push(charge);
  }
  return windows;
}

/**
 * Adds charges without a result to the windows that they were surely counted in: their span is within one window, and in no other
 * one. Where units of a window were given back, so that another one may have begun within it, there is a gift of that time.
 */
function placeByTime(
  charges: readonly Charge[],
  windows: readonly CountedWindow[],
  timeOf: (span: MsSpan) => MsSpan,
): void {
  for (const charge of charges) {
    if (charge.least === 0 || charge.result !== null) continue;
    const at = timeOf(charge.span);
    const [window, other] = windows.filter(
      ({ fromMs, toMs }) => fromMs <= at.toMs && at.fromMs <= toMs,
    );
    if (window === undefined || other !== undefined) continue;
    if (at.fromMs >= window.fromMs + ENDS_MS && at.toMs <= window.toMs - ENDS_MS)
      window.charges.push(charge);
  }
}

/** What the two buckets on the grid of the epoch have for certain, the previous one by the share that is covered for certain. */
function slidingViolation(
  { limit, windowNs }: SlidingWindowConfiguration,
  { charges, gifts }: LimitTrack,
  clocks: ClockHistory,
  object: string,
): string | null {
  const windowMs = Number(windowNs) / 1e6;
  const placed = charges
    .filter(({ least, span }) => least > 0 && span.toMs < Infinity)
    .map((charge) => ({ charge, at: clocks.spanOf(object, charge.span.fromMs, charge.span.toMs) }))
    .map(({ charge, at }) => ({ charge, at, bucket: bucketOf(at, windowMs) }));
  const free = gifts.filter(({ isFreeOfCharge }) => isFreeOfCharge);
  for (const { charge, at, bucket } of placed) {
    if (bucket === null) continue;
    let current = charge.least;
    let previous = 0;
    for (const other of placed) {
      if (other.charge.span.toMs >= charge.span.fromMs) continue;
      if (other.bucket === bucket) current += other.charge.least;
      if (other.bucket === bucket - 1) previous += other.charge.least;
    }
    const covered = Math.max(0, (bucket + 1) * windowMs - at.toMs) / windowMs;
    const counted = previous * covered + current;
    if (counted <= limit * (1 + ROUNDING)) continue;
    const { span } = charge;
    const most = limit + givenWithin(free, { fromMs: span.fromMs - 2 * windowMs, toMs: span.toMs });
    if (counted > most * (1 + ROUNDING)) {
      return `${current} units were granted after ${previous} in the window before, where ${most} are allowed; the last of them by ${charge.by}`;
    }
  }
  return null;
}

/** Null where it is not certain. */
function bucketOf({ fromMs, toMs }: MsSpan, windowMs: number): number | null {
  const bucket = Math.floor(fromMs / windowMs);
  return bucket === Math.floor(toMs / windowMs) ? bucket : null;
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
 * compared within a window; sliding ones are not.
 */
export function figureViolation(
  configuration: RateLimitConfiguration,
  track: LimitTrack,
  time: ObjectTime,
): string | null {
  if (!track.isExact) return null;
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
  { charges, gifts, figures }: LimitTrack,
  most: number,
  gained: (from: Figure, to: Figure) => MsSpan | null,
): string | null {
  const said = figures.filter(({ result }) => result.quotas[name] !== undefined);
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
      const given = givenWithin(gifts, { fromMs: earlier.span.fromMs, toMs: later.span.toMs });
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
