/** What a caller may do: a namespace, scopes, prefixes, and until when. */
import { beginsWithAny } from "../wire/bytes.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { Scope, shardScopesOf, type Layout, type ScopeName } from "../wire/throttr/requests.ts";

export interface Access {
  readonly namespace: string;
  /** Bits of `Scope`. */
  readonly scopes: number;
  /** Keys must begin with one of these; empty for any key. */
  readonly keyPrefixes: readonly Uint8Array[];
  /** Channels must begin with one of these; empty for any channel. */
  readonly channelPrefixes: readonly Uint8Array[];
  /** Milliseconds since the epoch at which the access ends; null for never. */
  readonly expiresAtMs: number | null;
}

export const ALL_SCOPES = Object.values(Scope).reduce((bits, bit) => bits | bit, 0);

/** What `ACCESS=open` gives to anyone. */
export const OPEN_ACCESS: Access = {
  namespace: "default",
  scopes: ALL_SCOPES,
  keyPrefixes: [],
  channelPrefixes: [],
  expiresAtMs: null,
};

/** True when no request of the protocol on a key can be refused for want of a right. */
export function isUnrestricted({ scopes, keyPrefixes }: Access, protocol: Protocol): boolean {
  const needed = shardScopesOf(protocol);
  return (scopes & needed) === needed && keyPrefixes.length === 0;
}

/** Why a request may not be executed; null when it may. */
export type Refusal = "scope_missing" | "prefix_missing" | null;

/** Whether the frame at `at` may be executed. */
export function refusalOf(access: Access, layout: Layout, bytes: Uint8Array, at: number): Refusal {
  if ((access.scopes & layout.scope) !== layout.scope) return "scope_missing";
  if (layout.prefixes === null) return null;
  const prefixes = access[layout.prefixes];
  // Of a pair the consumer must have the prefix, which lies behind the two sizes.
  const from = at + (layout.pairSizeAt === 0 ? layout.keyAt : layout.headerBytes);
  return beginsWithAny(prefixes, bytes, from, bytes[at + layout.keySizeAt]!)
    ? null
    : "prefix_missing";
}

/** Why, for people; begins with the code. */
export function refusalText(refusal: NonNullable<Refusal>, layout: Layout): string {
  if (refusal === "scope_missing") {
    return `scope_missing: ${layout.name} needs the scope ${scopeNames(layout.scope)}`;
  }
  const what = layout.prefixes === "keyPrefixes" ? "key" : "channel";
  return `prefix_missing: ${layout.name}: the ${what} begins with none of the token's ${what}Prefixes`;
}

/** Names of the scopes that bits stand for. */
export function scopeNames(bits: number): string {
  const names = (Object.keys(Scope) as ScopeName[]).filter((name) => (bits & Scope[name]) !== 0);
  return names.join(" and ");
}
