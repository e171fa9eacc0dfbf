/**
 * The session of the tab: its token, if the deployment needs one, and calls to the server with it.
 *
 * The token travels as a header, and to a WebSocket as a subprotocol; never in a URL, which would end up in logs.
 *
 * A local server lets anyone in, to any namespace: its name then stands in place of a token.
 */
import { http, ThrottrClient, ThrottrError } from "../client/index.ts";
import { DOOR_PATH } from "../client/transport/door.ts";
import { errorOfResponse } from "../client/transport/failure.ts";
import { credentialsFor, OPEN_NAMESPACE } from "../wire/credentials.ts";
import type { Grant } from "../wire/grant.ts";
import type { ScopeName } from "../wire/throttr/requests.ts";
import { urlOf } from "./base.ts";
import { namespaceInAddress, putNamespaceInAddress } from "./place.ts";
import { learnClockOf } from "./server-clock.ts";
import { forgetToken, keepToken, readToken } from "./session-token.ts";
import { Store } from "./store.ts";

/** The namespace of a token for all of them that names none. */
export const ALL = "*";
/** How long an answer may take, ms. */
const TIMEOUT_MS = 15_000;
/** Errors that end a session: the token is missing, wrong or expired. */
const TOKEN_CODES = [
  "token_missing",
  "token_invalid",
  "token_expired",
  "token_revoked",
  "token_not_yet_valid",
];

export interface Session {
  /** Null where the server lets this page in without one: it is open, or the application around it has a session. */
  readonly token: string | null;
  /** No real token was shown: none at all, or the name of a namespace in its place. */
  readonly isWithoutToken: boolean;
  /** What the server allows. */
  readonly grant: Grant;
  /** Calls over HTTP; subscriptions over a WebSocket. */
  readonly throttr: ThrottrClient;
}

export type SessionState =
  | { readonly status: "checking" }
  | { readonly status: "open"; readonly session: Session }
  /** A token is needed; the error says why the one before was refused. */
  | { readonly status: "asking"; readonly error: ThrottrError | null }
  /** The server cannot be reached, or its access is not configured. */
  | { readonly status: "failed"; readonly error: ThrottrError };

export const sessionStore = new Store<SessionState>({ status: "checking" });

/** Opens the dashboard with the token of this tab, or without one; in the namespace that the address names. */
export async function openSession(): Promise<void> {
  const [token, namespace] = [readToken(), namespaceInAddress()];
  if (namespace === null) return void (await signIn(token));
  const named = credentialsFor(token, namespace);
  try {
    await enter(named);
  } catch {
    // Most often the token is for one namespace: then that one is shown, or the reason why not.
    await signIn(token);
  }
}

/** Back and forward may lead to another namespace. */
export function listenToNamespace(): void {
  addEventListener("popstate", () => {
    const { value } = sessionStore;
    const namespace = namespaceInAddress();
    if (value.status !== "open" || namespace === null) return;
    if (namespace !== value.session.grant.namespace) void openSession();
  });
}

/**
 * Opens another namespace, with a token for all of them or on a server that lets anyone in to any.
 *
 * @returns why not; the session that was open then goes on
 */
export async function chooseNamespace(
  { token, grant }: Session,
  name: string,
): Promise<ThrottrError | null> {
  // Back leads to the namespace that was open, which the address need not have named.
  if (grant.namespace !== ALL) putNamespaceInAddress(grant.namespace);
  putNamespaceInAddress(name, true);
  return await signIn(credentialsFor(token, name));
}

/** Goes on without the token, where the server lets anyone in; else asks for one. */
export async function signOut(): Promise<void> {
  forgetToken();
  putNamespaceInAddress(null);
  sessionStore.set({ status: "checking" });
  await signIn(null);
}

/**
 * Opens the dashboard with a token, or without one, and keeps it for this tab if the server takes it.
 *
 * @returns why it is not taken; a session that was open before then goes on
 */
export async function signIn(token: string | null): Promise<ThrottrError | null> {
  try {
    await enter(token);
    return null;
  } catch (thrown) {
    const { value } = sessionStore;
    const error = ThrottrError.from(thrown, "failed");
    if (value.status === "open") return error;
    if (TOKEN_CODES.includes(error.code)) {
      forgetToken();
      // That a first visitor has no token is no error.
      ask(token === null ? null : error);
    } else {
      sessionStore.set({ status: "failed", error });
    }
    return error;
  }
}

