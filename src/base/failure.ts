/** What the failure of a call to an object means to the caller who sent the frames. */
import { Phase, phaseOf } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { noteFailure } from "./data-refusals.ts";
import { logWarning } from "./log.ts";

/**
 * Logs what failed requests, and returns the error that the caller gets.
 *
 * A refusal of an object says that nothing of that call was applied. After any other error, of the object or of the platform, a batch
 * may have been applied or not: the text of such an error is for the log only.
 */
export function reportFailure(error: unknown): ThrottrError {
  const isOfPart = error instanceof PartRefused;
  const refusal = isOfPart ? error.refusal : refusalOf(error);
  if (refusal !== null) noteFailure(refusal);
  const failure = refusal === null || isOfPart ? outcomeUnknown(refusal) : refusal;
  // The message for a missing class says all; a stack would only bury it.
  const hasStack = error instanceof Error && failure.code !== "class_missing";
  const stack = hasStack ? error.stack : undefined;
  logWarning("requests_failed", { code: failure.code, error: String(error), stack });
  return failure;
}

/** A part of a message was refused, of which other parts may have been applied: the caller can't be told that nothing was. */
class PartRefused extends Error {
  readonly refusal: ThrottrError;

  constructor(refusal: ThrottrError) {
    super(`a part was refused: ${refusal.message}`, { cause: refusal });
    this.refusal = refusal;
  }
}

/** What failed a message of which another part may have been applied. */
export function failureOfPart(error: unknown): unknown {
  const refusal = refusalOf(error);
  // Of replies that are too large a caller never knows what was applied.
  if (refusal === null || refusal.code === "reply_too_large") return error;
  return new PartRefused(refusal);
}

function outcomeUnknown(refusal: ThrottrError | null): ThrottrError {
  const detail =
    refusal === null
      ? "a shard failed: requests without a reply may have been applied"
      : `a part was refused, the others may have been applied: ${refusal.message}`;
  return new ThrottrError("outcome_unknown", detail);
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
