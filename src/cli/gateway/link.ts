/**
 * Link: one TCP connection of a client, and the WebSocket that carries it.
 *
 * What a client holds and has subscribed to belongs to its connection, so the two end together: a link
 * never opens a second WebSocket. Neither side is read while the other does not take what comes: a link
 * keeps one read of the client, and beside what the system's sockets hold, one message of the server.
 */
import type { Socket } from "node:net";
import { WebSocket } from "ws";
import { detailOf } from "./error.ts";
import type { GatewayLog, LogFields } from "./log.ts";
import type { PortMetrics } from "./metrics.ts";
import type { Spoken } from "./spoken.ts";
import type { TokenSource } from "./token.ts";
import { Unanswered } from "./unanswered.ts";
import { openUpstream, type OpenFailure } from "./upstream.ts";

/** Bytes that the WebSocket may have taken and not sent. */
const UNSENT_BYTES_MAX = 256 << 10;
/**
 * The server takes a peer that is silent for one that does not read. It is told after so many bytes that
 * the client has taken; no limit of the server's is below 256 KiB.
 */
const PING_BYTES = 64 << 10;
const PING = "ping";
/** Pings without an answer after which the server is given up. */
const MISSED_MAX = 3;
/** How long a client that goes on sending is listened to after its connection has ended. */
const LINGER_MS = 1000;
/** How long a client that has ended its half waits for replies while none come. */
const ANSWER_TIMEOUT_MS = 30_000;
/** The same where replies can't be followed: those that come later are lost. */
const QUIET_MS = 1000;
/** Pushes don't hold such a connection longer. */
const QUIET_MAX_MS = 10_000;

export interface LinkSettings {
  readonly token: TokenSource;
  readonly connectTimeoutMs: number;
  /** 0 for never. */
  readonly idleTimeoutMs: number;
  readonly stallTimeoutMs: number;
  readonly pingMs: number;
}

/** Where a link is. */
type Phase = "connecting" | "open" | "ended";

export class Link {
  readonly #client: Socket;
  readonly #url: URL;
  readonly #settings: LinkSettings;
  readonly #log: GatewayLog;
  readonly #metrics: PortMetrics;
  readonly #onOver: () => void;
  readonly #unanswered: Unanswered;
  #phase: Phase = "connecting";
  #upstream: WebSocket | null = null;
  /** Read from the client, and not sent to the server yet. */
  #held: Buffer | null = null;
  /** The client sends no more, or nothing more of it is taken. */
  #isInputOver = false;
  #isClientGone = false;
  #isUpstreamGone = false;
  /** The server does not answer any more. */
  #isLost = false;
  /** Bytes that the client was written since the server was told. */
  #untoldBytes = 0;
  #isHeard = true;
  #missedPings = 0;
  #heartbeat: ReturnType<typeof setInterval> | null = null;
  /** Ends the wait for replies, or for a client that goes on sending. */
  #patience: ReturnType<typeof setTimeout> | null = null;
  #quietEndMs = 0;

