/** JSON requests to routes that the client library has no method for, such as `/health` and `/v1/admin/clock`. */
import { checkedToken, serverOf } from "../client/transport/door.ts";
import { notThrottr } from "../client/transport/failure.ts";
import { refusalOf, reach } from "../client/transport/http.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { interrupted } from "./interruption.ts";
import type { Json } from "./output.ts";
import type { ConnectionSettings } from "./settings.ts";

/**
 * Makes a call that ends with the run, and after a timeout.
 *
 * `fetch` rejects with the reason of the signal that ended it, which names neither; so the error says
 * which of the two it was.
 *
 * @throws ThrottrError `aborted`, `timeout`, and what the call throws
 */
export async function inTime<Answer>(
  timeoutMs: number,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    return await call(AbortSignal.any([signal, timeout]));
  } catch (error) {
    if (signal.aborted) throw interrupted();
    if (timeout.aborted) throw new ThrottrError("timeout", `no answer within ${timeoutMs} ms`);
    throw error;
  }
}

export interface ServerRequest {
  /** Path below the address of the server, with a slash in front. */
  readonly path: string;
  /** Sent with POST; a request without a body is a GET. */
  readonly body?: Json;
  /** Left out if the route needs no token. */
  readonly token?: string | null;
  /** A field that every answer of the server has: an application at the same address may answer with JSON, too. */
  readonly field?: string;
}

/**
 * Sends a request and returns the JSON object of the answer; an empty one where the answer has none.
 *
 * @throws ThrottrError `option_invalid`, `connection_failed`, `timeout`, `aborted`, `response_invalid`, or the code
 * of the server's problem
 */
export async function askServer(
  { url: address, timeoutMs }: ConnectionSettings,
  { path, body, token = null, field }: ServerRequest,
  signal: AbortSignal,
): Promise<Record<string, Json>> {
  const url = serverOf(address) + path;
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${checkedToken(token)}` }),
    ...(body === undefined ? {} : { "content-type": "application/json" }),
  };
  // A GET has neither a method nor a body in its options.
  const posted = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  try {
    return await inTime(timeoutMs, signal, async (ending) => {
      const init = { ...posted, headers, signal: ending };
      const response = await reach(url, () => fetch(url, init));
      if (!response.ok) throw await refusalOf(url, response);
      return response.status === 204 ? {} : await jsonOf(url, response, field);
    });
  } catch (error) {
    const known = ThrottrError.from(error);
    if (body !== undefined || known.code !== "outcome_unknown") throw known;
    // A GET changes nothing, so its outcome is never in doubt: it failed.
    throw new ThrottrError("connection_failed", known.detail, { cause: known.cause });
  }
}

/** The JSON of an answer. @throws ThrottrError `response_invalid` when it is not one of this server */
async function jsonOf(
  url: string,
  response: Response,
  field: string | undefined,
): Promise<Record<string, Json>> {
  const text = await response.text().catch((cause: unknown) => {
    throw new ThrottrError("outcome_unknown", `the answer of ${url} was cut off`, { cause });
  });
  const answer = parsed(text);
  if (answer !== null && (field === undefined || Object.hasOwn(answer, field))) return answer;
  throw new ThrottrError("response_invalid", notThrottr(url, response.status, text));
}

/** An object; null for any other text. */
function parsed(text: string): Record<string, Json> | null {
  try {
    const value = JSON.parse(text) as Json;
    return typeof value === "object" && !Array.isArray(value)
      ? (value as Record<string, Json>)
      : null;
  } catch {
    return null;
  }
}
