/**
 * The bytes of a LIMIT_ALL: `limit-all.ts`.
 *
 *     body   = entries u8, entry*
 *     entry  = flags u8, key size u8, key, cost f64, returns u8, return*, configuration size u16, configuration
 *     return = draw f64, units f64, as of DRAW
 *     reply  = decision* in the order of the entries
 *
 * Little-endian. All is charged when each entry without `isShadow` is allowed. There is no idempotency key: a call whose
 * reply is lost may have been charged.
 */

/** Entries of one LIMIT_ALL. */
export const LIMIT_ALL_MAX = 32;
/** `isShadow`: the entry is charged with the others if it has room, and never refuses them. */
export const EntryFlag = { isShadow: 1 } as const;
