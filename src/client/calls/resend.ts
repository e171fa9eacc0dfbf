/** Which calls are sent again after a failed attempt: never one that may have been applied and must not be repeated. */
import type { ThrottrError } from "../../wire/edge/error.ts";
import { outcomeUnknown, type Call } from "./call.ts";

/**
 * Returns the calls to send again after a failed attempt, and fails the others.
 *
 * @param error of the attempt: `connection_failed` when no call was sent; `outcome_unknown` when some may have been
 *   applied; any other code when the server refused them all, and nothing was applied
 */
export function toSendAgain(
  calls: readonly Call[],
  error: ThrottrError,
  attemptsMax: number,
): Call[] {
  return calls.filter((call) => {
    if (call.isSettled) return false;
    call.failures++;
    call.isSent = false;
    const isSpent = call.failures >= attemptsMax;
    if (error.code === "connection_failed") {
      if (isSpent) call.refuse(error);
    } else if (error.code === "outcome_unknown") {
      call.isLost = true;
      if (isSpent || !call.operation.isRepeatable) call.lose(error);
    } else {
      call.refuse(error);
    }
    return !call.isSettled;
  });
}

/**
 * With these codes the server ends a connection in order: all calls that it started are answered, and the unanswered ones
 * were not applied. The first two say that it could not read the next frame.
 */
const UNREADABLE: readonly string[] = ["frame_too_large", "request_type_unknown"];
const EXPIRED = "token_expired";

/** Returns the calls to send again after a connection was lost, and fails the others. */
export function toSendAgainAfterLoss(
  unanswered: readonly Call[],
  error: ThrottrError,
  attemptsMax: number,
): Call[] {
  const isUnreadable = UNREADABLE.includes(error.code);
  if (isUnreadable) unanswered[0]?.refuse(error);
  if (isUnreadable || error.code === EXPIRED) {
    for (const call of unanswered) call.isSent = false;
    return unanswered.filter(({ isSettled }) => !isSettled);
  }
  const lost = outcomeUnknown(`the connection was lost before the answer: ${error.message}`, error);
  return toSendAgain(unanswered, lost, attemptsMax);
}
