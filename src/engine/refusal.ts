/**
 * Refusals of commands: what a command throws when it has changed nothing.
 *
 * `Commands` answers them, and the errors of rate limits, as errors of the edge dialect. Any other error is a fault of
 * the server, and fails the batch.
 */
import { RateLimitError } from "../wire/ratelimit/error.ts";
import { StateError } from "../wire/ratelimit/state.ts";
import { Kind } from "./segment.ts";

/** A command that is refused: nothing has been changed. The message begins with a stable code. */
export class Refusal extends Error {}

export const SHARD_FULL =
  "shard_full: the shard's records take up all of SHARD_BYTES_MAX; nothing was applied";

export const unitInvalid = (type: number): string =>
  `unit_invalid: expected 1 to 6 (ns, us, ms, s, min, h), got ${type}`;

export const policyInvalid = (policy: number): string =>
  `policy_invalid: expected 0 (keep) or 1 (replace), got ${policy}`;

/** @throws Refusal unless the record under a key is of the kind that the command is for */
export function assertKind(kind: Kind, expected: Kind): void {
  if (kind === expected) return;
  throw new Refusal(
    expected === Kind.counter
      ? "kind_mismatch: the record under the key is a buffer"
      : "kind_mismatch: the record under the key is a counter",
  );
}

/** Whether an error says that a command has changed nothing; any other one is a fault. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Refusal || error instanceof RateLimitError || error instanceof StateError;
}

/** The message of a refusal, with the key that it is about. */
export function messageAbout(error: Error, key: string): string {
  if (error instanceof StateError) return error.publicMessage(key);
  const [code, ...rest] = error.message.split(": ");
  return `${code}: ${key}: ${rest.join(": ")}`;
}
