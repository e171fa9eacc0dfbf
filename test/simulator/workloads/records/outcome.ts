/** What an answer says of a record, or that it says nothing. */
import { ThrottrError } from "../../../../src/wire/edge/error.ts";
import { Phase, phaseOf } from "../../../../src/wire/edge/codes.ts";
import type { RecordAnswer } from "../../../support/models/record.ts";
import type { Open } from "../../checks/history.ts";
import { isOpenForMany } from "../ports.ts";

/** Errors that say what the record was, or that the call was made before. */
const TELLING = ["kind_mismatch", "quota_overflow", "idempotency_conflict", "answer_lost"];
const REFUSALS: readonly (string | undefined)[] = [Phase.argument, Phase.refusal];

/**
 * @param read throws what the answer is an error for
 * @throws Error where the answer is not one of the protocol
 */
export function outcomeOf(read: () => RecordAnswer): RecordAnswer | Open {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ThrottrError)) throw error;
    return openOutcomeOf(error);
  }
}

/** @param mayBeOfMany whether the call may have travelled in a message with others */
export function openOutcomeOf(error: unknown, mayBeOfMany = false): RecordAnswer | Open {
  const { code } = ThrottrError.from(error);
  if (TELLING.includes(code)) return { code };
  if (mayBeOfMany && isOpenForMany(code)) return "unknown";
  return REFUSALS.includes(phaseOf(code)) ? "refused" : "unknown";
}
