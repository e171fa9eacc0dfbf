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

export function outcomeOf(read: () => LimitOutcome): LimitOutcome | Open {
  try {
    return read();
  } catch (error) {
    const { code } = ThrottrError.from(error);
    if (code === ENDED) return { success: false, isEnded: true };
    return REFUSALS.includes(phaseOf(code)) && code !== APPLIED ? "refused" : "unknown";
  }
}
