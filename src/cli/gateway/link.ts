/**
 * Link: one TCP connection of a client, and the WebSocket that carries it, in the protocol of `wire/bridge.ts`.
 *
 * It knows nothing of frames: the Hub says how many bytes it has answered, and ends the connection of a client that has
 * ended its half. What a client holds and has subscribed to belongs to its connection, so the two end together: a link
 * never opens a second WebSocket. Neither side is read while the other does not take what comes.
 */
import type { Socket } from "node:net";
import { WebSocket } from "ws";
import {
  BRIDGE_END,
  BRIDGE_HEADER_BYTES,
  bridgeWindow,
  DRAINED_PORTION_BYTES,
  drainedMessage,
  FRAME_BYTES_LIMIT,
  parseBridgeMessage,
} from "../../wire/bridge.ts";
import { detailOf } from "./error.ts";
import type { GatewayLog, LogFields } from "./log.ts";
import type { PortMetrics } from "./metrics.ts";
import type { GatewayLimits } from "./options.ts";
import type { TokenSource } from "./token.ts";
import { openUpstream, type OpenFailure } from "./upstream.ts";

/** Bytes of requests that the server may leave unanswered before the client waits. */
const WINDOW_BYTES = bridgeWindow(FRAME_BYTES_LIMIT);
/** Bytes that the WebSocket may have accepted and not sent: a server that is slow to read must not fill our memory. */
const UNSENT_BYTES_MAX = 256 << 10;
/** The runtime of the server answers this text by itself, also while the Hub hibernates: a ping wakes nothing. */
const PING = "ping";
/** Pings without an answer after which the server counts as lost. */
const MISSED_MAX = 3;
/** How long a client may go on sending after its connection has ended, before it is closed. */
const LINGER_MS = 1000;

/** The limits of the gateway, and where each link gets the token that it sends. */
export interface LinkSettings extends GatewayLimits {
  readonly token: TokenSource;
}

/** What a link needs of its gateway. */
export interface LinkHost {
  /** Address of the server's door. */
  readonly url: URL;
  readonly settings: LinkSettings;
  readonly log: GatewayLog;
  readonly metrics: PortMetrics;
}

/** Where a link is. */
type Phase = "connecting" | "open" | "ended";

export class Link {
  /**
   * The TCP side. Read with flow control: `pause` leaves bytes in the system's buffers, so TCP's
   * own window slows the client down.
   */
  readonly #client: Socket;
  /** What the gateway gives to all links of a port. */
  readonly #host: LinkHost;
  /** Called once, when neither side can bring an event any more. */
  readonly #onOver: () => void;
  /**
   * Only moves forward. Events of both sides arrive in any order, so each handler asks where the
   * link is.
   */
  #phase: Phase = "connecting";
  /** The side of the server; null while the token is read, and where it could not be read. */
  #upstream: WebSocket | null = null;
  /** Bytes sent to the server that it has not answered for good. */
  #unansweredBytes = 0;
  /** Bytes written to the client that the server was not told of. */
  #drainedBytes = 0;
  /** The client sends nothing more, or nothing more of it is read. */
  #isInputOver = false;
  /** The client's socket has closed. The link is over once both of these are true. */
  #isClientGone = false;
  #isUpstreamGone = false;
  /** Something has come from the server since the last ping. */
  #isHeard = true;
  /** Pings in a row without an answer; back to 0 with any message of the server. */
  #missedPings = 0;
  /** Sends a ping every `pingMs`. */
  #heartbeat: NodeJS.Timeout | undefined;
  /** Ends the wait for a client that goes on sending. */
  #linger: NodeJS.Timeout | undefined;

