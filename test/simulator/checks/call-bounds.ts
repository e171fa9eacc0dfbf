/**
 * How long a call may take at most: what is documented of the client and the server, and what the faults of a run add to it. Clients
 * that are no package have no timeout of their own.
 */
import { COMMIT_MS, SLOW_MS } from "../faults/seeded.ts";
import { STALL_MS } from "../faults/disturbances.ts";
import { NOTICE_MS_MAX } from "../platform/net/link.ts";

/** How a call is made: by a limiter or another call of the package, in a request over HTTP or a binding, or over a connection. */
export type CallWay = "limiter" | "client" | "http" | "binding" | "connection";

export interface TimeTerms {
  /** Whether anything goes wrong. */
  readonly hasFaults: boolean;
}

/** `timeoutMs` of a limiter and of the package's client, where their caller sets none: docs/rate-limits.md, docs/clients.md. */
const TIMEOUT_MS = { limiter: 5000, client: 10_000 } as const;
/** Clocks have whole milliseconds. */
const ROUNDING_MS = 2;

/** PUBLISH and listings wait for a Hub that does not answer: docs/guarantees.md. */
const HUB_TIMEOUT_MS = 2000;
/** A shard that splits lets requests wait so long at most: `SPLIT_SWITCH_MS`, as test/simulator/platform/sizes.ts draws it. */
const SPLIT_SWITCH_MS = 2000;
/** All messages and commits of a call, where none of them is slow. */
const WORK_MS = 2000;
const CALM_MS = HUB_TIMEOUT_MS + SPLIT_SWITCH_MS + WORK_MS;

/**
 * So many of the slowest messages one after the other are more than any call meets: at most one message in twenty is slow, and few of
 * these are as slow as that. Among 25 seeds no call took longer than two of them.
 */
const SLOW_MESSAGES_MOST = 6;
/** Both directions of its connection stop. */
const STALLS_MOST = 2;
const FAULTS_MS =
  SLOW_MESSAGES_MOST * SLOW_MS + STALLS_MOST * STALL_MS + NOTICE_MS_MAX + COMMIT_MS.slow;

/** In ms. */
export function boundOf(way: CallWay, { hasFaults }: TimeTerms): number {
  const serverMs = CALM_MS + (hasFaults ? FAULTS_MS : 0);
  if (way !== "limiter" && way !== "client") return serverMs;
  return Math.min(TIMEOUT_MS[way] + ROUNDING_MS, serverMs);
}
