/**
 * Revocations: which tokens of a namespace are no longer accepted.
 *
 * Tokens are revoked by their ID, or all that were issued before a moment. The list is plain data, small enough to be
 * stored and sent as a whole: its owner keeps it as one value, and doors keep copies. The time is an argument.
 */

/** IDs in a list. Beyond that, revoke all tokens that were issued before a moment. */
export const REVOKED_TOKENS_MAX = 1000;
/** An ID stays listed this long after its token has expired: the clocks of doors differ. */
export const KEPT_AFTER_EXPIRY_MS = 60_000;
/** A token may have been issued by a clock that is this far ahead. */
export const ISSUED_AHEAD_MS = 5000;

/** A token that is revoked by its ID. */
export interface RevokedToken {
  readonly id: string;
  readonly revokedAtMs: number;
  /** When it expires; null if that is not known. */
  readonly expiresAtMs: number | null;
}

/** The list of a namespace. */
export interface Revocations {
  /** Another number for each other content, so that a copy need not be sent again. */
  readonly version: number;
  /** Tokens that were issued before are revoked, in ms since the epoch; 0 for none. */
  readonly issuedBeforeMs: number;
  /** Each ID once. */
  readonly tokens: readonly RevokedToken[];
}

/** What a list says about a token. */
export interface RevocableToken {
  /** Null for a token without an ID. */
  readonly id: string | null;
  /** In seconds since the epoch; null for a token that does not say it, which counts as the oldest. */
  readonly issuedAtS: number | null;
}

export const NO_REVOCATIONS: Revocations = { version: 0, issuedBeforeMs: 0, tokens: [] };

/**
 * Adds a token. The later end counts for one that is listed.
 *
 * A full list gives up the ID that was revoked first, if all tokens of its time are revoked anyway: one that was issued ahead, with
 * an `iat` in the future, needs its ID even then, and almost none is.
 *
 * @returns null when the list is full
 */
export function withToken(
  list: Revocations,
  { id, expiresAtMs }: Omit<RevokedToken, "revokedAtMs">,
  nowMs: number,
): Revocations | null {
  const known = list.tokens.find((token) => token.id === id);
  const others = list.tokens.filter((token) => token !== known && isInForce(token, nowMs));
  if (others.length >= REVOKED_TOKENS_MAX) {
    const old = others.findIndex((token) => isOld(token, list));
    if (old === -1) return null;
    others.splice(old, 1);
  }
  const ends = known === undefined ? [expiresAtMs] : [expiresAtMs, known.expiresAtMs];
  const end = ends.includes(null) ? null : Math.max(...(ends as number[]));
  return {
    version: list.version + 1,
    issuedBeforeMs: list.issuedBeforeMs,
    tokens: [...others, { id, revokedAtMs: nowMs, expiresAtMs: end }],
  };
}

/** Adds all tokens that were issued before a moment. A moment before that of the list changes nothing. */
export function withAllBefore(
  list: Revocations,
  issuedBeforeMs: number,
  nowMs: number,
): Revocations {
  return {
    version: list.version + 1,
    issuedBeforeMs: Math.max(list.issuedBeforeMs, issuedBeforeMs),
    tokens: tokensInForce(list, nowMs),
  };
}

/** The IDs that still revoke a token. */
export function tokensInForce(list: Revocations, nowMs: number): RevokedToken[] {
  return list.tokens.filter((token) => isInForce(token, nowMs));
}

/** Tests tokens against a list. Made once for a list, and used for each request: it allocates nothing then. */
export class RevocationCheck {
  readonly #issuedBeforeMs: number;
  readonly #ids: ReadonlySet<string>;

  constructor({ issuedBeforeMs, tokens }: Revocations) {
    this.#issuedBeforeMs = issuedBeforeMs;
    this.#ids = new Set(tokens.map(({ id }) => id));
  }

  /** IDs in the list: a measure of the memory that it takes. */
  get size(): number {
    return this.#ids.size;
  }

  isRevoked({ id, issuedAtS }: RevocableToken): boolean {
    if (this.#issuedBeforeMs > 0 && (issuedAtS ?? 0) * 1000 < this.#issuedBeforeMs) return true;
    return id !== null && this.#ids.has(id);
  }
}

/** False for a token that has expired. */
const isInForce = ({ expiresAtMs }: RevokedToken, nowMs: number): boolean =>
  expiresAtMs === null || expiresAtMs + KEPT_AFTER_EXPIRY_MS > nowMs;

/** Whether a token is revoked with all others, unless it was issued ahead. */
const isOld = ({ revokedAtMs }: RevokedToken, { issuedBeforeMs }: Revocations): boolean =>
  revokedAtMs + ISSUED_AHEAD_MS < issuedBeforeMs;
