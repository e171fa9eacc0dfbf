/**
 * Flow control of one connection: what its peer has not read, and whether there is room for more.
 *
 * A connection over the Worker's own bridge has a `BridgeFlow`, a WebSocket client a `SocketFlow`. A gateway has both:
 * it reports what its client has read, but it may lie, and then it gains no more than a silent WebSocket client.
 */
import { BRIDGE_WINDOW_BYTES, bridgeMessage, DRAINED_PORTION_BYTES } from "../../wire/bridge.ts";
import { BridgeFlow, type HubBacklog } from "./bridge-flow.ts";
import { pushBytes, replyBytes, type Ending } from "./ending.ts";
import { SocketFlow, type HubUnread, type SocketFlowHost } from "./socket-flow.ts";

/** The Hub's part in the flow of a connection. */
export interface FlowHost extends SocketFlowHost {
  readonly backlog: HubBacklog;
  readonly unread: HubUnread;
  /** Push bytes that a peer may leave unread: `PUSH_BYTES_MAX`. */
  readonly pushBytesMax: number;
}

/** What outlives hibernation. */
export interface StoredFlow {
  /** Bytes on their way to a bridge's client, or reply bytes since a WebSocket client last sent anything. */
  readonly undrainedBytes: number;
  /** Push bytes since then. */
  readonly unheardBytes: number;
  /** When the client had last sent `ping` before these, ms since the epoch; not there in what earlier releases have stored. */
  readonly seenPingMs?: number;
}

/** Of one connection. */
export class Flow {
  readonly #host: FlowHost;
  /** Null for a WebSocket client: it reports nothing. */
  readonly #bridge: BridgeFlow | null;
  /** Null behind the Worker's own bridge, whose word is enough. */
  readonly #socket: SocketFlow | null;

  /**
   * @param isBridge messages go through a bridge, which reports what its client has read
   * @param isTrusted that bridge is the Worker's own
   */
  constructor(isBridge: boolean, isTrusted: boolean, stored: StoredFlow, host: FlowHost) {
    const { undrainedBytes, unheardBytes, seenPingMs = 0 } = stored;
    this.#host = host;
    this.#bridge = isBridge ? new BridgeFlow(host.backlog, undrainedBytes) : null;
    this.#socket = isTrusted
      ? null
      : new SocketFlow(host.unread, host, {
          silentBytes: undrainedBytes,
          unheardBytes,
          seenPingMs,
        });
  }

  /** A message as the other end of the socket expects it: to a bridge it says how much of the requests is answered. */
  wrap(bytes: Uint8Array, consumedBytes = 0): Uint8Array {
    return this.#bridge === null ? bytes : bridgeMessage(consumedBytes, bytes);
  }

  /** @param messageBytes with what `wrap` has added: a gateway has to read that, too */
  sendReplies(bytes: number, messageBytes: number): void {
    this.#bridge?.send(bytes);
    this.#socket?.sendReplies(messageBytes);
  }

  /** Pushes were sent. They have no reply, so what counts is what the peer was sent since it last said anything. */
  sendPushes(bytes: number): void {
    this.#bridge?.send(bytes);
    // A ping from before them says nothing about them.
    if (this.#socket?.unheardBytes === 0) this.#hearPing();
    this.#socket?.sendPushes(bytes);
  }

  /** The peer has sent something. */
  hear(): void {
    this.#socket?.hear();
  }

  /**
   * The bridge reports how many bytes its client has read; null for a text that is not a report.
   *
   * @returns false when a gateway says what can't be true
   */
  drain(bytes: number | null): boolean {
    if (this.#socket !== null) {
      if (bytes === null || bytes > this.#bridge!.undrainedBytes) return false;
      this.#socket.hear();
    }
    this.#bridge!.drain(bytes ?? 0);
    return true;
  }

  /** Null while there is room for further replies, else a promise of it, rejected when the connection has closed. */
  room(): Promise<void> | null {
    const drained = this.#bridge?.room() ?? null;
    const paced = this.#socket?.room() ?? null;
    if (drained === null || paced === null) return drained ?? paced;
    // A gateway that reports as drained what it has not read must not get ahead of its pace with that.
    return Promise.all([drained, paced]).then(() => {});
  }

  /** Why the connection ends for the replies that its peer has left unread; null when it goes on. */
  refuseReplies(): Ending | null {
    const bytesMax = this.#socket?.exceededBytesMax() ?? null;
    return bytesMax === null || this.#hearPing() ? null : replyBytes(bytesMax);
  }

  /**
   * Why the connection ends instead of getting that many bytes of pushes; null when it may have them. A peer that has read
   * everything gets what comes next whatever its size.
   *
   * @param heldBytes of pushes that wait for it
   */
  refusePushes(bytes: number, heldBytes = 0): Ending | null {
    const { backlog, pushBytesMax } = this.#host;
    const bytesMax = this.#bridge !== null && backlog.isTight ? BRIDGE_WINDOW_BYTES : pushBytesMax;
    const unread = this.#bridge?.undrainedBytes ?? this.#socket!.unheardBytes;
    // A bridge does not report less than a portion, though its client has read it.
    const isRead = unread < (this.#bridge === null ? 1 : DRAINED_PORTION_BYTES);
    const hasRoom = heldBytes + unread + bytes <= bytesMax || (isRead && heldBytes === 0);
    return hasRoom || this.#hearPing() ? null : pushBytes(bytesMax);
  }

  /** Nothing that is sent reaches the peer any more: nothing waits for it. */
  loseReader(): void {
    this.#bridge?.goOn();
  }

  /** The socket is gone. */
  loseSocket(): void {
    this.#socket?.loseSocket();
  }

  /** The server closes the connection: what waits ends with an error. */
  close(): void {
    this.#bridge?.close();
    this.#socket?.close();
  }

  /**
   * For the attachment: a Hub that wakes must not forget what is unread, or each wake-up would allow as much again.
   */
  stored(): StoredFlow {
    return {
      undrainedBytes: this.#bridge?.undrainedBytes ?? this.#socket!.silentBytes,
      unheardBytes: this.#socket?.unheardBytes ?? 0,
      seenPingMs: this.#socket?.seenPingMs ?? 0,
    };
  }

  /** A gateway's pings come from the gateway, and say nothing about its client. */
  #hearPing(): boolean {
    return this.#bridge === null && this.#socket!.hearPing();
  }
}
