/**
 * Refusals of commands: what a command throws when it has changed nothing.
 *
 * `Commands` answers them, and the errors of rate limits, as errors of the edge dialect. Any other error is a fault of
 * the server, and fails the batch.
 */
import { Kind } from "./segment.ts";

/** A command that is refused: nothing has been changed. The message begins with a stable code. */
export class Refusal extends Error {}

export const SHARD_FULL =
  "shard_full: the shard's records take up all of SHARD_BYTES_MAX; nothing was applied";

export const unitInvalid = (type: number): string =>
  `unit_invalid: expected 1 to 6 (ns, us, ms, s, min, h), got ${type}`;

/** @throws Refusal unless the record under a key is of the kind that the command is for */
export function assertKind(kind: Kind, expected: Kind): void {
  if (kind === expected) return;
  throw new Refusal(
    expected === Kind.counter
      ? "kind_mismatch: the record under the key is a buffer"
      : "kind_mismatch: the record under the key is a counter",
  );
}
