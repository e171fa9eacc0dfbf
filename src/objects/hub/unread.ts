/**
 * What WebSocket peers of a Hub may have left unread of their replies.
 *
 * workerd has no `bufferedAmount`: the server can't see how much of a socket's messages has left. Unsent ones stay in
 * the memory of the isolate, which has 128 MB. So a peer that sends nothing more, not even `ping`, may have read nothing.
 * Each is sent up to a limit, which is lower once all of a Hub together were sent much. A peer that goes on asking is
 * believed to read at a fixed pace. What was sent to a connection that the server has closed counts until its peer has
 * closed it, too, since the runtime keeps it until then.
 */

/** Replies that a peer may be sent without saying anything more, and where the Hub's peers have too much already. */
const SILENT_BYTES_MAX = 32 << 20;
const SILENT_BYTES_LITTLE = 1 << 20;
/** What the silent peers of a Hub may be sent together, beyond that little for each. */
const HUB_BYTES_MAX = 64 << 20;
/** What a peer is believed to read, and replies that it is sent ahead of that. */
const READ_BYTES_PER_MS = 16 << 10;
const AHEAD_BYTES_MAX = 32 << 20;

/** What all peers of a Hub may have left unread. */
export class HubUnread {
  /** What silent peers were sent, of each what is more than a little. */
  bytes = 0;

  /** Replies that each peer may be sent without saying anything more. */
  get silentBytesMax(): number {
    return this.bytes > HUB_BYTES_MAX ? SILENT_BYTES_LITTLE : SILENT_BYTES_MAX;
  }
}

/** What one peer may have left unread. */
export class Unread {
  readonly #hub: HubUnread;
  /** Bytes sent since the peer was last heard of. */
  silentBytes = 0;
  #isClosed = false;
  /** Bytes sent beyond what it is believed to have read by then. */
  #aheadBytes = 0;
  #atMs = 0;

  constructor(hub: HubUnread) {
    this.#hub = hub;
  }

  send(bytes: number, nowMs: number): void {
    this.#setSilent(this.silentBytes + bytes);
    this.#read(nowMs);
    this.#aheadBytes += bytes;
  }

  hear(): void {
    if (!this.#isClosed) this.#setSilent(0);
  }

  /** How long the next replies have to wait, in ms, for the peer to have read what is ahead of its pace. */
  waitMs(nowMs: number): number {
    this.#read(nowMs);
    return Math.max(0, Math.ceil((this.#aheadBytes - AHEAD_BYTES_MAX) / READ_BYTES_PER_MS));
  }

  /** The server has closed the connection: `bytes` of pushes are unread, too. */
  close(bytes: number): void {
    this.#setSilent(this.silentBytes + bytes);
    this.#isClosed = true;
  }

  /** The socket is gone, and with it all that the runtime kept. */
  release(): void {
    this.#setSilent(0);
  }

  #setSilent(bytes: number): void {
    this.#hub.bytes += muchOf(bytes) - muchOf(this.silentBytes);
    this.silentBytes = bytes;
  }

  #read(nowMs: number): void {
    const bytes = Math.max(0, nowMs - this.#atMs) * READ_BYTES_PER_MS;
    this.#aheadBytes = Math.max(0, this.#aheadBytes - bytes);
    this.#atMs = nowMs;
  }
}

function muchOf(bytes: number): number {
  return Math.max(0, bytes - SILENT_BYTES_LITTLE);
}
