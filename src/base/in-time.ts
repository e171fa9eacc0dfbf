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
  event: "hub_failed" | "shard_failed" = "hub_failed",
): Promise<T | undefined> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new Error(`no answer within ${TIMEOUT_MS} ms`));
  }, TIMEOUT_MS);
  try {
    return await Promise.race([call, late.promise]);
  } catch (error) {
    logWarning(event, { object, error: String(error) });
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
