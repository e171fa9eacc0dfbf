/**
 * Leases as callers hold them by the package's client: it says that a lease is held as long as that is sure, renews it in time, and
 * says that it is lost when the server says so, or when it could not be renewed. Written from docs/semaphores.md.
 */
import type { MsSpan } from "../../support/models/span.ts";
import type { Moment, Violation } from "./history.ts";
import { describeMoment } from "./order.ts";
import { SEMAPHORES } from "./semaphore-check.ts";

/** One call that makes a lease last for its TTL: to acquire it, or to renew it. */
export interface Renewal {
  /** The client sent it, or sent it first. */
  readonly sent: Moment;
  /** Null where the client has no answer. */
  answered: Moment | null;
  /** `held` for the TTL from then on, or `ended`. Unknown without an answer. */
  outcome: "held" | "ended" | "unknown";
}

/** A lease in the hands of a caller. */
export interface Hold {
  readonly client: number;
  readonly name: string;
  readonly leaseId: string;
  readonly ttlMs: number;
  /** The caller got it. */
  readonly from: Moment;
  /** The caller was told that it is lost, or let it go. */
  readonly to: Moment;
  readonly isLost: boolean;
  /** The caller asked when it let it go, and was told that it is held. */
  readonly isHeld: boolean;
  /** In the order in which they were sent; the first one has acquired it. */
  readonly renewals: readonly Renewal[];
  /** When the client was suspended, and could notice nothing. */
  readonly suspensions: readonly MsSpan[];
}

/** The client renews a lease after this part of its TTL. */
const RENEWAL_SHARE = 1 / 3;
/** Timers count in whole milliseconds. */
const TIMERS_MS = 3;

export function checkHolds(holds: readonly Hold[]): Violation[] {
  return holds.flatMap((hold) => {
    const { client, name, leaseId } = hold;
    return [...untrueOf(hold), ...neglectOf(hold)].map((what) => ({
      promise: SEMAPHORES,
      subject: `semaphore ${JSON.stringify(name)}`,
      message: `client ${client} ${what} (lease ${leaseId}, held from ${describeMoment(hold.from)} to ${describeMoment(hold.to)})`,
    }));
  });
}

/**
 * When the client has noticed at the latest what it was to notice at a moment. Its timers stand still with its machine, but it looks at
 * the wall clock in each third of the TTL in which the machine is awake.
 */
function noticedBy(
  atMs: number,
  { suspensions, ttlMs }: Pick<Hold, "suspensions" | "ttlMs">,
): number {
  const sinceMs = atMs - ttlMs;
  return suspensions.reduce(
    (byMs, { fromMs, toMs }) =>
      fromMs <= byMs && toMs >= sinceMs
        ? Math.max(byMs, Math.max(atMs, toMs) + ttlMs * RENEWAL_SHARE + TIMERS_MS)
        : byMs,
    atMs + TIMERS_MS,
  );
}

/** What the caller was told, and is not so. */
function untrueOf(hold: Hold): string[] {
  const { renewals, ttlMs, from, to, isLost, isHeld } = hold;
  let endsAtMs = -Infinity;
  const answered = renewals
    .filter(({ answered: at }) => at !== null && at.tick <= to.tick)
    .toSorted((a, b) => a.answered!.ms - b.answered!.ms);
  for (const { sent, answered: at, outcome } of answered) {
    if (at!.ms > noticedBy(Math.max(endsAtMs, from.ms), hold)) break;
    if (outcome === "held") endsAtMs = Math.max(endsAtMs, sent.ms + ttlMs);
    if (outcome !== "ended") continue;
    if (to.ms <= at!.ms + TIMERS_MS) return [];
    return [`was told that its lease is held after the server had said at ${at!.ms} that it ended`];
  }
  if (to.ms > (isHeld ? endsAtMs + TIMERS_MS : noticedBy(endsAtMs, hold))) {
    return [`was told that its lease is held ${(to.ms - endsAtMs).toFixed(1)} ms too long`];
  }
  if (isLost && to.ms < endsAtMs - TIMERS_MS) {
    return [`was told that its lease is lost ${(endsAtMs - to.ms).toFixed(1)} ms too early`];
  }
  return [];
}

/** A renewal that was due while the lease was held, and was not sent. */
function neglectOf(hold: Hold): string[] {
  const { renewals, ttlMs, to } = hold;
  for (const [i, { sent, answered, outcome }] of renewals.entries()) {
    if (answered === null || outcome !== "held") continue;
    const dueMs = noticedBy(Math.max(sent.ms + ttlMs * RENEWAL_SHARE, answered.ms), hold);
    const next = renewals[i + 1];
    if (to.ms <= dueMs || (next !== undefined && next.sent.ms <= dueMs)) continue;
    return [`holds a lease of ${ttlMs} ms that was not renewed by ${dueMs}`];
  }
  return [];
}
