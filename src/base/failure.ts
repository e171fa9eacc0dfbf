/** What the failure of a call to a Shard means to whoever sent the frames. */

import { noteFailure, type Failure } from "./data-refusals.ts";
import { logWarning } from "./log.ts";

/** Errors with these codes are refusals: nothing of the batch has been applied. */
const REFUSALS = [
  "shards_mismatch",
  "shard_data_missing",
  "format_unknown",
  "row_version",
  "batch_version",
  "listing_lost",
  "listing_outgrown",
];

export const OUTCOME_UNKNOWN =
  "outcome_unknown: a shard failed; what was not answered may have been applied";

/** Logs what failed requests, and says what it means to whoever sent them. */
export function reportFailure(error: unknown): Failure {
  const failure = failureOf(error);
  noteFailure(failure);
  const stack = error instanceof Error ? error.stack : undefined;
  logWarning("requests_failed", { code: failure.code, error: String(error), stack });
  return failure;
}

/** Errors keep their message across objects, and nothing else: the code is its first word. */
function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  const code = refusalCode(message);
  return code === undefined
    ? { code: "outcome_unknown", message: OUTCOME_UNKNOWN }
    : { code, message };
}

/** True for an error that says that nothing has been applied, and why. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && refusalCode(error.message) !== undefined;
}

function refusalCode(message: string): string | undefined {
  return REFUSALS.find((refusal) => message.startsWith(refusal));
}
