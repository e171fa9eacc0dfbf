/**
 * What a peer that is known from itself alone may have left unread: a WebSocket client, or a gateway.
 *
 * The runtime does not say how much of a WebSocket's messages it has sent (there is no `bufferedAmount`). So limits on
 * what a silent peer is sent stand in for that, and a pace for one that goes on asking: see `unread.ts`.
 */
import type { Timers } from "../../base/timers.ts";
import { Unread, type HubUnread } from "./unread.ts";

export interface SocketFlowHost extends Pick<Timers, "nowMs" | "wait"> {
  /** When the runtime last answered the text `ping` of the client, in ms since the epoch; 0 for never. */
  lastPingMs(): number;
}

export class SocketFlow {
  readonly #hub: HubUnread;
  readonly #host: SocketFlowHost;
  readonly #unread: Unread;
  /** Push bytes that the peer was sent since it last sent anything. */
  #unheardBytes: number;
  #seenPingMs = 0;
  #isClosed = false;

  /** @param stored what an earlier object has counted of this connection */
  constructor(
    hub: HubUnread,
    host: SocketFlowHost,
    stored: { readonly silentBytes: number; readonly unheardBytes: number },
  ) {
    this.#hub = hub;
    this.#host = host;
    this.#unread = new Unread(hub);
    this.#unread.send(stored.silentBytes, host.nowMs());
    this.#unheardBytes = stored.unheardBytes;
  }

  /** Reply bytes that the peer was sent since it last sent anything. */
  get silentBytes(): number {
    return this.#unread.silentBytes;
  }

  get unheardBytes(): number {
    return this.#unheardBytes;
  }

  sendReplies(bytes: number): void {
    this.#unread.send(bytes, this.#host.nowMs());
  }

  sendPushes(bytes: number): void {
    this.#unheardBytes += bytes;
  }

  /** The peer has sent something, so it is there, and has read what it waited for. */
  hear(): void {
    this.#unread.hear();
    this.#unheardBytes = 0;
  }

  /**
   * True when the client has sent `ping` since this was asked last. The runtime answers pings without waking the Hub,
   * and only keeps the time of the last one.
   */
  hearPing(): boolean {
    const pingMs = this.#host.lastPingMs();
    if (pingMs <= this.#seenPingMs) return false;
    this.#seenPingMs = pingMs;
    this.hear();
    return true;
  }

  /** The most reply bytes that a silent peer may be sent, where this one was sent more; else null. */
  exceededBytesMax(): number | null {
    const bytesMax = this.#hub.silentBytesMax;
    return this.#unread.silentBytes > bytesMax ? bytesMax : null;
  }

  /** Null while there is room for further replies, else a promise of it, rejected when the connection has closed. */
  room(): Promise<void> | null {
    const waitMs = this.#unread.waitMs(this.#host.nowMs());
    return waitMs === 0 ? null : this.#pause(waitMs);
  }

  /** The server has closed the connection: what was sent counts until the peer has closed it, too. */
  close(): void {
    this.#isClosed = true;
    this.#unread.close(this.#unheardBytes);
  }

  /** The socket is gone, with all that the runtime kept for it. */
  loseSocket(): void {
    this.#unread.release();
  }

  async #pause(ms: number): Promise<void> {
    await this.#host.wait(ms);
    if (this.#isClosed) throw new Error("closed");
  }
}
