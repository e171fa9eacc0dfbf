/** Bounds of reservations. They are no part of `reservations.ts`, so that a limiter's bundle has no codecs. */

export const RESERVATION_ID_BYTES = 16;
/** A message that settles takes a while itself. */
export const RESERVE_TTL_MS_MIN = 1000;
/** A day. */
export const RESERVE_TTL_MS_MAX = 86_400_000;
/** Unless given. */
export const RESERVE_TTL_MS = 60_000;
