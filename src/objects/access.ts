/** What a caller may do: a namespace, scopes, prefixes, and until when. */
import type { Protocol } from "../wire/throttr/protocol.ts";
import { Scope, scopesOf, type Layout, type ScopeName } from "../wire/throttr/requests.ts";

export interface Access {
  readonly namespace: string;
  /** Bits of `Scope`. */
  readonly scopes: number;
  /** Keys must begin with one of these; empty for any key. */
  readonly keyPrefixes: readonly Uint8Array[];
  /** Milliseconds since the epoch at which the access ends; null for never. */
  readonly expiresAtMs: number | null;
}

export const ALL_SCOPES = Object.values(Scope).reduce((bits, bit) => bits | bit, 0);

/** What `ACCESS=open` gives to anyone. */
export const OPEN_ACCESS: Access = {
  namespace: "default",
  scopes: ALL_SCOPES,
  keyPrefixes: [],
  expiresAtMs: null,
};

/** True when no frame of the protocol can be refused for want of a right. */
export function isUnrestricted({ scopes, keyPrefixes }: Access, protocol: Protocol): boolean {
  const needed = scopesOf(protocol);
  return (scopes & needed) === needed && keyPrefixes.length === 0;
}

/** True when a frame with this layout and key may be executed. */
export function allows(
  access: Access,
  layout: Layout,
  bytes: Uint8Array,
  keyAt: number,
  keyBytes: number,
): boolean {
  return (access.scopes & layout.scope) !== 0 && allowsKey(access, bytes, keyAt, keyBytes);
}

export function allowsKey(
  { keyPrefixes }: Access,
  bytes: Uint8Array,
  keyAt: number,
  keyBytes: number,
): boolean {
  if (keyPrefixes.length === 0) return true;
  return keyPrefixes.some(
    (prefix) => prefix.length <= keyBytes && prefix.every((byte, i) => bytes[keyAt + i] === byte),
  );
}

/** Name of the scope that a bit stands for. */
export function scopeName(bit: number): ScopeName {
  return (Object.keys(Scope) as ScopeName[]).find((name) => Scope[name] === bit)!;
}
