/**
 * Tokens: the rights of a caller in a namespace.
 *
 * A token is a JWT (HS256) signed with `TOKEN_SECRET`. Nothing about it is stored, so reading one costs no call. Which
 * tokens are revoked is on a list that each isolate has a copy of: `revocations.ts` checks it.
 */
import { variableName } from "../base/deployment.ts";
import { verify } from "hono/jwt";
import { JwtTokenSignatureMismatched } from "hono/utils/jwt/types";
import * as v from "valibot";
import { presentMs } from "../base/clock.ts";
import { OPEN_ACCESS, TOKEN_ID, type Access } from "../base/access.ts";
import { PREFIX_BYTES_MAX, PREFIXES_MAX, SCOPE_NAMES, scopeBits } from "../base/grant.ts";
import { DEPLOYMENT, NAMESPACE } from "../base/names.ts";
import type { ScopeName } from "../wire/throttr/requests.ts";
import type { Settings } from "../base/settings.ts";
import type { Credentials } from "./credentials.ts";
import { NAMED, OPEN_NAMESPACE } from "../wire/credentials.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** A token in a URL ends up in logs and histories, so its lifetime must be short. In seconds. */
export const TICKET_TTL_S_MAX = 300;
/** Tolerated difference between the clocks of issuer and server, in seconds. */
const LEEWAY_S = 5;
/** Prefixes become bytes once, when a token is read: keys are compared as bytes. */
const encoder = new TextEncoder();

/** A list of prefixes. An empty one, like none, allows all names. */
const prefixes = v.optional(
  v.pipe(
    v.array(
      v.pipe(
        v.string("expected texts"),
        v.transform((prefix) => encoder.encode(prefix)),
        v.maxLength(PREFIX_BYTES_MAX, `expected at most ${PREFIX_BYTES_MAX} bytes in each`),
      ),
      "expected a list",
    ),
    v.maxLength(PREFIXES_MAX, `expected at most ${PREFIXES_MAX}`),
  ),
  [],
);

/** The name of a namespace; what a message is about stands before it. */
export const namespaceName = v.pipe(
  v.string("expected a namespace"),
  v.regex(NAMESPACE, "expected 1 to 64 letters, digits, dots, dashes or underscores"),
);

/** @throws ThrottrError `token_invalid` */
function parseNamespace(name: string): string {
  const result = v.safeParse(namespaceName, name);
  if (result.success) return result.output;
  throw new ThrottrError("token_invalid", `namespace: ${result.issues[0].message}`);
}

/** The rights in a token's claims. */
const grantFields = {
  scopes: v.array(v.picklist(SCOPE_NAMES, `expected ${SCOPE_NAMES.join(", ")}`), "expected a list"),
  keyPrefixes: prefixes,
  channelPrefixes: prefixes,
};

const SECONDS = "expected seconds since the epoch";

/**
 * The claims that are read. Others are allowed and ignored: an issuer may add its own. `exp` is not optional: a
 * token that is revoked stays listed until then.
 */
const claimsSchema = v.object(
  {
    ns: v.pipe(
      v.string("expected a namespace"),
      v.regex(
        /^(?:\*|[\w.-]{1,64})$/,
        "expected 1 to 64 letters, digits, dots, dashes or underscores, or * for all namespaces",
      ),
    ),
    exp: v.pipe(v.number(SECONDS), v.finite(SECONDS)),
    iat: v.optional(v.number(SECONDS)),
    nbf: v.optional(v.number(SECONDS)),
    jti: v.optional(v.unknown()),
    ...grantFields,
  },
  "missing",
);

/** Makes an access from a grant. */
function accessOf(
  namespace: string,
  grant: {
    readonly scopes: readonly ScopeName[];
    readonly keyPrefixes: readonly Uint8Array[];
    readonly channelPrefixes: readonly Uint8Array[];
  },
  expiresAtMs: number | null,
): Access {
  const { scopes, keyPrefixes, channelPrefixes } = grant;
  return { namespace, scopes: scopeBits(scopes), keyPrefixes, channelPrefixes, expiresAtMs };
}

/** The `jti` of a token, by which it can be revoked; null where an issuer has written none, or something else. */
function idOf(jti: unknown): string | null {
  return typeof jti === "string" && TOKEN_ID.test(jti) ? jti : null;
}

/** The claims of a token. */
export type Claims = v.InferInput<typeof claimsSchema>;

/** What a route is about: one namespace, the deployment with all of them, or either, as the token says. */
export type Reach = "namespace" | "deployment" | "either";

