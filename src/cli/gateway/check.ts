/**
 * Whether the server takes this gateway: asked once at the start, before any client meets a refusal.
 *
 * It opens the WebSocket that a client of the first port would open, and closes it: what refuses one refuses the other.
 */
import { ThrottrError } from "../../wire/edge/error.ts";
import { doorUrl, LIMITS, upstreamUrl, type GatewayOptions } from "./options.ts";
import { openUpstream, type OpenFailure } from "./upstream.ts";

/** A start waits no longer for a server that does not answer. */
const TIMEOUT_MS_MAX = 5000;
/** The HTTP status of a token that is missing, wrong or expired. */
const UNAUTHORIZED = 401;

/** Why it is not known whether the server takes the gateway, as the log says it. */
export type Unchecked = Readonly<Record<string, string | number>>;

/**
 * Asks the door of the first port. A server that is not there, or not well, says nothing about the gateway: it may come
 * up later.
 *
 * @returns why nothing is known; null where the gateway may start
 * @throws ThrottrError the server's `token_invalid`, `token_expired`, … when it refuses the token; `bridge_unsupported`
 *   when gateway and server are of different releases
 * @throws UsageError `option_invalid`, `token_unreadable`
 */
export async function checkServer(
  { url, token: source, ports, connectTimeoutMs = LIMITS.connectTimeoutMs[0] }: GatewayOptions,
  signal: AbortSignal,
): Promise<Unchecked | null> {
  // The ports differ in protocol only; the token opens all of them or none.
  const door = doorUrl(upstreamUrl(url), ports[0]!.path);
  const token = (await source?.()) ?? null;
  const failure = await failureOf(door, token, Math.min(connectTimeoutMs, TIMEOUT_MS_MAX), signal);
  if (failure === null) return null;
  const { status, code, detail } = failure.detail;
  if (status === UNAUTHORIZED) {
    throw refusal(code ?? "token_invalid", `${url} refuses the gateway's token`, detail);
  }
  if (code === "bridge_unsupported") throw refusal(code, url, detail);
  return { reason: failure.failure, ...failure.detail };
}

/** Why the WebSocket does not open; null when it does, or the start is broken off. */
async function failureOf(
  door: URL,
  token: string | null,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<OpenFailure | null> {
  return await new Promise((resolve) => {
    const socket = openUpstream(door, token, timeoutMs, {
      onOpen: () => socket.close(1000),
      onMessage: () => {},
      onPong: () => {},
      onClose: (_code, _reason, failure) => resolve(failure),
    });
    // SIGINT while the server is asked: `terminate` makes the close event come at once.
    const stop = (): void => socket.terminate();
    signal.addEventListener("abort", stop, { once: true });
    socket.once("close", () => signal.removeEventListener("abort", stop));
  });
}

/**
 * An error with the server's own code, so that scripts see the same code as from any other command.
 */
const refusal = (
  code: string | number,
  what: string,
  detail: string | number | undefined,
): ThrottrError =>
  new ThrottrError(String(code), `${what}: ${detail ?? `HTTP ${UNAUTHORIZED} without a reason`}`);
