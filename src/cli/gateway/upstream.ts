/** The WebSocket to the server that a TCP connection is carried over. */
import type { IncomingMessage } from "node:http";
import { WebSocket, type ClientOptions } from "ws";
import { detailOf } from "./error.ts";
import type { Failure } from "./metrics.ts";

/** The platform has no larger messages. */
const MESSAGE_BYTES_MAX = 33 << 20;
/** How long the other side may take to close, too. */
const CLOSE_TIMEOUT_MS = 5000;
/** Of the body of a refusal, which is a problem document. */
const REFUSAL_BYTES_MAX = 4096;

/** Why a WebSocket did not open. */
export interface OpenFailure {
  readonly failure: Failure;
  /** Status of HTTP and stable code of the server, or what the system says. */
  readonly detail: Readonly<Record<string, string | number>>;
}

export interface UpstreamEvents {
  opened(): void;
  /** Bytes of the server's stream; null for the text `pong`. */
  received(bytes: Buffer | null): void;
  /** It has ended, or has never begun: then there is a failure. */
  closed(code: number, reason: string, failure: OpenFailure | null): void;
}

/** Begins to open one. */
export function openUpstream(
  url: URL,
  token: string | null,
  timeoutMs: number,
  events: UpstreamEvents,
): WebSocket {
  // The types of ws don't know `closeTimeout` yet.
  const options: ClientOptions & { closeTimeout: number } = {
    perMessageDeflate: false,
    handshakeTimeout: timeoutMs,
    maxPayload: MESSAGE_BYTES_MAX,
    closeTimeout: CLOSE_TIMEOUT_MS,
    ...(token !== null && { headers: { authorization: `Bearer ${token}` } }),
  };
  const socket = new WebSocket(url, options);
  let failure: OpenFailure | null = null;
  let isOpen = false;
  socket.on("open", () => {
    isOpen = true;
    events.opened();
  });
  socket.on("message", (data: Buffer, isBinary) => events.received(isBinary ? data : null));
  socket.on("unexpected-response", (_request, response) => {
    void refusalOf(response).then((refusal) => {
      failure = refusal;
      socket.terminate();
    });
  });
  let lostBy = "";
  socket.on("error", (error) => {
    lostBy = detailOf(error);
    if (isOpen) return;
    failure ??= { failure: "unreachable", detail: { detail: lostBy } };
  });
  socket.on("close", (code, reason) => {
    events.closed(code, reason.toString("utf8") || lostBy, failure);
  });
  return socket;
}

/** What the server says instead of opening the WebSocket. */
async function refusalOf(response: IncomingMessage): Promise<OpenFailure> {
  const status = response.statusCode ?? 0;
  let body = "";
  try {
    for await (const chunk of response) {
      body += String(chunk);
      if (body.length > REFUSAL_BYTES_MAX) break;
    }
  } catch {
    // The status says enough.
  }
  return { failure: "refused", detail: { status, ...codeOf(body) } };
}

function codeOf(body: string): { code: string } | null {
  try {
    const { code } = JSON.parse(body) as { code?: unknown };
    return typeof code === "string" ? { code: code.slice(0, 64) } : null;
  } catch {
    return null;
  }
}
