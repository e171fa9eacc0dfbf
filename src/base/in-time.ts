/**
 * Waiting for an object that may hang or have died: two seconds at most. Its failure is logged, and is no failure of the
 * request that asked, which goes on without that object.
 */
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

/**
 * What a call returns in time.
 *
 * @throws Error after `timeoutMs`; what the call throws
 */
export async function withTimeout<T>(call: Promise<T>, timeoutMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new Error(`no answer within ${timeoutMs} ms`));
  }, timeoutMs);
  try {
    return await Promise.race([call, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
