/** Minutes of the wall clock, which figures of the usage of records turn with. */

const MINUTE_MS = 60_000;
const MARGIN_MS = 3000;

/** Waits for the next minute where this one is about to end: figures must not turn within a test. */
export async function awayFromTurnOfMinute(): Promise<void> {
  const leftMs = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (leftMs < MARGIN_MS) await scheduler.wait(leftMs);
}
