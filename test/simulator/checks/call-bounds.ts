/**
 * How long a call may take at most: the documented timeouts of client and server, and what the faults of a run add to them. Only
 * clients of the package have a timeout of their own.
 */
import { COMMIT_MS, SLOW_MS } from "../faults/seeded.ts";
import { STALL_MS } from "../faults/disturbances.ts";
import { NOTICE_MS_MAX } from "../platform/net/link.ts";

/** How a call is made: by a limiter or the client of the package; or without it, over HTTP, a binding or a connection. */
export type CallWay = "limiter" | "client" | "http" | "binding" | "connection";

export interface TimeTerms {
  /** Whether the run has faults. */
  readonly hasFaults: boolean;
}

/** The default of `timeoutMs`, of a limiter and of the package's client: docs/rate-limits.md, docs/clients.md. */
const TIMEOUT_MS = { limiter: 5000, client: 10_000 } as const;
/** Clocks have whole milliseconds. */
const ROUNDING_MS = 2;

/** PUBLISH and listings wait for a Hub that does not answer: docs/guarantees.md. */
const HUB_TIMEOUT_MS = 2000;
/** The longest time for which a shard that splits holds requests back: `SPLIT_SWITCH_MS`, as test/simulator/platform/sizes.ts draws it. */
const SPLIT_SWITCH_MS = 2000;
/** Enough for all messages and commits of a call, if none of them is slow. */
const WORK_MS = 2000;
const CALM_MS = HUB_TIMEOUT_MS + SPLIT_SWITCH_MS + WORK_MS;

/**
 * Messages of a call that come one after the other and may each take `SLOW_MS`, the longest time of a slow message. More than any
 * call has: at most one message in twenty is slow, and most of these take less. In 25 seeds no call took longer than two
 * times `SLOW_MS`.
 */
const SLOW_MESSAGES_MOST = 6;
/** A stall in each direction of its connection. */
const STALLS_MOST = 2;
const FAULTS_MS =
  SLOW_MESSAGES_MOST * SLOW_MS + STALLS_MOST * STALL_MS + NOTICE_MS_MAX + COMMIT_MS.slow;

/** The longest time that a call may take, in ms. */
export function boundOf(way: CallWay, { hasFaults }: TimeTerms): number {
  const serverMs = CALM_MS + (hasFaults ? FAULTS_MS : 0);
  if (way !== "limiter" && way !== "client") return serverMs;
  return Math.min(TIMEOUT_MS[way] + ROUNDING_MS, serverMs);
}