/** @throws ThrottrError as the server refuses the token */
async function enter(token: string | null): Promise<void> {
  const grant = await jsonOf<Grant>({ token }, "/v1/access");
  const { value } = sessionStore;
  keepToken(token);
  if (namespaceInAddress() !== null) putNamespaceInAddress(grant.namespace);
  sessionStore.set({ status: "open", session: sessionOf(token, grant) });
  if (value.status === "open") await value.session.throttr.close();
}

function sessionOf(token: string | null, grant: Grant): Session {
  const isWithoutToken = token === null || token.startsWith(OPEN_NAMESPACE);
  const throttr = new ThrottrClient(http(urlOf(DOOR_PATH), token === null ? {} : { token }));
  return { token, isWithoutToken, grant, throttr };
}

function ask(error: ThrottrError | null): void {
  const { value } = sessionStore;
  if (value.status === "open") void value.session.throttr.close();
  sessionStore.set({ status: "asking", error });
}

/** What went wrong, as it can be shown. An error that the token is to blame for ends the session. */
export function failureOf(error: unknown): ThrottrError {
  const known = ThrottrError.from(error, "failed");
  if (TOKEN_CODES.includes(known.code)) {
    forgetToken();
    ask(known);
  }
  return known;
}

/** True when the token is known to lack a scope; then there is no need to ask the server. */
export const lacksScope = ({ grant }: Session, scope: ScopeName): boolean =>
  !grant.scopes.includes(scope);

/** A page of a list in JSON: `GET /v1/{name}`. */
export type Page<Name extends string, Row> = { readonly [name in Name]: readonly Row[] } & {
  /** Of the next page; null behind the last one. */
  readonly cursor: string | null;
};

interface CallOptions {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON. */
  readonly body?: object;
  readonly signal?: AbortSignal;
}

/**
 * Asks the server what the client library has no call for.
 *
 * @throws ThrottrError with the code of the server's problem; where no answer came, `connection_failed` of
 * what changes nothing, else `outcome_unknown`
 */
export async function answerOf(
  { token }: Pick<Session, "token">,
  path: string,
  { method = "GET", body, signal }: CallOptions = {},
): Promise<Response> {
  const headers = new Headers();
  if (token !== null) headers.set("authorization", `Bearer ${inHeader(token)}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  const response = await reached(urlOf(path), init, method === "GET");
  learnClockOf(response.headers);
  if (response.ok) return response;
  const detail = `the server answered HTTP ${response.status}`;
  throw (await errorOfResponse(response)) ?? new ThrottrError("response_invalid", detail);
}

/**
 * @throws ThrottrError `token_invalid` for characters that no header can have
 */
function inHeader(token: string): string {
  if (/^[\x20-\x7e]*$/.test(token)) return token;
  throw new ThrottrError("token_invalid", "a token has only letters, digits, dots and dashes");
}

async function reached(url: string, init: RequestInit, isRead: boolean): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (cause) {
    const reason = init.signal?.reason as unknown;
    if (reason instanceof DOMException && reason.name === "TimeoutError") {
      throw new ThrottrError("timeout", `the server did not answer within ${TIMEOUT_MS / 1000} s`);
    }
    if (reason !== undefined) throw cause;
    const code = isRead ? "connection_failed" : "outcome_unknown";
    throw new ThrottrError(code, "the server could not be reached", { cause });
  }
}

/** The server is of a release that does not have the route, as a page may come before it in a deployment. */
export const isUnknownRoute = ({ code }: ThrottrError): boolean =>
  code === "not_found" || code === "method_not_allowed";

/** A signal that ends what takes too long, beside one that the caller has. */
export function inTime(signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  return signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
}

/** The JSON of an answer; null of an empty one. */
export async function jsonOf<Json>(
  session: Pick<Session, "token">,
  path: string,
  options: CallOptions = {},
): Promise<Json> {
  const response = await answerOf(session, path, {
    ...options,
    signal: inTime(options.signal),
  });
  return (response.status === 204 ? null : await response.json()) as Json;
}
