/**
 * Waiting for an object that may hang or have died: two seconds at most. Its failure is logged, and is no failure of the
 * request that asked, which goes on without that object.
 */
import { stopwatchMs } from "./clock.ts";
import { logWarning } from "./log.ts";

// A call to an object can't be cancelled: it goes on, and its answer is dropped.
const TIMEOUT_MS = 2000;

/**
 * What a call returns; undefined when it fails, or takes longer than two seconds.
 *
 * @param object its name, for the log
 */
export async function inTime<T>(
  call: Promise<T>,
  object: string,
  event: "hub_failed" | "shard_failed" | "cancel_failed" = "hub_failed",
): Promise<T | undefined> {
  try {
    return await withTimeout(call, TIMEOUT_MS);
  } catch (error) {
    logWarning(event, { object, error: String(error) });
    return undefined;
  }
}

/** The timer of calls that began in one turn. */
interface Late {
  readonly sinceMs: number;
  readonly timeoutMs: number;
  /** Rejects when they are too late. */
  readonly promise: Promise<never>;
  readonly timer: ReturnType<typeof setTimeout>;
  /** How many still wait. */
  calls: number;
}

/** Of this turn: an object has 10,000 timers, and may ask 1,024 others at once for each of many callers. */
let latest: Late | null = null;

/**
 * What a call returns in time.
 *
 * @throws Error after `timeoutMs`; what the call throws
 */
export async function withTimeout<T>(call: Promise<T>, timeoutMs: number): Promise<T> {
  const late = lateAfter(timeoutMs);
  late.calls++;
  try {
    return await Promise.race([call, late.promise]);
  } finally {
    if (--late.calls === 0) clearTimeout(late.timer);
  }
}

function lateAfter(timeoutMs: number): Late {
  const sinceMs = stopwatchMs();
  // An object that is aborted in the turn leaves its timer behind, which never rings: it must not serve a later turn.
  if (latest?.sinceMs === sinceMs && latest.timeoutMs === timeoutMs) return latest;
  const { promise, reject } = Promise.withResolvers<never>();
  const error = new Error(`no answer within ${timeoutMs} ms`);
  const timer = setTimeout(reject, timeoutMs, error);
  // The next turn may be another object's, or another request's, which must not use this timer.
  queueMicrotask(() => (latest = null));
  return (latest = { sinceMs, timeoutMs, promise, timer, calls: 0 });
}
