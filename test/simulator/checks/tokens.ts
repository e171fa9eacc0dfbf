/**
 * Tokens: one that is valid is accepted, one that has expired or was revoked is refused, and its connections end. Written from
 * docs/operations.md ("Tokens", "Revocation").
 */
import { describeCall, type Call, type Moment, type Violation } from "./history.ts";
import { describeMoment, earlier, isBefore } from "./order.ts";

export interface SeenToken {
  readonly id: string;
  /** Whole seconds since the epoch, as all claims are. */
  readonly issuedAtS: number;
  readonly expiresAtS: number;
  /** It is for all namespaces: those are revoked by a list of their own. */
  readonly isForAll: boolean;
}

/** What is revoked, of tokens for all namespaces or of those for one: one token, or all that were issued before a moment. */
export type Revoked = Pick<SeenToken, "isForAll"> &
  ({ readonly id: string } | { readonly issuedBeforeMs: number });

/** A request with a token, or a revocation. */
export type TokenOperation =
  | {
      readonly name: "use";
      readonly token: SeenToken;
      /** When its client began to open the connection that it travels in; null for a request over HTTP. */
      readonly openedAt: Moment | null;
    }
  | { readonly name: "revoke"; readonly of: Revoked };

/** Its outcome is `ACCEPTED`, or the code of a refusal. */
export type TokenCall = Call<TokenOperation, string>;
type Use = Extract<TokenOperation, { readonly name: "use" }>;

export const ACCEPTED = "accepted";
const REVOKED = "token_revoked";
const EXPIRED = "token_expired";

/** From when to when a door did not know which tokens are revoked: its last read of the list had failed. */
export interface UnreadSpan {
  readonly from: Moment;
  readonly to: Moment;
}

/** What may go wrong in the run. */
export interface TokenTerms {
  readonly hasFaults: boolean;
  readonly unread: readonly UnreadSpan[];
}

const PROMISE = "Tokens";
/** Until every door refuses a revoked token. */
const DOORS_MS = 60_000;
/** Messages and commits of a call, where nothing is slow. */
const WORK_MS = 2000;
/** Connections are closed at once, by an alarm. */
const CLOSED_MS = 5000;
/** Then the Directory tells Hubs again, as doors that learned of it late may have opened connections. */
const TOLD_AGAIN_MS = 95_000;
/** With faults, a clock that is set by two minutes at most, and a second copy of the Directory that is asked for a minute. */
const FAULTS_MS = 180_000;
/** How far a clock is from true time at most. */
const CLOCK_MS = 60_000;

export function checkTokens(calls: readonly TokenCall[], terms: TokenTerms): Violation[] {
  const judge = new Judge(calls.flatMap(revocationOf), firstAnswersOf(calls), terms);
  return calls.flatMap((call) => {
    const { operation, begun, ended } = call;
    if (operation.name !== "use" || ended === null) return [];
    const { token, openedAt } = operation;
    const message = judge.contradiction(operation, begun, ended, call.outcome);
    if (message === null) return [];
    const since = openedAt === null ? "" : `, connection of ${describeMoment(openedAt)}`;
    const subject = `token ${token.id}, of ${token.issuedAtS} to ${token.expiresAtS}`;
    return [{ promise: PROMISE, subject, message: `${message} (${describeCall(call)}${since})` }];
  });
}

/** A revocation that may be in force. */
interface Revocation {
  readonly of: Revoked;
  readonly begun: Moment;
  /** From then on it is in force; null where that is not known. */
  readonly done: Moment | null;
}

function revocationOf({ operation, begun, ended, outcome }: TokenCall): Revocation[] {
  if (operation.name !== "revoke" || (outcome !== ACCEPTED && outcome !== "unknown")) return [];
  return [{ of: operation.of, begun, done: outcome === ACCEPTED ? ended : null }];
}

/** When a connection had its first answer, by the tick at which its client began to open it: a Hub has it from then on for certain. */
type FirstAnswers = ReadonlyMap<number, Moment>;

