/** Refusals of commands. */

/** A command that is refused: nothing has been changed. The message begins with a stable code. */
export class Refusal extends Error {}

export const SHARD_FULL =
  "shard_full: the shard's records take SHARD_BYTES_MAX bytes; nothing was applied";

export const unitInvalid = (type: number): string =>
  `unit_invalid: units are 1 to 6 (ns, us, ms, s, min, h), got ${type}`;
