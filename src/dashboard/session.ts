/**
 * Who is looking: a token, if the deployment asks for one, and what reaches the server with it.
 *
 * The token is kept in sessionStorage: it ends with the tab, and other tabs and origins never see it.
 * It travels as a header, and to a WebSocket as a subprotocol; never in a URL, which would end up in logs.
 */
import { http, ThrottrClient, ThrottrError } from "../client/index.ts";
import { errorOfResponse } from "../client/failure.ts";
import { claimsOf, type Claims } from "./claims.ts";
import { learnClockOf } from "./server-clock.ts";
import { Store } from "./store.ts";

const TOKEN_ITEM = "throttr-token";
/** How long an answer may take, ms. */
const TIMEOUT_MS = 15_000;
/** What says that the token, or that there is none, is why nothing was answered. */
const TOKEN_CODES = ["token_missing", "token_invalid", "token_expired", "token_not_yet_valid"];

export interface Session {
  readonly token: string | null;
  /** Null where there is no token: everything is allowed. */
  readonly claims: Claims | null;
  /** Calls over HTTP; subscriptions over a WebSocket. */
  readonly throttr: ThrottrClient;
}

export type SessionState =
  | { readonly status: "checking" }
  | { readonly status: "open"; readonly session: Session }
  /** A token is asked for; the error says why the one before is not taken. */
  | { readonly status: "asking"; readonly error: ThrottrError | null }
  /** Nobody can say: the server is not reached, or lets nobody in. */
  | { readonly status: "failed"; readonly error: ThrottrError };

export const sessionStore = new Store<SessionState>({ status: "checking" });

/** Opens the dashboard with the token of this tab, or without one. */
export async function openSession(): Promise<void> {
  await tryToken(sessionStorage.getItem(TOKEN_ITEM));
}

/** Opens the dashboard with a token, and keeps it for this tab if the server takes it. */
export async function signIn(token: string): Promise<void> {
  await tryToken(token);
}

export function signOut(): void {
  sessionStorage.removeItem(TOKEN_ITEM);
  ask(null);
}

async function tryToken(token: string | null): Promise<void> {
  const throttr = new ThrottrClient(http(location.origin, token === null ? {} : { token }));
  const error = await errorOf(throttr);
  if (error === null) {
    if (token !== null) sessionStorage.setItem(TOKEN_ITEM, token);
    const claims = token === null ? null : claimsOf(token);
    sessionStore.set({ status: "open", session: { token, claims, throttr } });
    return;
  }
  await throttr.close();
  if (!TOKEN_CODES.includes(error.code)) return sessionStore.set({ status: "failed", error });
  sessionStorage.removeItem(TOKEN_ITEM);
  // That a first visitor has no token is no error.
  ask(token === null ? null : error);
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
    sessionStorage.removeItem(TOKEN_ITEM);
    ask(known);
  }
  return known;
}

/** True when the token is known to lack a scope; then there is no need to ask the server. */
export const lacksScope = ({ claims }: Session, scope: string): boolean =>
  claims !== null && !claims.scopes.includes(scope);

interface CallOptions {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON, or bytes as they are. */
  readonly body?: object | Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal;
}

/**
 * Asks the server what the client library has no call for.
 *
 * @throws ThrottrError with the code of the server's problem; `connection_failed` where it was not reached
 */
export async function answerOf(
  { token }: Session,
  path: string,
  { method = "GET", body, signal }: CallOptions = {},
): Promise<Response> {
  const headers = new Headers();
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  if (body !== undefined) {
    const isBytes = body instanceof Uint8Array;
    headers.set("content-type", isBytes ? "application/octet-stream" : "application/json");
  }
  const init: RequestInit = { method, headers, cache: "no-store" };
  if (body !== undefined) init.body = body instanceof Uint8Array ? body : JSON.stringify(body);
  if (signal !== undefined) init.signal = signal;
  const response = await reached(path, init);
  learnClockOf(response.headers);
  if (response.ok) return response;
  const detail = `the server answered HTTP ${response.status}`;
  throw (await errorOfResponse(response)) ?? new ThrottrError("response_invalid", detail);
}

async function reached(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch (cause) {
    const reason = init.signal?.reason as unknown;
    if (reason instanceof DOMException && reason.name === "TimeoutError") {
      throw new ThrottrError("timeout", `the server did not answer within ${TIMEOUT_MS / 1000} s`);
    }
    if (reason !== undefined) throw cause;
    throw new ThrottrError("connection_failed", "the server was not reached", { cause });
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
