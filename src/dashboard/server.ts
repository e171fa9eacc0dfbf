/** Calls to the server of this page that the client library has none for: JSON, with the token of a session. */
import { ThrottrError } from "../client/index.ts";
import { errorOfAnswer } from "../client/transport/failure.ts";
import { urlOf } from "./base.ts";
import { learnChallengeOf } from "./challenge.ts";
import { learnClockOf } from "./server-clock.ts";

/** How long an answer may take, and a live stream be silent, ms. */
export const TIMEOUT_MS = 15_000;

/** What a call is sent with: a session, or a token that is only tried. */
export interface Credentials {
  readonly token: string | null;
}

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
  { token }: Credentials,
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
  learnChallengeOf(response);
  if (response.ok) return response;
  const detail = `the server answered HTTP ${response.status}`;
  throw errorOfAnswer(await response.text()) ?? new ThrottrError("response_invalid", detail);
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
  session: Credentials,
  path: string,
  options: CallOptions = {},
): Promise<Json> {
  const response = await answerOf(session, path, {
    ...options,
    signal: inTime(options.signal),
  });
  return (response.status === 204 ? null : await response.json()) as Json;
}
