/** Requests of the command line for JSON, beside those that the client makes. */
import { refusalOf, reach } from "../client/http-transport.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { Json } from "./output.ts";
import type { ConnectionSettings } from "./settings.ts";

export interface ServerRequest {
  readonly path: string;
  /** Sent with POST; nothing with GET. */
  readonly body?: Json;
  /** Left out where the route needs no token. */
  readonly token?: string | null;
}

/**
 * Asks a server, and gives the object that it answers.
 *
 * @throws ThrottrError `option_invalid`, `connection_failed`, `timeout`, `aborted`, `response_invalid`, or what the
 * server says
 */
export async function askServer(
  { url: address, timeoutMs }: ConnectionSettings,
  { path, body, token = null }: ServerRequest,
  signal: AbortSignal,
): Promise<Record<string, Json>> {
  const url = `${httpAddress(address)}${path}`;
  const timeout = AbortSignal.timeout(timeoutMs);
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { "content-type": "application/json" }),
  };
  const posted = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  try {
    const response = await reach(url, () =>
      fetch(url, { ...posted, headers, signal: AbortSignal.any([signal, timeout]) }),
    );
    if (!response.ok) throw await refusalOf(url, response);
    return (await response.json()) as Record<string, Json>;
  } catch (error) {
    if (signal.aborted) throw new ThrottrError("aborted", "the command was interrupted");
    if (timeout.aborted) throw new ThrottrError("timeout", `no answer within ${timeoutMs} ms`);
    if (error instanceof SyntaxError) {
      throw new ThrottrError("response_invalid", `${url} answers without JSON`, { cause: error });
    }
    const known = ThrottrError.from(error);
    if (body !== undefined || known.code !== "outcome_unknown") throw known;
    // What only asks has changed nothing.
    const detail = known.message.slice(known.code.length + 2);
    throw new ThrottrError("connection_failed", detail, { cause: error });
  }
}

/** @throws ThrottrError `option_invalid` */
function httpAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : null;
  const [, isSecure] = /^(?:http|ws)(s?):$/.exec(url?.protocol ?? "") ?? [];
  if (url === null || isSecure === undefined) {
    throw new ThrottrError(
      "option_invalid",
      `url: an address that begins with http, https, ws or wss is expected, got ${address}`,
    );
  }
  return `http${isSecure}://${url.host}`;
}
