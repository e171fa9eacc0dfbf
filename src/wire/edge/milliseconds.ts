/** Times as callers know them. */

/** Milliseconds, rounded up: a wait of that length is long enough. */
export function msOf(ns: bigint): number {
  return Number((ns + 999_999n) / 1_000_000n);
}
