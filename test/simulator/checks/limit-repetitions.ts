/** Limit calls with idempotency keys: which of them charged, and which got the answer of an earlier one. */
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import { isAnswered, spanOf } from "./history.ts";
import type { LimitCall } from "./limits.ts";

interface RepetitionTerms {
  readonly clocks: ClockHistory;
  readonly objectOf: (key: string) => string;
  readonly answersKept: MsSpan;
}

/** Calls with one idempotency key on one limit, so far. */
interface Repeated {
  /** The first one whose answer counts now, by its place among the calls that are judged. */
  at: number;
  /** When that may have been executed. */
  since: MsSpan;
  /** The last moment of true time at which any of them may have been executed. */
  latestMs: number;
}

/**
 * A call that came while the answer of the first one was certainly kept is the same call: it may have been executed from the first begin
 * to the first answer. One that came when all answers were certainly forgotten is a call of its own. Of those between it is
 * not known: each is one of unknown outcome.
 */
export function withoutRepetitions(
  calls: readonly LimitCall[],
  { clocks, objectOf, answersKept }: RepetitionTerms,
): LimitCall[] {
  const known = new Map<string, Repeated>();
  const judged: LimitCall[] = [];
  for (const call of calls) {
    const { operation } = call;
    const once = "once" in operation ? operation.once : undefined;
    if (once === undefined || call.outcome === "refused") {
      judged.push(call);
      continue;
    }
    const name = JSON.stringify([operation.name, operation.key, once]);
    const span = spanOf(call);
    const first = known.get(name);
    if (first === undefined) {
      known.set(name, { at: judged.length, since: span, latestMs: span.toMs });
      judged.push(call);
      continue;
    }
    const object = objectOf(operation.key);
    const latest = { fromMs: first.latestMs, toMs: first.latestMs };
    first.latestMs = Math.max(first.latestMs, span.toMs);
    if (clocks.elapsed(object, first.since, span).toMs < answersKept.fromMs) {
      const before = judged[first.at]!;
      if (isAnswered(call) && !isAnswered(before)) {
        judged[first.at] = { ...call, begun: before.begun };
        // The first one may come when the answer of this one is forgotten.
        if (clocks.elapsed(object, span, spanOf(before)).toMs >= answersKept.fromMs)
          judged.push(before);
      }
    } else if (
      latest.toMs < span.fromMs &&
      clocks.elapsed(object, latest, span).fromMs >= answersKept.toMs
    ) {
      Object.assign(first, { at: judged.length, since: span });
      judged.push(call);
    } else judged.push({ ...call, outcome: "unknown", settled: call.ended ?? call.settled });
  }
  return judged;
}
