/** Which relaxed calls a crash may take back: those that no row has yet, when an object is reset. */
import type { MsSpan } from "../../support/models/span.ts";
import type { Facts } from "./facts.ts";
import { isAnswered, spanOf, type Call } from "./history.ts";
import { afterMs, beforeMs } from "./order.ts";

/** A row is promised within 50 ms; timers may be late. */
const WRITTEN_MS = 100;

/**
 * Whether an object may have lost what it executed for a relaxed call between two moments of true time.
 *
 * @param commitMsMost how long a commit takes at most: the row may have to wait for the one that is under way
 */
export function hasLostRelaxed(
  facts: Facts,
  object: string,
  { fromMs, toMs }: MsSpan,
  commitMsMost: number,
): boolean {
  const [from, to] = [beforeMs(fromMs), afterMs(toMs + WRITTEN_MS + 2 * commitMsMost)];
  return facts.wasReset(object, from, to) || facts.staleSince(object, from, to) !== from;
}

/**
 * The call, as far as its caller can rely on it: if a crash may have taken back what it did, its answer says nothing any more, and it may
 * have had an effect or none.
 *
 * @param hasLost whether that holds for what was executed between two moments of true time; null where no crash takes anything back
 */
export function asFarAsKept<Operation, Outcome>(
  call: Call<Operation, Outcome>,
  hasLost: ((executed: MsSpan) => boolean) | null,
): Call<Operation, Outcome> {
  if (hasLost === null || !isAnswered(call) || !hasLost(spanOf(call))) return call;
  return { ...call, connection: null, outcome: "unknown", settled: call.ended };
}
