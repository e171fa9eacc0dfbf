/** Errors in words: scopes that a token lacks, and a server that cannot be reached. */
import type { ThrottrError } from "../client/index.ts";
import type { ScopeName } from "../wire/throttr/requests.ts";
import { lacksScope, sessionStore, type Session } from "./session.ts";

/** The purpose of each scope. */
const SCOPES: Readonly<Record<ScopeName, string>> = {
  read: "to see records",
  write: "to change records and check limits",
  publish: "to publish to channels",
  subscribe: "to listen to channels",
  admin: "to see the overview, connections and channels",
};

const SCOPE_NAMES = Object.keys(SCOPES) as ScopeName[];

export const hasAllScopes = (session: Session): boolean =>
  SCOPE_NAMES.every((scope) => !lacksScope(session, scope));

/** Says which scope or prefix a refused token lacks; null for any other error. */
export function scopeHint({ code, message }: ThrottrError): string | null {
  if (code === "prefix_missing") {
    return `${holderText()} does not allow this name: names must begin with one of its prefixes.`;
  }
  if (code !== "scope_missing") return null;
  const names = SCOPE_NAMES.filter((scope) =>
    new RegExp(`\\b${scope}\\b`).test(message.replace(/^scope_missing: /, "")),
  );
  return lackText(names.length === 0 ? ["admin"] : names);
}

/** The server was not reached, and nothing was changed. */
export const isUnreached = ({ code }: ThrottrError): boolean => code === "connection_failed";

/** Says what is known of a request that got no answer; null for any other error. */
export function unreachedText(error: ThrottrError, isAskedAgain: boolean): string | null {
  const { code, cause } = error;
  if (isUnreached(error)) {
    return `The server cannot be reached. ${isAskedAgain ? "Retrying…" : "Nothing was changed."}`;
  }
  // `fetch` throws a TypeError when no answer has come.
  if (code !== "outcome_unknown" || !(cause instanceof TypeError)) return null;
  return "The server cannot be reached. It may have applied the change: check before you try again.";
}

/** @param scopes those that are needed */
export function lackText(scopes: readonly ScopeName[]): string {
  const { value } = sessionStore;
  const has = value.status === "open" ? value.session.grant.scopes : [];
  const lacking = scopes.filter((scope) => !has.includes(scope));
  const named = (lacking.length === 0 ? scopes : lacking)
    .map((scope) => `${scope} (${SCOPES[scope]})`)
    .join(" and ");
  const holding = has.length === 0 ? "no scope at all" : has.join(", ");
  return `${holderText()} lacks the scope ${named}. It has ${holding}.`;
}

/** What has the rights: without a token the application around the page has given them. */
function holderText(): string {
  const { value } = sessionStore;
  const isByToken = value.status !== "open" || value.session.token !== null;
  return isByToken ? "This tab's token" : "This session";
}
