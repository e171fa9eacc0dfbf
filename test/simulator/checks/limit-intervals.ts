/** What was granted over all intervals of time. */
import type { MsSpan } from "../../support/models/span.ts";
import { givenWithin, ROUNDING, type LimitTrack } from "./limit-track.ts";

/**
 * Whether more was granted in some interval than it admits.
 *
 * @param least what the shortest interval admits: all of a fresh limit
 * @param admitted of the interval that begins with a charge, which was executed within `from`: where a clock is set meanwhile,
 * a later moment may lie further back by it
 */
export function intervalViolation(
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
      const most = admitted(span, toMs) + givenWithin(free, { fromMs, toMs }, least);
      if (sum <= most * (1 + ROUNDING)) continue;
      return (
        `${sum} units were granted within ${(toMs - fromMs).toFixed(1)} ms, where ${most.toFixed(3)} are allowed;` +
        ` the last of them by ${charge.by}`
      );
    }
  }
  return null;
}
