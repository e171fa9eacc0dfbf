/** What a token lacks, in words. */
import type { ThrottrError } from "../client/index.ts";
import { sessionStore } from "./session.ts";

/** What each scope is for. */
const SCOPES: Readonly<Record<string, string>> = {
  read: "to look at records and figures",
  write: "to change records, and to ask limits",
  publish: "to publish to channels",
  subscribe: "to listen to channels",
  admin: "to see connections, channels and the inside of the namespace",
};

/** What lacks the token that a server has refused for its rights; null for any other error. */
export function scopeHint({ code, message }: ThrottrError): string | null {
  if (code === "prefix_missing") {
    return "The token of this tab is only for other names: its prefixes don't allow this one.";
  }
  if (code !== "scope_missing") return null;
  const names = Object.keys(SCOPES).filter((scope) =>
    new RegExp(`\\b${scope}\\b`).test(message.replace(/^scope_missing: /, "")),
  );
  return lackText(names.length === 0 ? ["admin"] : names);
}

/** @param scopes what is needed */
export function lackText(scopes: readonly string[]): string {
  const { value } = sessionStore;
  const claims = value.status === "open" ? value.session.claims : null;
  const has = claims?.scopes ?? [];
  const lacking = scopes.filter((scope) => !has.includes(scope));
  const named = (lacking.length === 0 ? scopes : lacking)
    .map((scope) => `${scope} (${SCOPES[scope] ?? "as the server says"})`)
    .join(" and ");
  const holding = has.length === 0 ? "no scope at all" : has.join(", ");
  return `The token of this tab lacks the scope ${named}. It has ${holding}.`;
}