/**
 * Checks credentials and returns the access that they give. Its namespace is `DEPLOYMENT` where a route is about the
 * deployment; otherwise it is the name of a namespace.
 *
 * @throws ThrottrError `namespace_missing` for a deployment-wide token that names no namespace, where the route is about
 * one; `deployment_only` for any other token, where the route is about the deployment
 * @throws ThrottrError `token_missing`, `token_expired`, `token_not_yet_valid`, `token_invalid`, `ticket_too_long`;
 * 503 `access_not_configured` if the deployment has neither a secret nor ACCESS=open
 */
export async function authenticate(
  settings: Settings,
  credentials: Credentials,
  reach: Reach = "namespace",
): Promise<Access> {
  const access = await accessOfCredentials(settings, credentials);
  if (reach === "deployment") return deploymentAccess(settings, access);
  if (reach === "namespace" && access.namespace === DEPLOYMENT) {
    throw new ThrottrError(
      "namespace_missing",
      `the token is for all namespaces: name one behind it, as TOKEN${NAMED}NAME`,
    );
  }
  return access;
}

/** What credentials give, whatever the route is about. */
async function accessOfCredentials(
  settings: Settings,
  { token, isTicket }: Credentials,
): Promise<Access> {
  assertConfigured(settings);
  if (token === null) {
    if (settings.ACCESS === "open") return OPEN_ACCESS;
    throw new ThrottrError(
      "token_missing",
      "send a token as Authorization: Bearer, as WebSocket subprotocol bearer.<token>, or as ?ticket=",
    );
  }
  if (token.startsWith(OPEN_NAMESPACE))
    return openAccess(settings, token.slice(OPEN_NAMESPACE.length));
  const end = token.indexOf(NAMED);
  const claims = parseClaims(await verified(settings, end < 0 ? token : token.slice(0, end)));
  assertCurrent(claims);
  if (isTicket && (claims.iat === undefined || claims.exp - claims.iat > TICKET_TTL_S_MAX)) {
    throw new ThrottrError(
      "ticket_too_long",
      `a ticket needs iat and exp at most ${TICKET_TTL_S_MAX} s apart: create one with a shorter lifetime`,
    );
  }
  const namespace = end < 0 ? claims.ns : namespaceNamed(claims, token.slice(end + 1));
  const isForAll = claims.ns === DEPLOYMENT;
  const mark = { isForAll, id: idOf(claims.jti), issuedAtS: claims.iat ?? null };
  return { ...accessOf(namespace, claims, claims.exp * 1000), token: mark };
}

/**
 * The namespace that is named behind a token.
 *
 * @throws ThrottrError `token_invalid` unless the token is for all namespaces
 */
function namespaceNamed({ ns }: Pick<Claims, "ns">, name: string): string {
  if (ns !== DEPLOYMENT) {
    throw new ThrottrError(
      "token_invalid",
      `the token is for one namespace, so send it without ${NAMED} and a name: only a token for all namespaces has that`,
    );
  }
  return parseNamespace(name);
}

/** Whether the caller may list namespaces, and choose one for each request. */
export function isForAllNamespaces(
  { ACCESS, OPEN_NAMESPACES }: Settings,
  { token }: Pick<Access, "token">,
): boolean {
  // A server that lets strangers choose any namespace has none to hide.
  const isOpen = ACCESS === "open" && OPEN_NAMESPACES === "any" && token === undefined;
  return isOpen || token?.isForAll === true;
}

/**
 * The access to the deployment as a whole, whether or not the credentials name a namespace.
 *
 * @throws ThrottrError `deployment_only`
 */
function deploymentAccess(settings: Settings, access: Access): Access {
  if (isForAllNamespaces(settings, access)) return { ...access, namespace: DEPLOYMENT };
  throw new ThrottrError(
    "deployment_only",
    `the route is about all namespaces, so it needs a token with the claim "ns": "*" (throttr-edge token --ns '*')`,
  );
}

/**
 * The access to a namespace of an open server. The name takes the place of a token, so clients need no other option
 * for it. No JWT begins like it.
 *
 * @throws ThrottrError `token_invalid` unless the server allows any namespace
 */
function openAccess({ ACCESS, OPEN_NAMESPACES }: Settings, name: string): Access {
  if (ACCESS !== "open" || OPEN_NAMESPACES !== "any") {
    throw new ThrottrError(
      "token_invalid",
      `${OPEN_NAMESPACE}NAME instead of a token needs a server with ${variableName("ACCESS")}=open and ${variableName("OPEN_NAMESPACES")}=any, as npm start sets them`,
    );
  }
  return { ...OPEN_ACCESS, namespace: parseNamespace(name) };
}

