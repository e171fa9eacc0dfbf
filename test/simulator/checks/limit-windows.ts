/** What fixed windows admit: at most the limit in each, and each after the end of the one before. */
import type { QuotaConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import { intervalViolation } from "./limit-intervals.ts";
import { givenWithin, type Charge, type LimitTrack } from "./limit-track.ts";

/** In each window of a quota at most its limit is granted. The result of a grant says which window it was. */
export function windowsViolation(
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
        ? (windowViolation(prefix + name, { limit, windowMs }, track, timeOf) ??
          earlyViolation(prefix + name, windowMs, track))
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
    const most = limit + givenWithin(free, { fromMs, toMs }, limit);
    if (granted > most) {
      return `${granted} units were granted in the window that ends at ${toMs}, where ${most} are allowed; the last of them by ${charges.at(-1)!.by}`;
    }
  }
  return null;
}

/** Ends of windows are rounded up to a ms. */
const ENDS_MS = 2;

/** A grant, and the end of the window that it was counted in. */
interface EndOfCharge {
  readonly charge: Charge;
  readonly end: number;
}

/** In the order of the ends. */
const endsOf = (name: string, charges: readonly Charge[]): EndOfCharge[] =>
  charges
    .flatMap((charge) => {
      const end = charge.result?.quotas[name]?.reset;
      return charge.least > 0 && typeof end === "number" ? [{ charge, end }] : [];
    })
    .toSorted((a, b) => a.end - b.end);

/**
 * A window that began before the one before it had ended. It may where all units of that came back, as it has not started then. The
 * clock of its object was never set.
 */
function earlyViolation(name: string, windowMs: number, track: LimitTrack): string | null {
  const { gifts, exactUntilMs } = track;
  const exact = track.charges.filter(({ span }) => span.toMs < exactUntilMs);
  let first: EndOfCharge | null = null;
  for (const next of endsOf(name, exact)) {
    const apartMs = first === null ? Infinity : next.end - first.end;
    if (apartMs < ENDS_MS) continue;
    const before = first;
    first = next;
    if (before === null || apartMs >= windowMs - ENDS_MS) continue;
    const span = { fromMs: before.end - windowMs - ENDS_MS, toMs: before.end };
    if (givenWithin(gifts, span, Infinity) > 0) continue;
    return (
      `a window that ends at ${next.end} began while the one that ends at ${before.end} lasted:` +
      ` counted by ${next.charge.by}, and ${before.charge.by}`
    );
  }
  return null;
}

interface CountedWindow extends MsSpan {
  toMs: number;
  readonly charges: Charge[];
}

/**
 * Charges by the window that they were counted in. Windows begin at least their length apart; one may begin anew before its end
 * if all was given back: that counts as one.
 */
function windowsOf(name: string, windowMs: number, charges: readonly Charge[]): CountedWindow[] {
  const windows: CountedWindow[] = [];
  let firstEnd = -Infinity;
  for (const { charge, end } of endsOf(name, charges)) {
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
