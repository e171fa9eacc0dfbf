/**
 * What carries frames to a server, and replies and pushes back. The core of the client knows no more of
 * it than this.
 */
import type { ThrottrError } from "../../wire/edge/error.ts";
import type { Signal } from "../platform.ts";

/**
 * How a socket has ended, or why it could not be opened.
 *
 * @example
 * const error = new ThrottrError("token_missing", "send a token");
 * events.closed({ error, isFinal: true });
 */
export interface Ending {
  /** Its code is the one that the server gave, or `connection_failed`. */
  readonly error: ThrottrError;
  /** The server has refused, and would refuse again. */
  readonly isFinal: boolean;
}

/**
 * What a socket tells. After `closed` it tells nothing more.
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
  /** @throws when it is not open any more */
  send(message: Uint8Array<ArrayBuffer>): void;
  /** @throws when it is not open any more */
  ping(): void;
  /** Ends it, whatever state it is in. It tells nothing more. */
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
   * Carries one message, and gives its replies. Where it is missing, calls go over a connection.
   *
   * It rejects with a ThrottrError whose code says what is known: `connection_failed`, nothing was sent;
   * `outcome_unknown`, all or a part may have been applied; any other, the server has refused it, and
   * nothing was applied.
   */
  readonly exchange?: (message: Uint8Array<ArrayBuffer>, signal: Signal) => Promise<Uint8Array>;
  /** Begins to open a connection: what subscriptions need. */
  connect(events: SocketEvents): Socket;
}
