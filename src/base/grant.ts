/**
 * Grants: rights as code and configuration write them, checked and made into an access.
 *
 * They need no signature, unlike tokens: the props of a service binding, the options of `throttr()` and the answer of an
 * application's own `access` come from the owner of the account.
 */
import { Scope, type ScopeName } from "../wire/throttr/requests.ts";
import { shown } from "../wire/ratelimit/error.ts";
import type { Access } from "./access.ts";
import { NAMESPACE } from "./names.ts";

/** Prefixes of a kind in one grant. Each key of each request is compared with all of them. */
export const PREFIXES_MAX = 16;
/** Bytes of a prefix, as of a key: a longer one could match none. */
export const PREFIX_BYTES_MAX = 255;

/** What a caller may do. */
export interface Grant {
  /** 1 to 64 letters, digits, dots, dashes or underscores; `default` unless given. */
  readonly namespace?: string | undefined;
  /** `read`, `write`, `publish`, `subscribe`, `admin`; all of them unless given. */
  readonly scopes?: readonly ScopeName[] | undefined;
  /** Keys must begin with one of these: at most 16, of at most 255 bytes. Any key unless given. */
  readonly keyPrefixes?: readonly string[] | undefined;
  /** Channels must begin with one of these, as with keys. */
  readonly channelPrefixes?: readonly string[] | undefined;
}

/** What a caller may do for some time, such as that of a session. Lists of prefixes must not be empty. */
export interface ExpiringGrant extends Grant {
  /**
   * `read`, `write`, `publish`, `subscribe`, `admin`; all but `admin` unless given: it shows and changes the whole namespace,
   * whatever the prefixes are.
   */
  readonly scopes?: readonly ScopeName[] | undefined;
  /** When the rights end, in ms since the epoch: connections are closed then. Never unless given. */
  readonly expiresAtMs?: number | null | undefined;
}

const FIELDS: readonly string[] = ["namespace", "scopes", "keyPrefixes", "channelPrefixes"];
const EXPIRING_FIELDS: readonly string[] = [...FIELDS, "expiresAtMs"];

/** The names of all scopes, in the order of their bits. */
export const SCOPE_NAMES = Object.keys(Scope) as [ScopeName, ...ScopeName[]];

/** What a user of an application may do where it names no scopes. */
const SESSION_SCOPES = SCOPE_NAMES.filter((name) => name !== "admin");

/** Scopes as an access has them. */
export const scopeBits = (names: readonly ScopeName[]): number =>
  names.reduce((bits, name) => bits | Scope[name], 0);

/** Prefixes become bytes once, when a grant is read: keys are compared as bytes. */
const encoder = new TextEncoder();

/** A grant that can't be used. The caller gives it a code. */
export class GrantError extends Error {}

/**
 * Makes an access from a grant.
 *
 * @param grant of unknown shape: types do not exist at run time
 * @param isOfSession whether it is an `ExpiringGrant`, made for one user: it has the scope `admin` only where it names it.
 * Lists without a prefix would allow any name to a user who belongs to no group, so they are refused
 * @throws GrantError that names all invalid fields
 */
export function accessOfGrant(grant: unknown, isOfSession = false): Access {
  if (typeof grant !== "object" || grant === null || Array.isArray(grant)) {
    throw new GrantError(`expected an object, got ${shown(grant)}`);
  }
  const fields = grant as Readonly<Record<string, unknown>>;
  const known = isOfSession ? EXPIRING_FIELDS : FIELDS;
  const errors = Object.keys(fields)
    .filter((name) => !known.includes(name))
    .map((name) => `${name}: unknown field; the fields are ${known.join(", ")}`);
  const allScopes = isOfSession ? SESSION_SCOPES : SCOPE_NAMES;
  const { namespace = "default", scopes = allScopes, expiresAtMs = null } = fields;
  if (typeof namespace !== "string" || !NAMESPACE.test(namespace)) {
    errors.push("namespace: expected 1 to 64 letters, digits, dots, dashes or underscores");
  }
  if (!isListOf(scopes, (name) => SCOPE_NAMES.includes(name as ScopeName))) {
    errors.push(`scopes: expected a list of ${SCOPE_NAMES.join(", ")}`);
  }
  if (expiresAtMs !== null && !Number.isFinite(expiresAtMs)) {
    errors.push("expiresAtMs: expected milliseconds since the epoch, or null");
  }
  const keyPrefixes = prefixesOf("keyPrefixes", fields, errors);
  const channelPrefixes = prefixesOf("channelPrefixes", fields, errors);
  if (isOfSession) {
    if (allowsAny(fields.keyPrefixes)) errors.push(`keyPrefixes: ${ALLOWS_ANY}`);
    if (allowsAny(fields.channelPrefixes)) errors.push(`channelPrefixes: ${ALLOWS_ANY}`);
  }
  if (errors.length > 0) throw new GrantError(errors.join("; "));
  return {
    namespace: namespace as string,
    scopes: scopeBits(scopes as ScopeName[]),
    keyPrefixes,
    channelPrefixes,
    expiresAtMs: expiresAtMs as number | null,
    ...(isOfSession ? { isSession: true } : {}),
  };
}

const ALLOWS_ANY =
  "an empty list, or an empty prefix, would allow any name: leave the field out for that, or give no rights (null)";

/** Whether prefixes are given, and restrict nothing. */
const allowsAny = (prefixes: unknown): boolean =>
  Array.isArray(prefixes) && (prefixes.length === 0 || prefixes.includes(""));

/** The prefixes of a field as bytes. An empty list, like none, allows all names. */
function prefixesOf(
  field: "keyPrefixes" | "channelPrefixes",
  fields: Readonly<Record<string, unknown>>,
  errors: string[],
): Uint8Array[] {
  // Not null, too: an application that finds no prefixes for a user must not give all keys.
  const prefixes = fields[field] === undefined ? [] : fields[field];
  if (!isListOf(prefixes, (prefix) => typeof prefix === "string")) {
    errors.push(`${field}: expected a list of texts`);
    return [];
  }
  const bytes = (prefixes as string[]).map((prefix) => encoder.encode(prefix));
  if (bytes.length > PREFIXES_MAX || bytes.some(({ length }) => length > PREFIX_BYTES_MAX)) {
    errors.push(
      `${field}: expected at most ${PREFIXES_MAX} prefixes of at most ${PREFIX_BYTES_MAX} bytes`,
    );
  }
  return bytes;
}

const isListOf = (value: unknown, isOne: (item: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(isOne);
