/** Waiting for an object that may have died: not for ever, and its failure is no failure of others. */
import { logWarning } from "./log.ts";

const TIMEOUT_MS = 2000;

/** What a call returns; undefined when it fails, or takes longer than two seconds. */
export async function inTime<T>(call: Promise<T>, object: string): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), TIMEOUT_MS);
  try {
    return await Promise.race([call, late.promise]);
  } catch (error) {
    logWarning("hub_failed", { object, error: String(error) });
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
