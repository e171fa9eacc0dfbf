/**
 * Moments that are known only to lie between two others, in nanoseconds since the epoch.
 *
 * The server executes a request at some time after it was sent; what follows from that time is as
 * uncertain. Two spans are compatible when one moment can lie in both.
 */
export interface Span {
  readonly fromNs: bigint;
  readonly toNs: bigint;
}

/** What the server's clock may differ from ours, in each direction. */
const CLOCK_SLACK_NS = 5_000_000_000n;
const U64_MAX = (1n << 64n) - 1n;

export function nowNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}

/** From a time to another on our clock, seen from the server's. */
export function span(fromNs: bigint, toNs: bigint): Span {
  return { fromNs: fromNs - CLOCK_SLACK_NS, toNs: toNs + CLOCK_SLACK_NS };
}

/** A span later by a duration, or earlier by a negative one. Time points end with the u64 range. */
export function shifted({ fromNs, toNs }: Span, byNs: bigint): Span {
  return { fromNs: clamp(fromNs + byNs), toNs: clamp(toNs + byNs) };
}

/** Where a moment of both spans lies, or null when there can't be one. */
export function intersection(a: Span, b: Span): Span | null {
  const fromNs = a.fromNs > b.fromNs ? a.fromNs : b.fromNs;
  const toNs = a.toNs < b.toNs ? a.toNs : b.toNs;
  return fromNs <= toNs ? { fromNs, toNs } : null;
}

/** The span that covers two others. */
export function hull(a: Span, b: Span): Span {
  return {
    fromNs: a.fromNs < b.fromNs ? a.fromNs : b.fromNs,
    toNs: a.toNs > b.toNs ? a.toNs : b.toNs,
  };
}

function clamp(ns: bigint): bigint {
  return ns < 0n ? 0n : ns > U64_MAX ? U64_MAX : ns;
}
