/** What the failure of a call to an object means to the caller who sent the frames. */
import { Phase, phaseOf } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { noteFailure } from "./data-refusals.ts";
import { logWarning } from "./log.ts";

/**
 * Logs what failed requests, and returns the error that the caller gets.
 *
 * A refusal of an object says that nothing was applied. After any other error, of the object or of the platform, a batch
 * may have been applied or not: the text of such an error is for the log only.
 */
export function reportFailure(error: unknown): ThrottrError {
  const detail = "a shard failed: requests without a reply may have been applied";
  const failure = refusalOf(error) ?? new ThrottrError("outcome_unknown", detail);
  noteFailure(failure);
  // The message for a missing class says all; a stack would only bury it.
  const hasStack = error instanceof Error && failure.code !== "class_missing";
  const stack = hasStack ? error.stack : undefined;
  logWarning("requests_failed", { code: failure.code, error: String(error), stack });
  return failure;
}

/** The error that says why an object has refused a call, and applied nothing; null for any other failure. */
export function refusalOf(error: unknown): ThrottrError | null {
  const known = ThrottrError.from(error);
  return phaseOf(known.code) === Phase.refusal ? known : null;
}

/** Whether a shard has refused a call, as it does not own the range that it was asked for. */
export function hasMoved(error: unknown): boolean {
  return refusalOf(error)?.code === "shard_moved";
}
