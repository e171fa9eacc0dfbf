/**
 * The session of the tab: its token, if the deployment needs one, and calls to the server with it.
 *
 * The token travels as a header, and to a WebSocket as a subprotocol; never in a URL, which would end up in logs.
 *
 * A local server lets anyone in, to any namespace: its name then stands in place of a token.
 */
import { http, ThrottrClient, ThrottrError } from "../client/index.ts";
import { errorOfResponse } from "../client/transport/failure.ts";
import { claimsOf, type Claims } from "./claims.ts";
import { learnClockOf } from "./server-clock.ts";
import { forgetToken, keepToken, readToken } from "./session-token.ts";
import { Store } from "./store.ts";

/** In front of a namespace that stands in place of a token. */
const NAMESPACE = "namespace.";
/** The namespace of requests without a token, where the server accepts them. */
const OPEN_NAMESPACE = "default";
/** How long an answer may take, ms. */
const TIMEOUT_MS = 15_000;
/** Errors that end a session: the token is missing, wrong or expired. */
const TOKEN_CODES = ["token_missing", "token_invalid", "token_expired", "token_not_yet_valid"];

export interface Session {
  readonly token: string | null;
  /** The server lets anyone in, and no real token was shown. */
  readonly isOpenToAll: boolean;
  /** Null where the token does not say it. */
  readonly namespace: string | null;
  /** Null where there is no token: everything is allowed. */
  readonly claims: Claims | null;
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

/** Opens the dashboard with the token of this tab, or without one. */
export async function openSession(): Promise<void> {
  await signIn(readToken());
}

/** Opens a namespace of a server that lets anyone in to any. Answers as `signIn`. */
export async function openNamespace(name: string): Promise<ThrottrError | null> {
  return await signIn(name === OPEN_NAMESPACE ? null : NAMESPACE + name);
}

/** Whether the server lets anyone in to any namespace. */
export async function mayNameNamespaces(): Promise<boolean> {
  const throttr = clientOf(NAMESPACE + OPEN_NAMESPACE);
  const error = await errorOf(throttr);
  await throttr.close();
  return error === null;
}

/** Goes on without the token, where the server lets anyone in; else asks for one. */
export async function signOut(): Promise<void> {
  forgetToken();
  sessionStore.set({ status: "checking" });
  await signIn(null);
}

const clientOf = (token: string | null): ThrottrClient =>
  new ThrottrClient(http(location.origin, token === null ? {} : { token }));

/**
 * Opens the dashboard with a token, or without one, and keeps it for this tab if the server takes it.
 *
 * @returns why it is not taken; a session that was open before then goes on
 */
export async function signIn(token: string | null): Promise<ThrottrError | null> {
  const throttr = clientOf(token);
  const error = await errorOf(throttr);
  const { value } = sessionStore;
  if (error === null) {
    keepToken(token);
    sessionStore.set({ status: "open", session: sessionOf(token, throttr) });
    if (value.status === "open") await value.session.throttr.close();
    return null;
  }
  await throttr.close();
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

function sessionOf(token: string | null, throttr: ThrottrClient): Session {
  if (token === null || token.startsWith(NAMESPACE)) {
    const namespace = token === null ? OPEN_NAMESPACE : token.slice(NAMESPACE.length);
    return { token, isOpenToAll: true, namespace, claims: null, throttr };
  }
  const claims = claimsOf(token);
  return { token, isOpenToAll: false, namespace: claims?.namespace ?? null, claims, throttr };
}

/** Why nothing can be asked; null where something can, even if not this. */
async function errorOf(throttr: ThrottrClient): Promise<ThrottrError | null> {
  try {
    await throttr.info({ timeoutMs: TIMEOUT_MS });
    return null;
  } catch (error) {
    const known = ThrottrError.from(error);
    return known.code === "scope_missing" ? null : known;
  }
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
export const lacksScope = ({ claims }: Session, scope: string): boolean =>
  claims !== null && !claims.scopes.includes(scope);

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
  { token }: Session,
  path: string,
  { method = "GET", body, signal }: CallOptions = {},
): Promise<Response> {
  const headers = new Headers();
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  const response = await reached(path, init, method === "GET");
  learnClockOf(response.headers);
  if (response.ok) return response;
  const detail = `the server answered HTTP ${response.status}`;
  throw (await errorOfResponse(response)) ?? new ThrottrError("response_invalid", detail);
}

async function reached(path: string, init: RequestInit, isRead: boolean): Promise<Response> {
  try {
    return await fetch(path, init);
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

/** A signal that ends what takes too long, beside one that the caller has. */
export function inTime(signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  return signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
}

/** The JSON of an answer; null of an empty one. */
export async function jsonOf<Json>(
  session: Session,
  path: string,
  options: CallOptions = {},
): Promise<Json> {
  const response = await answerOf(session, path, {
    ...options,
    signal: inTime(options.signal),
  });
  return (response.status === 204 ? null : await response.json()) as Json;
}
