/** A limit on every wait for the server. */
import { setTimeout as sleep } from "node:timers/promises";
import { CrashViolation } from "./violation.ts";

/** Nothing that a server does takes longer than this, however busy the machine. */
const ANSWER_TIMEOUT_MS = 60_000;

/** @throws CrashViolation with the message when the promise takes too long */
export async function withTimeout<T>(promise: Promise<T>, message: string): Promise<T> {
  const timer = new AbortController();
  const timeout = sleep(ANSWER_TIMEOUT_MS, undefined, { signal: timer.signal }).then(() => {
    throw new CrashViolation(`${message} within ${ANSWER_TIMEOUT_MS} ms`);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    timer.abort();
  }
}
