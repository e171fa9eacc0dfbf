/**
 * The WebSocket to the server that carries one TCP connection.
 *
 * It turns the events of `ws` into four: open, message, pong and close. All ways to fail arrive as one close, with a reason
 * for the log.
 */
import type { IncomingMessage } from "node:http";
import { WebSocket, type ClientOptions } from "ws";
import { BRIDGE_SUBPROTOCOL } from "../../wire/bridge.ts";
import { detailOf } from "./error.ts";
import type { Failure } from "./metrics.ts";

/** The platform sends no larger messages (32 MiB); without a bound a broken server could fill our memory. */
const MESSAGE_BYTES_MAX = 33 << 20;
/** How long the server may take to answer a close. */
const CLOSE_TIMEOUT_MS = 5000;
/** How much of a refusal's body is read: a problem document is shorter. */
const REFUSAL_BYTES_MAX = 4096;

/** Why a WebSocket did not open. */
export interface OpenFailure {
  readonly failure: Failure;
  /** What the server says: HTTP status, stable code, and a sentence. Otherwise what the system says. */
  readonly detail: Readonly<Record<string, string | number>>;
}

export interface UpstreamEvents {
  onOpen(): void;
  /** Format: `wire/bridge.ts`. */
  onMessage(message: Uint8Array): void;
  /** The server has answered the text `ping`. */
  onPong(): void;
  /** The WebSocket has ended; with a failure when it never was open. */
  onClose(code: number, reason: string, failure: OpenFailure | null): void;
}

/** A server before 0.5.0 opens a plain WebSocket whatever subprotocol is asked for, and confirms none. */
const NOT_CONFIRMED: OpenFailure = {
  failure: "refused",
  detail: {
    code: "bridge_unsupported",
    detail: `the server does not speak ${BRIDGE_SUBPROTOCOL}: run the gateway of the server's release, or update the server`,
  },
};

/** Starts to open a WebSocket to the server. */
export function openUpstream(
  url: URL,
  token: string | null,
  timeoutMs: number,
  events: UpstreamEvents,
): WebSocket {
  // The types of ws don't know `closeTimeout` yet.
  const options: ClientOptions & { closeTimeout: number } = {
    // Compression would cost memory for each connection, and the server does not offer it.
    perMessageDeflate: false,
    maxPayload: MESSAGE_BYTES_MAX,
    closeTimeout: CLOSE_TIMEOUT_MS,
    ...(token !== null && { headers: { authorization: `Bearer ${token}` } }),
  };
  const socket = new WebSocket(url, BRIDGE_SUBPROTOCOL, options);
  // The first reason counts: later events of the same failure say less.
  let failure: OpenFailure | null = null;
  let isOpen = false;
  // In all: `handshakeTimeout` of ws begins anew with each byte that the server sends.
  const timer = setTimeout(() => {
    failure ??= { failure: "unreachable", detail: { detail: `not open within ${timeoutMs} ms` } };
    socket.terminate();
  }, timeoutMs);
  socket.on("open", () => {
    clearTimeout(timer);
    isOpen = true;
    events.onOpen();
  });
  socket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) events.onMessage(data);
    else events.onPong();
  });
  socket.on("upgrade", ({ headers }) => {
    // The library ends such a WebSocket by itself, with an error that has no code.
    if (headers["sec-websocket-protocol"] !== BRIDGE_SUBPROTOCOL) failure = NOT_CONFIRMED;
  });
  // With this listener `ws` leaves the response to us: its body has the server's code, and the
  // socket is still to be ended.
  socket.on("unexpected-response", (_request, response) => {
    failure ??= { failure: "refused", detail: { status: response.statusCode ?? 0 } };
    void refusalOf(response).then((refusal) => {
      failure = refusal;
      socket.terminate();
    });
  });
  // A WebSocket that breaks has close code 1006 and no reason; the error before it says what the
  // system found.
  let lostBy = "";
  socket.on("error", (error) => {
    lostBy = detailOf(error);
    if (isOpen) return;
    failure ??= { failure: "unreachable", detail: { detail: lostBy } };
  });
  socket.on("close", (code, reason) => {
    clearTimeout(timer);
    events.onClose(code, reason.toString("utf8") || lostBy, failure);
  });
  return socket;
}

/** Reads what the server says instead of opening the WebSocket. */
async function refusalOf(response: IncomingMessage): Promise<OpenFailure> {
  const status = response.statusCode ?? 0;
  let body = "";
  try {
    for await (const chunk of response) {
      body += String(chunk);
      // Leaving the loop destroys the response, so the rest is not received.
      if (body.length > REFUSAL_BYTES_MAX) break;
    }
  } catch {
    // The status says enough.
  }
  return { failure: "refused", detail: { status, ...problemOf(body) } };
}

/** Code and sentence of a problem document, shortened, as they end in a log line; nothing of any other body. */
function problemOf(body: string): Readonly<Record<string, string>> {
  try {
    const { code, detail } = JSON.parse(body) as { code?: unknown; detail?: unknown };
    return {
      ...(typeof code === "string" && { code: code.slice(0, 64) }),
      ...(typeof detail === "string" && { detail: detail.slice(0, 512) }),
    };
  } catch {
    return {};
  }
}