  /** @param onOver called once, when both sides have ended */
  constructor(client: Socket, host: LinkHost, onOver: () => void) {
    this.#client = client;
    this.#host = host;
    this.#onOver = onOver;
    // Replies of pipelined requests are small: with Nagle's algorithm they would wait for the
    // client's delayed ACK, 40 ms and more.
    client.setNoDelay(true);
    // A client whose machine has vanished sends no FIN: without probes its connection, and what it
    // holds, would stay.
    client.setKeepAlive(true, host.settings.pingMs);
    client.on("error", () => {
      // Its close event follows.
    });
    client.on("close", () => this.#onClientClose());
    client.on("drain", () => this.#onDrain());
    client.on("timeout", () => this.#onTimeout());
    void this.#open();
  }

  /** Reads nothing more of the client: what it sent is answered, then the link ends. */
  finish(): void {
    if (this.#phase === "ended" || this.#isInputOver) return;
    if (this.#phase === "connecting") {
      this.stop();
      return;
    }
    // Nothing more is read, and what the client sent so far is answered: then the Hub closes.
    this.#client.pause();
    this.#endInput();
  }

  /** Ends at once. */
  stop(): void {
    this.#client.destroy();
    this.#upstream?.terminate();
  }

  /**
   * Reads the token, and starts to open the WebSocket. Never rejects: the constructor does not wait
   * for it.
   */
  async #open(): Promise<void> {
    const { url, settings } = this.#host;
    let token: string | null;
    try {
      token = await settings.token();
    } catch (error) {
      this.#isUpstreamGone = true;
      this.#fail({ failure: "token_unreadable", detail: { detail: detailOf(error) } });
      this.#endClient();
      return;
    }
    // The client left while the token was read: no WebSocket is opened for it.
    if (this.#isClientGone) {
      this.#isUpstreamGone = true;
      this.#checkOver();
      return;
    }
    this.#upstream = openUpstream(url, token, settings.connectTimeoutMs, {
      onOpen: () => this.#onOpen(),
      onMessage: (message) => this.#onMessage(message),
      onPong: () => (this.#isHeard = true),
      onClose: (code, reason, failure) => this.#onUpstreamClose(code, reason, failure),
    });
  }

  /**
   * The server has accepted the WebSocket: starts to read the client, to ping, and to watch for
   * silence.
   */
  #onOpen(): void {
    this.#phase = "open";
    const { idleTimeoutMs, pingMs } = this.#host.settings;
    this.#client.setTimeout(idleTimeoutMs);
    // TCP keep-alive would end at the platform's edge; only a message through the WebSocket shows
    // that the server is there.
    this.#heartbeat = setInterval(() => this.#beat(), pingMs);
    // Nothing is read before: a client that comes while the server is asked waits in the system's buffers.
    this.#client.on("data", (chunk: Buffer) => this.#onData(chunk));
    this.#client.on("end", () => this.#endInput());
    // The client may have ended its half before; its event has passed then.
    if (this.#client.readableEnded) this.#endInput();
  }

  /** Client to server. A chunk is sent whole, so the window may be exceeded by one read, 64 KiB: the server has room for that. */
  #onData(chunk: Buffer): void {
    if (this.#upstream?.readyState !== WebSocket.OPEN) return;
    this.#host.metrics.receivedBytes += chunk.length;
    this.#unansweredBytes += chunk.length;
    this.#upstream.send(chunk, this.#readOn);
    if (!this.#hasRoom()) this.#client.pause();
  }

  /**
   * Whether more may be read of the client: the server's window and our own buffer both have room.
   */
  #hasRoom(): boolean {
    return (
      this.#unansweredBytes < WINDOW_BYTES && this.#upstream!.bufferedAmount <= UNSENT_BYTES_MAX
    );
  }

  /**
   * Reads the client again. Also called after each sent message, as `send` reports when its bytes
   * have left our buffer.
   */
  readonly #readOn = (): void => {
    const isWaiting = this.#phase === "open" && !this.#isInputOver && this.#client.isPaused();
    if (isWaiting && this.#hasRoom()) this.#client.resume();
  };

  /** Server to client. */
  #onMessage(message: Uint8Array): void {
    this.#isHeard = true;
    if (this.#phase === "ended") return;
    // Not this protocol: what follows can't be trusted to be replies of the client's requests.
    if (message.length < BRIDGE_HEADER_BYTES) {
      this.#lose("a message shorter than its header");
      return;
    }
    const { consumedBytes, replies } = parseBridgeMessage(message);
    this.#unansweredBytes -= consumedBytes;
    this.#readOn();
    if (replies.length === 0) return;
    this.#host.metrics.sentBytes += replies.length;
    const isTaken = this.#client.write(replies, (error) => {
      if (!error) this.#onWritten(replies.length);
    });
    if (isTaken) return;
    // The Hub stops at the end of its window by itself. Pushes go on until they are too many for it: the system's
    // sockets hold them, not we.
    this.#upstream!.pause();
    this.#client.setTimeout(this.#host.settings.stallTimeoutMs);
  }

  /**
   * Tells the Hub how much the client has taken, in portions: a message for each reply would double
   * the messages.
   */
  #onWritten(bytes: number): void {
    this.#drainedBytes += bytes;
    if (this.#drainedBytes < DRAINED_PORTION_BYTES) return;
    if (this.#upstream!.readyState === WebSocket.OPEN) {
      this.#upstream!.send(drainedMessage(this.#drainedBytes));
    }
    this.#drainedBytes = 0;
  }

