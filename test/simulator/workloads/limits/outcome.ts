/** What an answer of a limit says, or that it says nothing. */
import { Phase, phaseOf } from "../../../../src/wire/edge/codes.ts";
import { ThrottrError } from "../../../../src/wire/edge/error.ts";
import type { LimitOutcome } from "../../checks/limits.ts";
import type { Open } from "../../checks/history.ts";

const REFUSALS: readonly (string | undefined)[] = [Phase.argument, Phase.refusal];
/** It was applied before. */
const APPLIED = "answer_lost";
/** It says that a reservation does not exist. */
const ENDED = "reservation_ended";

/** @throws Error where the answer is not one of the protocol */
export function outcomeOf(read: () => LimitOutcome): LimitOutcome | Open {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ThrottrError)) throw error;
    return failureOf(error);
  }
}

/** What an error says of a limit, or of its call. */
export const failureOf = (error: unknown): LimitOutcome | Open =>
  ThrottrError.from(error).code === ENDED ? { success: false, isEnded: true } : openOf(error);

/** What an error says of its call. */
export function openOf(error: unknown): Open {
  const { code } = ThrottrError.from(error);
  return REFUSALS.includes(phaseOf(code)) && code !== APPLIED ? "refused" : "unknown";
}
