/** What becomes of calls whose attempt came to nothing: none that may have been applied is applied again. */
import type { ThrottrError } from "../../wire/edge/error.ts";
import { outcomeUnknown, type Call } from "./call.ts";

/**
 * The calls that are to be sent again after an attempt that failed; the others fail.
 *
 * @param error of the attempt: `connection_failed`, none was sent; `outcome_unknown`, some may have been
 * applied; any other, the server has refused them all, and nothing was applied
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
 * Connections that end with these are ended in order: all that was begun is answered, and what is
 * unanswered was not applied. The first two say that the next frame is one which can't be read.
 */
const UNREADABLE: readonly string[] = ["frame_too_large", "request_type_unknown"];
const EXPIRED = "token_expired";

/** The calls that are to be sent again after a connection was lost; the others fail. */
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