  /** The client has taken all that was written to it. */
  #onDrain(): void {
    if (this.#phase !== "open") return;
    this.#client.setTimeout(this.#host.settings.idleTimeoutMs);
    this.#missedPings = 0;
    this.#isHeard = true;
    this.#upstream!.resume();
  }

  /** Sees that the server is there. Of one that is not read, as the client does not read, that can't be seen. */
  #beat(): void {
    const upstream = this.#upstream!;
    if (this.#phase !== "open" || upstream.isPaused) return;
    this.#missedPings = this.#isHeard ? 0 : this.#missedPings + 1;
    if (this.#missedPings < MISSED_MAX) {
      this.#isHeard = false;
      upstream.send(PING);
      return;
    }
    this.#lose(`${MISSED_MAX} pings without an answer`);
  }

  /** Ends the connection to a server that is not there, or sends what is not in the protocol. */
  #lose(detail: string): void {
    this.#fail({ failure: "lost", detail: { detail } });
    this.#end();
    this.#upstream!.terminate();
  }

  /** The client has ended its half, or nothing more of it is read: the Hub answers what it has, and closes. */
  #endInput(): void {
    if (this.#isInputOver) return;
    this.#isInputOver = true;
    if (this.#upstream!.readyState === WebSocket.OPEN) this.#upstream!.send(BRIDGE_END);
  }

  #onUpstreamClose(code: number, reason: string, failure: OpenFailure | null): void {
    this.#isUpstreamGone = true;
    // An end that the client, or the gateway itself, has caused is no news.
    if (!this.#client.destroyed) {
      if (failure !== null) this.#fail(failure);
      else if (this.#phase === "open") this.#reportClose(code, reason);
    }
    this.#endClient();
  }

  /** Counts and logs a close by the server that no side of the gateway asked for. */
  #reportClose(code: number, reason: string): void {
    // That is how the Hub ends the connection of a client that has ended its half.
    if (this.#isInputOver && code === 1000) return;
    this.#host.metrics.countClose(code);
    if (code === 1000) return;
    this.#host.log.repeated("upstream_closed", String(code), this.#fields({ code, reason }));
  }

  /** The server has ended the connection: what it sent is written, then the client is closed. */
  #endClient(): void {
    this.#end();
    const client = this.#client;
    if (client.destroyed) {
      this.#checkOver();
      return;
    }
    client.setTimeout(this.#host.settings.stallTimeoutMs);
    client.end(() => {
      // Closing over unread bytes would reset the connection, and the client lose its last replies.
      if (client.readableEnded || client.destroyed) client.destroy();
      else this.#linger = setTimeout(() => client.destroy(), LINGER_MS);
    });
    client.once("end", () => {
      if (client.writableFinished) client.destroy();
    });
    client.resume();
  }

  #onClientClose(): void {
    this.#isClientGone = true;
    const wasOpen = this.#phase === "open";
    this.#end();
    const upstream = this.#upstream;
    if (upstream !== null && !this.#isUpstreamGone) {
      // One that is paused would not see the server close.
      if (wasOpen && !upstream.isPaused) upstream.close(1000);
      else upstream.terminate();
    }
    this.#checkOver();
  }

  /** Nothing was written or read for too long. */
  #onTimeout(): void {
    const { log, metrics } = this.#host;
    const { writableLength } = this.#client;
    if (writableLength > 0) {
      metrics.stalledTotal++;
      log.repeated("client_stalled", "", this.#fields({ unwrittenBytes: writableLength }));
      this.#client.destroy();
    } else if (this.#phase === "open") {
      // No side said anything for long: what was sent is answered, then the connection ends.
      log.repeated("client_idle", "", this.#fields({}));
      this.finish();
    }
  }

  #fail({ failure, detail }: OpenFailure): void {
    this.#host.metrics.failures[failure]++;
    const kind = `${failure} ${detail.status ?? ""}`;
    const fields = this.#fields({ reason: failure, ...detail });
    this.#host.log.repeated("upstream_failed", kind, fields);
  }

  /**
   * Fields of a log line, with the port that the client came to. Addresses of clients are not
   * logged: they are personal data.
   */
  #fields(fields: LogFields): LogFields {
    return { port: this.#host.metrics.port, ...fields };
  }

  #end(): void {
    this.#phase = "ended";
    clearInterval(this.#heartbeat);
    clearTimeout(this.#linger);
  }

  /**
   * Reports the end once both sides are gone. Each side's close comes once, so this does not report
   * it twice.
   */
  #checkOver(): void {
    if (!this.#isClientGone || !this.#isUpstreamGone) return;
    this.#end();
    this.#onOver();
  }
}