/** @throws ThrottrError `access_not_configured` if the deployment has neither a secret nor ACCESS=open */
export function assertConfigured({ ACCESS, TOKEN_SECRET }: Settings): void {
  if (ACCESS === "open" || TOKEN_SECRET !== "") return;
  throw new ThrottrError(
    "access_not_configured",
    `access is not configured: set the secret ${variableName("TOKEN_SECRET")} (wrangler secret put ${variableName("TOKEN_SECRET")}), or ${variableName("ACCESS")}=open to serve anyone`,
  );
}

/**
 * The payload of a token whose signature is right.
 *
 * A token that fails by its signature alone is tried with `TOKEN_SECRET_PREVIOUS`, so that a secret can be changed
 * while tokens of the old one live.
 *
 * @throws ThrottrError `token_invalid`
 */
async function verified(
  { TOKEN_SECRET, TOKEN_SECRET_PREVIOUS }: Settings,
  token: string,
): Promise<unknown> {
  if (TOKEN_SECRET === "") {
    throw new ThrottrError(
      "token_invalid",
      `this server is open to anyone and has no ${variableName("TOKEN_SECRET")} to check a token with: send the request without one`,
    );
  }
  if (token === "") {
    throw new ThrottrError(
      "token_invalid",
      "expected Authorization: Bearer TOKEN, where TOKEN has no space",
    );
  }
  try {
    // Times are checked later: by the server's own clock, with a leeway, and only once the signature is right.
    const times = { exp: false, nbf: false, iat: false };
    return await verify(token, TOKEN_SECRET, { alg: "HS256", ...times });
  } catch (error) {
    if (error instanceof JwtTokenSignatureMismatched && TOKEN_SECRET_PREVIOUS !== "") {
      return await verified(
        { TOKEN_SECRET: TOKEN_SECRET_PREVIOUS, TOKEN_SECRET_PREVIOUS: "" } as Settings,
        token,
      );
    }
    throw new ThrottrError(
      "token_invalid",
      `the token is not a JWT that is signed with this deployment's ${variableName("TOKEN_SECRET")}`,
    );
  }
}

/**
 * Checks that an access has not ended since it was given.
 *
 * @throws ThrottrError `token_expired`
 */
export function assertNotExpired({ expiresAtMs }: Pick<Access, "expiresAtMs">): void {
  if (expiresAtMs === null || presentMs() < expiresAtMs) return;
  throw new ThrottrError("token_expired", "the token has expired: send a new one");
}

/** @throws ThrottrError `token_expired`, `token_not_yet_valid` */
function assertCurrent(claims: Pick<Claims, "exp" | "nbf" | "iat">): void {
  assertNotExpired({ expiresAtMs: claims.exp * 1000 });
  const nowS = Math.floor(presentMs() / 1000);
  for (const name of ["nbf", "iat"] as const) {
    const begin = claims[name];
    if (begin === undefined || begin <= nowS + LEEWAY_S) continue;
    throw new ThrottrError(
      "token_not_yet_valid",
      `the token's ${name} is ${begin - nowS} s ahead of the server's clock, but may be at most ${LEEWAY_S} s ahead: check the clock of the machine that issued it`,
    );
  }
}

/** What a claim of prefixes may be called by mistake. As one that is not known, it would restrict nothing. */
const LIKE_PREFIXES = /^(?:key|channel)[_-]?prefix(?:es)?$/i;

/** @throws ThrottrError `token_invalid` */
function assertSpelt(claims: object): void {
  const misspelt = Object.keys(claims).find(
    (name) => LIKE_PREFIXES.test(name) && !Object.hasOwn(grantFields, name),
  );
  if (misspelt === undefined) return;
  throw new ThrottrError("token_invalid", `${misspelt}: expected keyPrefixes or channelPrefixes`);
}

/**
 * Reads the claims of a payload that was signed: a fault in them is the issuer's, and the message names it.
 *
 * @throws ThrottrError `token_invalid`
 */
function parseClaims(payload: unknown): v.InferOutput<typeof claimsSchema> {
  const result = v.safeParse(claimsSchema, payload);
  if (result.success) {
    assertSpelt(payload as object);
    return result.output;
  }
  const faults = result.issues.map(({ path, message }) => {
    const claim = path?.[0].key as string | undefined;
    return `${claim ?? "claims"}: ${message}`;
  });
  throw new ThrottrError("token_invalid", faults.join("; "));
}
