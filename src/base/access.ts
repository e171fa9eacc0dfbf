/** What a caller may do: a namespace, scopes, prefixes, and until when. */
import { beginsWithAny } from "../wire/bytes.ts";
import { DEPLOYMENT } from "./names.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { Scope, shardScopesOf, type Layout, type ScopeName } from "../wire/throttr/requests.ts";

const decoder = new TextDecoder();
const OR = " or ";

/** IDs by which tokens can be revoked: 1 to 64 characters of ASCII without spaces. */
export const TOKEN_ID = /^[!-~]{1,64}$/;
/**
 * How long ago a token that is revoked may have expired, in ms. The clocks of a caller and of the server differ, and a token may
 * expire while it is revoked: a day covers both. An end in seconds, read as milliseconds, is decades ago, and the ID would leave the
 * list at once.
 */
export const EXPIRED_AGO_MS_MAX = 86_400_000;

/** Which token gave an access. It is stored with each connection, where few bytes are left. */
export interface TokenMark {
  /** It is a token for all namespaces, and not for the one of the access. */
  readonly isForAll: boolean;
  /** Its `jti`; null for a token that cannot be revoked by an ID. */
  readonly id: string | null;
  /** Its `iat`, in seconds since the epoch; null where it has none. */
  readonly issuedAtS: number | null;
}

/**
 * What a token or a service binding gives. It goes along with a connection for its life, in the socket's attachment.
 */
export interface Access {
  /** The only namespace that the caller may touch: objects of others are not even named. */
  readonly namespace: string;
  /** Bits of `Scope`. */
  readonly scopes: number;
  /** Keys must begin with one of these; empty for any key. */
  readonly keyPrefixes: readonly Uint8Array[];
  /** Channels must begin with one of these; empty for any channel. */
  readonly channelPrefixes: readonly Uint8Array[];
  /** Milliseconds since the epoch at which the access ends; null for never. */
  readonly expiresAtMs: number | null;
  /** Absent without a token, and in the attachments of release 0.4. */
  readonly token?: TokenMark;
  /** True for the rights of a session of the application around the server, which has no token that could be revoked. */
  readonly isSession?: boolean;
}

/** The namespace, or `DEPLOYMENT`, whose list of revoked tokens counts for an access by token. */
export const revocationListOf = ({ namespace, token }: Access): string =>
  token?.isForAll === true ? DEPLOYMENT : namespace;

/** Bits of every scope: what `ACCESS=open` gives. */
export const ALL_SCOPES = Object.values(Scope).reduce((bits, bit) => bits | bit, 0);

/** What `ACCESS=open` gives to every caller without a token. */
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

/** The right that a request lacks; null when it may be executed. */
export type MissingRight = "scope_missing" | "prefix_missing" | null;

/**
 * The one check of rights: whether requests of a layout may be made on the key or channel
 * `bytes[at, at + length)`. It runs for every frame of a restricted token, so it takes a place in a
 * buffer, and allocates nothing.
 */
export function missingRight(
  access: Access,
  layout: Layout,
  bytes: Uint8Array,
  at = 0,
  length = bytes.length,
): MissingRight {
  if ((access.scopes & layout.scope) !== layout.scope) return "scope_missing";
  if (layout.prefixes === null) return null;
  return beginsWithAny(access[layout.prefixes], bytes, at, length) ? null : "prefix_missing";
}

/** `missingRight` of the frame at `at`. */
export function missingRightOfFrame(
  access: Access,
  layout: Layout,
  bytes: Uint8Array,
  at: number,
): MissingRight {
  // The key of a pair begins with its two sizes; the token's prefix is one of the consumer behind them.
  const nameAt = at + (layout.pairSizeAt === 0 ? layout.keyAt : layout.headerBytes);
  return missingRight(access, layout, bytes, nameAt, bytes[at + layout.keySizeAt]!);
}

/** The error that a request without a right is answered with. */
export function missingRightError(
  missing: NonNullable<MissingRight>,
  layout: Layout,
  access: Access,
): ThrottrError {
  return new ThrottrError(missing, `${layout.name} ${neededRight(missing, layout, access)}`);
}

/** Prefixes in a message, in bytes: a reason to close a WebSocket with has at most 123. */
const NAMED_BYTES_MAX = 40;

/**
 * What a request without a right needs, for people: `needs the scope write`. The rights may be those of a token, of a
 * session or of a binding, so it names none of them.
 */
export function neededRight(
  missing: NonNullable<MissingRight>,
  layout: Layout,
  access: Access,
): string {
  if (missing === "scope_missing") return `needs the scope ${scopeNames(layout.scope)}`;
  const what = layout.prefixes === "keyPrefixes" ? "key" : "channel";
  return `may only use ${what}s that begin with ${prefixNames(access[layout.prefixes!], what)}`;
}

/** Prefixes as a list; only their number where they are long. */
function prefixNames(prefixes: readonly Uint8Array[], what: string): string {
  const bytes = prefixes.reduce((sum, { length }) => sum + length + OR.length, -OR.length);
  if (bytes > NAMED_BYTES_MAX) return `one of ${prefixes.length} ${what}Prefixes`;
  return prefixes.map((prefix) => decoder.decode(prefix)).join(OR);
}

/** Names of the scopes that bits stand for. */
export function scopeNames(bits: number): string {
  const names = (Object.keys(Scope) as ScopeName[]).filter((name) => (bits & Scope[name]) !== 0);
  return names.join(" and ");
}