function firstAnswersOf(calls: readonly TokenCall[]): FirstAnswers {
  const first = new Map<number, Moment>();
  for (const { operation, ended, outcome } of calls) {
    if (operation.name !== "use" || operation.openedAt === null || outcome !== ACCEPTED) continue;
    const { tick } = operation.openedAt;
    first.set(tick, earlier(ended!, first.get(tick) ?? ended!));
  }
  return first;
}

class Judge {
  readonly #revocations: readonly Revocation[];
  readonly #firstAnswers: FirstAnswers;
  readonly #terms: TokenTerms;
  readonly #clockMs: number;

  constructor(revocations: readonly Revocation[], firstAnswers: FirstAnswers, terms: TokenTerms) {
    this.#revocations = revocations;
    this.#firstAnswers = firstAnswers;
    this.#terms = terms;
    this.#clockMs = terms.hasFaults ? CLOCK_MS : 0;
  }

  /** What the outcome of a request contradicts; null for nothing. */
  contradiction(use: Use, begun: Moment, ended: Moment, outcome: string): string | null {
    switch (outcome) {
      case ACCEPTED:
        return this.#behindEnd(use, begun) ?? this.#behindRevocation(use, begun, ended);
      case EXPIRED:
        return this.#beforeEnd(use, ended);
      case REVOKED:
        return this.#isAsked(use, ended)
          ? null
          : "was refused as revoked, and nobody has revoked it";
      default:
        return null;
    }
  }

  #behindEnd({ token }: Use, begun: Moment): string | null {
    const lateMs = begun.ms - token.expiresAtS * 1000 - this.#clockMs - WORK_MS;
    return lateMs > 0 ? `was accepted ${lateMs.toFixed(0)} ms after its end` : null;
  }

  #beforeEnd({ token }: Use, ended: Moment): string | null {
    const earlyMs = token.expiresAtS * 1000 - this.#clockMs - ended.ms;
    return earlyMs > 0 ? `was refused as expired ${earlyMs.toFixed(0)} ms before its end` : null;
  }

  #behindRevocation({ token, openedAt }: Use, begun: Moment, ended: Moment): string | null {
    // An ID leaves the list when its token has expired.
    if (ended.ms >= token.expiresAtS * 1000 - this.#clockMs) return null;
    const faultsMs = this.#terms.hasFaults ? FAULTS_MS : 0;
    for (const { of, begun: asked, done } of this.#revocations) {
      if (done === null || !isOf(of, token)) continue;
      const answered = openedAt === null ? undefined : this.#firstAnswers.get(openedAt.tick);
      const wasOpen = answered !== undefined && isBefore(answered, asked);
      // One that a door is just opening, or opens as it learns of it late, ends when the Directory tells Hubs again.
      if (openedAt !== null && !wasOpen && this.#terms.hasFaults) continue;
      const lateMs = begun.ms - done.ms - allowedMs(openedAt, wasOpen) - faultsMs;
      if (lateMs <= 0 || (openedAt === null && this.#isUnread(begun, ended))) continue;
      return `was accepted ${lateMs.toFixed(0)} ms later than promised after its revocation at ${describeMoment(done)}`;
    }
    return null;
  }

  #isUnread(from: Moment, to: Moment): boolean {
    return this.#terms.unread.some((span) => isBefore(span.from, to) && isBefore(from, span.to));
  }

  #isAsked({ token }: Use, ended: Moment): boolean {
    return this.#revocations.some(({ of, begun }) => isOf(of, token) && isBefore(begun, ended));
  }
}

/** How long after its revocation a token may be accepted. */
function allowedMs(openedAt: Moment | null, wasOpen: boolean): number {
  if (openedAt === null) return DOORS_MS + WORK_MS;
  return wasOpen ? CLOSED_MS : TOLD_AGAIN_MS + CLOSED_MS;
}

function isOf(of: Revoked, { id, issuedAtS, isForAll }: SeenToken): boolean {
  if (of.isForAll !== isForAll) return false;
  return "id" in of ? of.id === id : issuedAtS * 1000 < of.issuedBeforeMs;
}
