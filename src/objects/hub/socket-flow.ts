/**
 * What a peer that is known from itself alone may have left unread: a WebSocket client, or a gateway.
 *
 * workerd has no `bufferedAmount`: the server can't see how much of a socket's messages has left. Unsent ones stay in
 * the memory of the isolate, which has 128 MB. So a peer that sends nothing more, not even `ping`, may have read nothing.
 * Each is sent up to a limit, which is lower once all of a Hub together were sent much. A peer that goes on asking is
 * believed to read at a fixed pace. What was sent to a connection that the server has closed counts until its peer has
 * closed it, too, since the runtime keeps it until then.
 */
import type { Timers } from "../../base/timers.ts";
import {
  AHEAD_BYTES_MAX,
  HUB_SILENT_BYTES_MAX,
  READ_BYTES_PER_MS,
  SILENT_BYTES_LITTLE,
  SILENT_BYTES_MAX,
} from "../../engine/sizes.ts";

/** What all peers of a Hub may have left unread. */
export class HubUnread {
  /** What silent peers were sent, of each what is more than a little. */
  bytes = 0;

  /** Replies that each peer may be sent without saying anything more. */
  get silentBytesMax(): number {
    return this.bytes > HUB_SILENT_BYTES_MAX ? SILENT_BYTES_LITTLE : SILENT_BYTES_MAX;
  }
}

/** The Hub's part: its clock, and what the runtime knows of the socket. */
export interface SocketFlowHost extends Pick<Timers, "nowMs" | "wait"> {
  /** When the runtime last answered the text `ping` of the client, in ms since the epoch; 0 for never. */
  lastPingMs(): number;
}

/** What one such peer has not read, as far as that can be told. */
export class SocketFlow {
  readonly #hub: HubUnread;
  readonly #host: SocketFlowHost;
  /** Reply bytes that the peer was sent since it last sent anything. */
  silentBytes = 0;
  /** Push bytes that the peer was sent since it last sent anything. */
  unheardBytes: number;
  /** Reply bytes sent beyond what the peer is believed to have read by `#atMs`. */
  #aheadBytes = 0;
  #atMs = 0;
  /** When the last known ping arrived, ms since the epoch: it says nothing about what was sent afterwards. */
  seenPingMs: number;
  #isClosed = false;
  #hasSocket = true;

  /** @param stored what an earlier object has counted of this connection */
  constructor(
    hub: HubUnread,
    host: SocketFlowHost,
    stored: {
      readonly silentBytes: number;
      readonly unheardBytes: number;
      readonly seenPingMs: number;
    },
  ) {
    this.#hub = hub;
    this.#host = host;
    this.unheardBytes = stored.unheardBytes;
    this.seenPingMs = stored.seenPingMs;
    this.sendReplies(stored.silentBytes);
  }

  /**
   * Replies were sent: they count as silent until the peer says anything, and as ahead until it can have read them.
   */
  sendReplies(bytes: number): void {
    this.#setSilent(this.silentBytes + bytes);
    this.#read();
    this.#aheadBytes += bytes;
  }

  /** Pushes were sent. They set no pace: the publisher does not wait for subscribers. */
  sendPushes(bytes: number): void {
    this.unheardBytes += bytes;
  }

  /** The peer has sent something, so it is there, and has read what it waited for. */
  hear(): void {
    // What a peer says on a connection that the server has closed does not show that it reads.
    if (!this.#isClosed) this.#setSilent(0);
    this.unheardBytes = 0;
  }

  /**
   * True when the client has sent `ping` since this was asked last. The runtime answers pings without waking the Hub,
   * and only keeps the time of the last one.
   */
  hearPing(): boolean {
    const pingMs = this.#host.lastPingMs();
    // Any other time is a later one, also where the clock has gone back.
    if (pingMs === 0 || pingMs === this.seenPingMs) return false;
    this.seenPingMs = pingMs;
    this.hear();
    return true;
  }

  /** The most reply bytes that a silent peer may be sent, where this one was sent more; else null. */
  exceededBytesMax(): number | null {
    const bytesMax = this.#hub.silentBytesMax;
    return this.silentBytes > bytesMax ? bytesMax : null;
  }

  /** Null while there is room for further replies, else a promise of it, rejected when the connection has closed. */
  room(): Promise<void> | null {
    this.#read();
    const waitMs = Math.ceil((this.#aheadBytes - AHEAD_BYTES_MAX) / READ_BYTES_PER_MS);
    return waitMs > 0 ? this.#pause(waitMs) : null;
  }

  /** The server has closed the connection: what was sent, pushes too, counts until the peer has closed it as well. */
  close(): void {
    this.#isClosed = true;
    if (this.#hasSocket) this.#setSilent(this.silentBytes + this.unheardBytes);
  }

  /** The socket is gone, with all that the runtime kept for it. */
  loseSocket(): void {
    this.#hasSocket = false;
    this.#setSilent(0);
  }

  /** Rejected where the connection has closed meanwhile: what waits for room must not go on behind its end. */
  async #pause(ms: number): Promise<void> {
    await this.#host.wait(ms);
    if (this.#isClosed) throw new Error("closed");
  }

  /** Keeps the sum of the Hub in step. */
  #setSilent(bytes: number): void {
    this.#hub.bytes += muchOf(bytes) - muchOf(this.silentBytes);
    this.silentBytes = bytes;
  }

  /** Takes what the peer is believed to have read since the last time off what is ahead. */
  #read(): void {
    const nowMs = this.#host.nowMs();
    const bytes = Math.max(0, nowMs - this.#atMs) * READ_BYTES_PER_MS;
    this.#aheadBytes = Math.max(0, this.#aheadBytes - bytes);
    this.#atMs = nowMs;
  }
}

/** What a silent peer counts in its Hub: peers that were sent a little are the rule, and no danger. */
function muchOf(bytes: number): number {
  return Math.max(0, bytes - SILENT_BYTES_LITTLE);
}
