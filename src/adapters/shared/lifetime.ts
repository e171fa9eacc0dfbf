/** How long records live whose library sets no end: every record of the server has one. */

/** A hundred years. */
export const FOREVER_MS = 100 * 365 * 86_400_000;

/**
 * Seconds as a TTL in whole milliseconds, at least 1; `FOREVER_MS` where there is no end. NaN stays NaN, which no call takes:
 * a value whose end was computed wrongly must not stay for ever.
 */
export function ttlMsOf(seconds: number | null | undefined): number {
  const ms = seconds == null ? FOREVER_MS : seconds * 1_000;
  return Number.isNaN(ms) ? ms : wholeMs(ms);
}

/** Milliseconds as whole ones, at least 1; `FOREVER_MS` for 0 and below. */
export function wholeMs(ms: number): number {
  if (!(ms > 0)) return FOREVER_MS;
  // To the nearest: as a binary number, 16.1 s are a little more than 16,100 ms.
  return Math.min(Math.max(1, Math.round(ms)), FOREVER_MS);
}
