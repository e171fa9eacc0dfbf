/** Which relaxed calls a crash may take back: those that no row has yet, when an object is reset. */
import type { MsSpan } from "../../support/models/span.ts";
import type { Facts } from "./facts.ts";
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
