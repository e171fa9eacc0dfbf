/**
 * Transports: they carry frames to a server, and replies and pushes back. This interface is all that the rest of the client
 * knows about them.
 */
import type { ThrottrError } from "../../wire/edge/error.ts";
import type { Signal } from "../platform.ts";

/**
 * How a socket ended, or why it could not be opened.
 *
 * @example
 * const error = new ThrottrError("token_missing", "the server expects a token: pass one as the option token");
 * events.closed({ error, isFinal: true });
 */
export interface Ending {
  /** Has the code that the server gave, or `connection_failed`. */
  readonly error: ThrottrError;
  /** The server refused, and would refuse again. */
  readonly isFinal: boolean;
}

/**
 * Events of a socket. None comes before `connect` has returned it, and none after `closed`.
 *
 * @example
 * port.on("data", (bytes) => events.received(bytes));
 */
export interface SocketEvents {
  opened(): void;
  /** The next bytes of the stream: whole replies and pushes, or pieces of them. */
  received(bytes: Uint8Array): void;
  /** The answer to a ping, or any other text. */
  ponged(): void;
  closed(ending: Ending): void;
}

/**
 * A connection that carries bytes both ways, or one that is being opened.
 *
 * @example
 * const socket: Socket = {
 *   send: (message) => port.write(message),
 *   ping: () => port.ping(),
 *   close: () => port.destroy(),
 * };
 */
export interface Socket {
  /** @throws when the socket is not open */
  send(message: Uint8Array<ArrayBuffer>): void;
  /** @throws when it is not open any more */
  ping(): void;
  /** Closes the socket in any state. No event follows. */
  close(): void;
}

/**
 * Carries frames to a server.
 *
 * @example
 * // One that counts the messages of another.
 * function counted(inner: Transport, count: () => void): Transport {
 *   return {
 *     exchange: (message, signal) => (count(), inner.exchange!(message, signal)),
 *     connect: (events) => inner.connect(events),
 *   };
 * }
 */
export interface Transport {
  /**
   * Carries one message, and returns its replies. In a transport without this method calls go over a connection.
   *
   * It rejects with a ThrottrError whose code says what is known: `connection_failed` when nothing was sent;
   * `outcome_unknown` when all or a part may have been applied; any other code when the server refused the message, and
   * nothing was applied.
   */
  readonly exchange?: (message: Uint8Array<ArrayBuffer>, signal: Signal) => Promise<Uint8Array>;
  /**
   * Begins to open a connection, which subscriptions need. Where it throws, no connection could be opened, and the client
   * tries again; for an error that stays, report `closed` with `isFinal`.
   */
  connect(events: SocketEvents): Socket;
}
