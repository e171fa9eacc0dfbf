/** `GET /health`, which needs no token and asks for no data. */
import { refusalOf, reach } from "../client/http-transport.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { Json } from "./output.ts";
import type { ConnectionSettings } from "./settings.ts";

/** What the server says of itself; more fields than these may come. */
export interface Health {
  readonly status: string;
  readonly tookMs: number;
  readonly [field: string]: Json;
}

/**
 * Asks a server.
 *
 * @throws ThrottrError `option_invalid`, `connection_failed`, `timeout`, `aborted`, or what the server says
 */
export async function askHealth(
  settings: ConnectionSettings,
  signal: AbortSignal,
): Promise<Health> {
  const url = healthUrl(settings.url);
  const timeout = AbortSignal.timeout(settings.timeoutMs);
  const startMs = performance.now();
  try {
    const response = await reach(url, () =>
      fetch(url, { signal: AbortSignal.any([signal, timeout]) }),
    );
    if (!response.ok) throw await refusalOf(url, response);
    const told = (await response.json()) as Record<string, Json>;
    const status = typeof told["status"] === "string" ? told["status"] : "unknown";
    return { ...told, status, tookMs: Math.round(performance.now() - startMs) };
  } catch (error) {
    if (signal.aborted) throw new ThrottrError("aborted", "the command was interrupted");
    if (timeout.aborted) {
      throw new ThrottrError("timeout", `no answer within ${settings.timeoutMs} ms`);
    }
    if (error instanceof SyntaxError) {
      throw new ThrottrError("response_invalid", `${url} answers without JSON`, { cause: error });
    }
    // What asks only for health has changed nothing.
    const known = ThrottrError.from(error);
    if (known.code !== "outcome_unknown") throw known;
    const detail = known.message.slice(known.code.length + 2);
    throw new ThrottrError("connection_failed", detail, { cause: error });
  }
}

/** @throws ThrottrError `option_invalid` */
function healthUrl(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : null;
  const [, isSecure] = /^(?:http|ws)(s?):$/.exec(url?.protocol ?? "") ?? [];
  if (url === null || isSecure === undefined) {
    throw new ThrottrError(
      "option_invalid",
      `url: an address that begins with http, https, ws or wss is expected, got ${address}`,
    );
  }
  return `http${isSecure}://${url.host}/health`;
}
