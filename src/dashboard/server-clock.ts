/** An estimate of the server's clock, which the ends of records refer to: learned from its answers. */

/** The header `date` has whole seconds: less than that says nothing. */
const DATE_TOLERANCE_MS = 1500;

/** An answer is on its way for a while: less than that is no other time, and no reason for a countdown to jump. */
const TOLERANCE_MS = 250;

/** How far the server's clock is ahead of the one here, ms. */
let aheadMs = 0;

/** The present by the server's clock, ms since the epoch. */
export const serverNowMs = (): number => Date.now() + aheadMs;

/** @param atMs the server's time now, ms since the epoch */
export function learnClock(atMs: number): void {
  if (Math.abs(atMs - serverNowMs()) > TOLERANCE_MS) aheadMs = atMs - Date.now();
}

/** As `learnClock`, from the header `date` of an answer, and only where it is clearly another time. */
export function learnClockOf(headers: Headers): void {
  const atMs = Date.parse(headers.get("date") ?? "");
  if (Math.abs(atMs - serverNowMs()) > DATE_TOLERANCE_MS) learnClock(atMs);
}