  /** @param onOver is called once, when nothing of it is left */
  constructor(
    client: Socket,
    url: URL,
    spoken: Spoken,
    settings: LinkSettings,
    log: GatewayLog,
    metrics: PortMetrics,
    onOver: () => void,
  ) {
    this.#client = client;
    this.#url = url;
    this.#settings = settings;
    this.#log = log;
    this.#metrics = metrics;
    this.#onOver = onOver;
    this.#unanswered = new Unanswered(spoken.protocol);
    client.setNoDelay(true);
    client.setKeepAlive(true, settings.pingMs);
    client.on("error", () => {
      // Its close event follows.
    });
    client.on("close", () => this.#clientGone());
    client.on("drain", () => this.#drained());
    client.on("timeout", () => this.#timedOut());
    void this.#open();
  }

  /** Takes nothing more of the client: what was sent is answered, then the link ends. */
  finish(): void {
    if (this.#phase === "ended" || this.#isInputOver) return;
    if (this.#phase === "connecting") {
      this.stop();
      return;
    }
    this.#client.pause();
    this.#inputOver();
  }

  /** Ends at once. */
  stop(): void {
    this.#client.destroy();
    this.#upstream?.terminate();
  }

  async #open(): Promise<void> {
    let token: string | null;
    try {
      token = await this.#settings.token();
    } catch (error) {
      this.#isUpstreamGone = true;
      this.#failed({ failure: "token_unreadable", detail: { detail: detailOf(error) } });
      this.#endClient();
      return;
    }
    if (this.#isClientGone) {
      this.#isUpstreamGone = true;
      this.#checkOver();
      return;
    }
    this.#upstream = openUpstream(this.#url, token, this.#settings.connectTimeoutMs, {
      opened: () => this.#opened(),
      received: (bytes) => this.#received(bytes),
      closed: (code, reason, failure) => this.#upstreamClosed(code, reason, failure),
    });
  }

  #opened(): void {
    this.#phase = "open";
    this.#client.setTimeout(this.#settings.idleTimeoutMs);
    this.#heartbeat = setInterval(() => this.#beat(), this.#settings.pingMs);
    // Only now is anything read: a client that comes while the server is asked waits.
    this.#client.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#client.on("end", () => this.#inputOver());
    if (this.#client.readableEnded) this.#inputOver();
  }

  #read(chunk: Buffer): void {
    if (this.#phase === "ended") return;
    this.#metrics.receivedBytes += chunk.length;
    this.#held = this.#held === null ? chunk : Buffer.concat([this.#held, chunk]);
    this.#send();
  }

  /** Sends of what was read as much as the server may have now, and reads on when all of it is sent. */
  #send(): void {
    const upstream = this.#upstream;
    if (this.#phase !== "open" || upstream?.readyState !== WebSocket.OPEN) return;
    while (this.#held !== null && upstream.bufferedAmount <= UNSENT_BYTES_MAX) {
      const held: Buffer = this.#held;
      const bytes = this.#unanswered.admit(held);
      if (bytes === 0) break;
      const part = bytes === held.length ? held : held.subarray(0, bytes);
      this.#held = bytes === held.length ? null : held.subarray(bytes);
      upstream.send(part, this.#afterSend);
    }
    if (this.#held !== null) this.#client.pause();
    else if (this.#isInputOver) this.#endWhenAnswered();
    else this.#client.resume();
  }

  readonly #afterSend = (): void => {
    if (this.#held !== null) this.#send();
  };

  #received(bytes: Buffer | null): void {
    this.#isHeard = true;
    if (bytes === null || this.#phase === "ended") return;
    this.#metrics.sentBytes += bytes.length;
    this.#untoldBytes += bytes.length;
    this.#follow(bytes);
    if (this.#client.write(bytes)) {
      this.#tell();
    } else {
      this.#upstream!.pause();
      this.#client.setTimeout(this.#settings.stallTimeoutMs);
    }
    if (this.#held !== null) this.#send();
    else if (this.#isInputOver) this.#endWhenAnswered();
  }

  #follow(bytes: Buffer): void {
    try {
      this.#unanswered.received(bytes);
    } catch (error) {
      this.#log.repeated("replies_unfollowed", "", this.#fields({ detail: detailOf(error) }));
    }
  }

  /** The client has taken all that it was written. */
  #drained(): void {
    if (this.#phase !== "open") return;
    this.#client.setTimeout(this.#settings.idleTimeoutMs);
    this.#missedPings = 0;
    this.#isHeard = true;
    this.#tell();
    this.#upstream!.resume();
  }

  /** Says that it reads. The runtime answers, and wakes nobody for it. */
  #tell(): void {
    if (this.#untoldBytes < PING_BYTES) return;
    this.#untoldBytes = 0;
    this.#upstream!.send(PING);
  }

  /**
   * Shows the server that the client reads, and sees that the server is there. While the client does not
   * read neither is true: the server may drop it then, as it drops all who don't.
   */
  #beat(): void {
    const upstream = this.#upstream!;
    if (this.#phase !== "open" || upstream.isPaused) return;
    this.#missedPings = this.#isHeard ? 0 : this.#missedPings + 1;
    if (this.#missedPings >= MISSED_MAX) {
      this.#isLost = true;
      this.#failed({
        failure: "lost",
        detail: { detail: `${MISSED_MAX} pings without an answer` },
      });
      upstream.terminate();
      return;
    }
    this.#isHeard = false;
    this.#untoldBytes = 0;
    upstream.send(PING);
  }

  /** The client has ended its half, or nothing more of it is taken. */
  #inputOver(): void {
    if (this.#isInputOver) return;
    this.#isInputOver = true;
    this.#quietEndMs = performance.now() + QUIET_MAX_MS;
    this.#send();
  }

  /** Everything is sent: ends the connection once it is answered, or as far as that can be known. */
  #endWhenAnswered(): void {
    const { isFollowed, requests } = this.#unanswered;
    if (isFollowed && requests === 0) {
      this.#upstream!.close(1000);
      return;
    }
    const waitMs = isFollowed
      ? ANSWER_TIMEOUT_MS
      : Math.max(0, Math.min(QUIET_MS, this.#quietEndMs - performance.now()));
    this.#wait(waitMs, () => {
      // A client that is slow to read is not done.
      if (this.#upstream!.isPaused) this.#endWhenAnswered();
      else this.#upstream!.close(1000);
    });
  }

  #upstreamClosed(code: number, reason: string, failure: OpenFailure | null): void {
    this.#isUpstreamGone = true;
    if (!this.#client.destroyed) {
      if (failure !== null) this.#failed(failure);
      else if (!this.#isInputOver && !this.#isLost) this.#closedByServer(code, reason);
    }
    this.#endClient();
  }

  #closedByServer(code: number, reason: string): void {
    this.#metrics.closed(code);
    if (code === 1000) return;
    this.#log.repeated("upstream_closed", String(code), this.#fields({ code, reason }));
  }

  /** The server has ended the connection: what it sent is written, then the client is closed. */
  #endClient(): void {
    this.#end();
    const client = this.#client;
    if (client.destroyed) {
      this.#checkOver();
      return;
    }
    client.setTimeout(this.#settings.stallTimeoutMs);
    client.end(() => {
      // Closing over unread bytes would reset the connection, and the client lose its last replies.
      if (client.readableEnded || client.destroyed) client.destroy();
      else this.#wait(LINGER_MS, () => client.destroy());
    });
    client.once("end", () => {
      if (client.writableFinished) client.destroy();
    });
    client.resume();
  }

  #clientGone(): void {
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
  #timedOut(): void {
    const isStalled = this.#client.writableLength > 0;
    if (isStalled) {
      this.#metrics.stalledTotal++;
      const { writableLength } = this.#client;
      this.#log.repeated("client_stalled", "", this.#fields({ unwrittenBytes: writableLength }));
      this.#client.destroy();
    } else if (this.#phase === "open") {
      this.#log.repeated("client_idle", "", this.#fields({}));
      this.finish();
    }
  }

  #failed({ failure, detail }: OpenFailure): void {
    this.#metrics.failures[failure]++;
    const kind = `${failure} ${detail.status ?? ""}`;
    this.#log.repeated("upstream_failed", kind, this.#fields({ reason: failure, ...detail }));
  }

  #fields(fields: LogFields): LogFields {
    return { port: this.#metrics.port, ...fields };
  }

  #wait(ms: number, over: () => void): void {
    if (this.#patience !== null) clearTimeout(this.#patience);
    this.#patience = setTimeout(over, ms);
  }

  #end(): void {
    this.#phase = "ended";
    this.#held = null;
    if (this.#heartbeat !== null) clearInterval(this.#heartbeat);
    this.#heartbeat = null;
    if (this.#patience !== null) clearTimeout(this.#patience);
    this.#patience = null;
  }

  #checkOver(): void {
    if (!this.#isClientGone || !this.#isUpstreamGone) return;
    this.#end();
    this.#onOver();
  }
}
