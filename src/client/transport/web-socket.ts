/** Transport over a WebSocket: calls, replies and pushes share one connection. */
import { checkOptions, type FieldNames } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { checkFunction } from "../options.ts";
import { checkToken, doorOf, tokenOf, type Token } from "./door.ts";
import { platform, type PlatformSocketConstructor } from "../platform.ts";
import { openSocket, type MadeSocket } from "./platform-socket.ts";
import type { Ending, Transport } from "./transport.ts";

const SUBPROTOCOL = "throttr";
const BEARER_SUBPROTOCOL = "bearer.";
/** Codes that stay until there is another token. */
const OF_THE_TOKEN: readonly string[] = ["token_expired", "token_revoked", "option_invalid"];

/**
 * Options for opening WebSockets.
 *
 * @example
 * import WebSocket from "ws"; // Node 20 has none of its own
 * const throttr = new ThrottrClient(webSocket("https://throttr.example.com", { token, WebSocket }));
 */
export interface WebSocketOptions {
  /** Not needed where the deployment is open. */
  readonly token?: Token | undefined;
  /** The class of the runtime unless given. */
  readonly WebSocket?: PlatformSocketConstructor | undefined;
}

export const WEB_SOCKET: FieldNames<WebSocketOptions> = { token: true, WebSocket: true };

/**
 * Carries calls over a WebSocket, which is opened when it is needed, and opened again when it was lost.
 *
 * @param url of the server, with the path that it is below where it has one, as a server inside a Worker does
 * @throws ThrottrError `option_invalid`
 *
 * @example
 * const throttr = new ThrottrClient(webSocket("https://throttr.example.com", { token }));
 * for await (const message of throttr.subscribe("news")) console.log(message.text());
 */
export function webSocket(url: string, options: WebSocketOptions = {}): Transport {
  checkOptions(options, WEB_SOCKET, "webSocket");
  checkToken(options.token);
  checkFunction("WebSocket", options.WebSocket, "the class");
  const door = doorOf(url, "ws");
  const source = {
    prepare: async () => await prepare(door, options),
    canReturnFrom: (code: string) =>
      !OF_THE_TOKEN.includes(code) || typeof options.token === "function",
  };
  return { connect: (events) => openSocket(source, events) };
}

async function prepare(
  door: string,
  options: WebSocketOptions,
): Promise<(() => MadeSocket) | Ending> {
  const WebSocket = options.WebSocket ?? platform.WebSocket;
  if (WebSocket === undefined) {
    const detail = "this runtime has no WebSocket: pass one as the option WebSocket";
    return { error: new ThrottrError("web_socket_missing", detail), isFinal: true };
  }
  const token = await tokenOf(options.token);
  const bearer = token === null ? [] : [BEARER_SUBPROTOCOL + token];
  return () => ({ socket: new WebSocket(door, [SUBPROTOCOL, ...bearer]) });
}
