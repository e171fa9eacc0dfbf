/** Times as callers know them. */

/** Milliseconds, rounded up: whoever waits so long has waited long enough. */
export function msOf(ns: bigint): number {
  return Number((ns + 999_999n) / 1_000_000n);
}
