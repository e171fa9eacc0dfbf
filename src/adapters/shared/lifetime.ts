/** How long records live whose library sets no end: every record of the server has one. */

/** A hundred years. */
export const FOREVER_MS = 100 * 365 * 86_400_000;

/** Seconds as a TTL, rounded up; `FOREVER_MS` where there is no end. */
export function ttlMsOf(seconds: number | undefined): number {
  if (seconds === undefined || !(seconds > 0)) return FOREVER_MS;
  return Math.min(Math.ceil(seconds * 1_000), FOREVER_MS);
}
