/** Whether the server takes the gateway's token: asked once at the start, before any client meets a refusal. */
import { errorOfResponse } from "../../client/failure.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { detailOf } from "./error.ts";
import { doorUrl, LIMITS, upstreamUrl, type GatewayOptions } from "./options.ts";

/** A start waits no longer for a server that does not answer. */
const TIMEOUT_MS_MAX = 5000;
const UNAUTHORIZED = 401;
/** What a door for WebSockets answers to a plain request that it would have let in. */
const UPGRADE_REQUIRED = 426;

/** Why it is not known whether the token is good, as the log says it. */
export type Unchecked = Readonly<Record<string, string | number>>;

/**
 * Asks the door of the first port, without opening a WebSocket. A server that is not there, or is not well,
 * says nothing of the token: it may come up later.
 *
 * @returns what has kept it from being known; null where the token is good
 * @throws ThrottrError the server's `token_invalid`, `token_expired`, … when it refuses the token
 * @throws GatewayError `option_invalid`, `token_unreadable`
 */
export async function checkToken(
  { url, token: source, ports, connectTimeoutMs = LIMITS.connectTimeoutMs[0] }: GatewayOptions,
  signal: AbortSignal,
): Promise<Unchecked | null> {
  const door = doorUrl(upstreamUrl(url), ports[0]!.spoken.path);
  door.protocol = door.protocol === "wss:" ? "https:" : "http:";
  const token = (await source?.()) ?? null;
  const headers: Record<string, string> = {};
  if (token !== null) headers["authorization"] = `Bearer ${token}`;
  const timeout = AbortSignal.timeout(Math.min(connectTimeoutMs, TIMEOUT_MS_MAX));
  let response: Response;
  try {
    response = await fetch(door, {
      headers,
      redirect: "manual",
      signal: AbortSignal.any([signal, timeout]),
    });
  } catch (error) {
    return { reason: "unreachable", detail: reasonOf(error) };
  }
  const { status } = response;
  const error = await errorOfResponse(response);
  if (status === UNAUTHORIZED) throw refusal(door, error);
  if (status === UPGRADE_REQUIRED) return null;
  return { reason: "refused", status, ...(error === null ? {} : { code: error.code }) };
}

function refusal({ origin }: URL, error: ThrottrError | null): ThrottrError {
  const { code, message } =
    error ?? new ThrottrError("token_invalid", `HTTP ${UNAUTHORIZED} without a reason`);
  const detail = message.slice(code.length + 2);
  return new ThrottrError(code, `${origin} refuses the gateway's token: ${detail}`);
}

/** What has failed first: `fetch` itself tells nothing. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return detailOf(cause ?? error);
}
