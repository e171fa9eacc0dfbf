/** Where a request carries its token: in a header, in a WebSocket's subprotocols, or as a ticket in the URL. */
import type { HonoRequest } from "hono";

/** The token of a request. */
export interface Credentials {
  readonly token: string | null;
  /** Whether the token came in the URL. */
  readonly isTicket: boolean;
}

/**
 * What a token follows in the name of a subprotocol. The name is never confirmed, so that the token is not sent back.
 */
const BEARER_SUBPROTOCOL = "bearer.";

/** The token of a request; null without one. A ticket goes first: its URL was made for this request. */
export function credentialsOf(request: HonoRequest): Credentials {
  const ticket = request.query("ticket");
  if (ticket !== undefined) return { token: ticket, isTicket: true };
  const authorization = request.header("authorization");
  // Another scheme counts as an invalid token, not as a missing one: `ACCESS=open` must not accept it.
  if (authorization !== undefined) {
    return { token: /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? "", isTicket: false };
  }
  const offered = subprotocolsOf(request).find((name) => name.startsWith(BEARER_SUBPROTOCOL));
  return { token: offered?.slice(BEARER_SUBPROTOCOL.length) ?? null, isTicket: false };
}

/** The subprotocols that a WebSocket handshake offers, in the client's order; one empty name without the header. */
export function subprotocolsOf(request: HonoRequest): string[] {
  return (request.header("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());
}
