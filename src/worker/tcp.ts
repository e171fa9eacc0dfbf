/**
 * The TCP door: carries a TCP connection over an internal WebSocket to the Hub.
 *
 * It knows nothing of frames. It reads from the client while the Hub keeps up, writes the Hub's replies, and closes a
 * client that does not read. `wire/bridge.ts` has the messages between the two.
 *
 * The detour exists because a TCP socket belongs to the Worker's request, while all connections of a place share the
 * object that has their subscriptions; and only a WebSocket can stay open there while the object hibernates.
 */
import type { Environment } from "../base/environment.ts";
import { logWarning } from "../base/log.ts";
import { readSettings, type Settings } from "../base/settings.ts";
import {
  BRIDGE_END,
  BRIDGE_GONE,
  bridgeWindow,
  DRAINED_PORTION_BYTES,
  drainedMessage,
  parseBridgeMessage,
} from "../wire/bridge.ts";
import { NOWHERE, openConnection } from "./hubs.ts";
import { firstBuffer, nextBuffer } from "./read-buffer.ts";
import { accessOfPort, refusalOfPort, tcpPort } from "./ports.ts";

/** How long to read from a client that still sends after its connection was closed. */
const LINGER_MS = 1000;

/** Serves one TCP connection until it closes. A port that is not served closes at once, before its first byte. */
export async function serveTcp(socket: Socket, env: Environment): Promise<void> {
  const { localAddress, remoteAddress } = await socket.opened;
  const port = Number(/\d+$/.exec(localAddress ?? "")?.[0]);
  const settings = readSettings(env);
  const served = tcpPort(port, settings);
  const code = refusalOfPort(served, settings);
  if (served === undefined || code !== null) {
    if (code !== "port_unknown" || isNewPort(port)) logWarning("tcp_refused", { code, port });
    await socket.close();
    return;
  }
  const entrance = { env, settings, location: NOWHERE, ctx: null };
  const response = await openConnection(entrance, {
    protocolCode: served.protocol.code,
    transport: "tcp",
    access: accessOfPort(served, settings)!,
    subprotocol: null,
    ...addressOf(remoteAddress ?? ""),
    channel: null,
    after: null,
  });
  if (response.webSocket === null) {
    logWarning("tcp_refused", { code: "connections_max", port });
    await socket.close();
    return;
  }
  await new Bridge(socket, response.webSocket, settings).run();
}

/** Unknown ports that were logged. A peer that resets at once leaves no local address, and then the port reads as 80. */
const unknownPorts = new Set<number>();
/** A Worker that passes connections on may name any port, so the set is bounded. */
const UNKNOWN_PORTS_MAX = 100;

/** Whether a port is to be logged: once in each isolate. */
function isNewPort(port: number): boolean {
  if (unknownPorts.has(port) || unknownPorts.size >= UNKNOWN_PORTS_MAX) return false;
  unknownPorts.add(port);
  return true;
}

/** Splits an address such as `127.0.0.1:4242` or `[::1]:4242`. */
function addressOf(text: string): { ip: string; port: number } {
  const parts = /^\[?(.*?)\]?:(\d+)$/.exec(text);
  return { ip: parts?.[1] ?? "", port: Number(parts?.[2] ?? 0) };
}

/** One TCP connection and its WebSocket to the Hub. Both directions run on their own, each at the pace of its reader. */
class Bridge {
  readonly #hub: WebSocket;
  readonly #reader: ReadableStreamBYOBReader;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #windowBytes: number;
  readonly #stallTimeoutMs: number;
  /** Resolves at the end. The handler must not return before: its sockets belong to its request. */
  readonly #ended = Promise.withResolvers<void>();
  /** Bytes sent to the Hub that it has not answered for good. Above the window, nothing more is read from the client. */
  #sentBytes = 0;
  /** Ends the reader's wait for the Hub; null while it does not wait. */
  #credit: (() => void) | null = null;
  /** Bytes given to the writer that the client has not taken. */
  #unwrittenBytes = 0;
  /** Bytes written and not yet reported: reports go in portions, as each is a message that wakes the Hub. */
  #drainedBytes = 0;
  /** Goes up with every write, so that a timer can see that nothing was written since it started. */
  #writes = 0;
  /** Runs while much is unwritten: one timer for a connection, not for each write. */
  #stallTimer: ReturnType<typeof setTimeout> | null = null;
  /** The Hub has closed the connection; its last replies are still being written. */
  #isFinishing = false;
  /** A write to the client has failed. */
  #isGone = false;
  /** Resolves when the client has sent its last byte. */
  readonly #drainedInput = Promise.withResolvers<void>();
  /** Everything is closed. Events that come later change nothing. */
  #isOver = false;

  constructor(socket: Socket, hub: WebSocket, settings: Settings) {
    this.#hub = hub;
    this.#reader = (socket.readable as ReadableStream<Uint8Array>).getReader({ mode: "byob" });
    this.#writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
    this.#windowBytes = bridgeWindow(settings.FRAME_BYTES_MAX);
    this.#stallTimeoutMs = settings.STALL_TIMEOUT_MS;
  }

  /** Carries both directions until the connection is over. */
  async run(): Promise<void> {
    const hub = this.#hub;
    hub.binaryType = "arraybuffer";
    hub.addEventListener("message", (event) => this.#fromHub(event.data as ArrayBuffer));
    hub.addEventListener("close", () => void this.#finish());
    hub.addEventListener("error", () => void this.#finish());
    hub.accept();
    void this.#pump();
    await this.#ended.promise;
  }

  /**
   * Carries bytes from the client to the Hub. It goes on when the client no longer reads, because the Hub must still
   * execute what the client has sent. After the Hub has closed the connection it only reads, and drops the bytes:
   * closing a socket with unread bytes sends a reset, and the client would lose its last replies.
   */
  async #pump(): Promise<void> {
    // By default the runtime reads 4 KiB at a time, and each read would be a message to the Hub.
    let buffer = firstBuffer();
    try {
      for (;;) {
        if (this.#sentBytes >= this.#windowBytes && !this.#isFinishing) {
          await new Promise<void>((resolve) => (this.#credit = resolve));
        }
        const { value, done } = await this.#reader.read(new Uint8Array(buffer));
        if (done) break;
        if (!this.#isFinishing) {
          this.#sentBytes += value.length;
          this.#tell(value);
        }
        buffer = nextBuffer(value);
      }
      if (this.#isGone) this.#abort();
      else this.#tell(BRIDGE_END);
    } catch {
      // The client has reset the connection.
      this.#abort();
    }
    this.#drainedInput.resolve();
  }

  /** Sends to the Hub, unless the Hub has closed the WebSocket already. */
  #tell(message: Uint8Array | string): void {
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.send(message);
  }

  /** Carries replies from the Hub to the client, and gives the client's reader credit for consumed bytes. */
  #fromHub(message: ArrayBuffer): void {
    const { consumedBytes, replies } = parseBridgeMessage(new Uint8Array(message));
    this.#sentBytes -= consumedBytes;
    if (this.#credit !== null && this.#sentBytes < this.#windowBytes) {
      this.#credit();
      this.#credit = null;
    }
    if (replies.length === 0) return;
    if (this.#isGone) {
      this.#tell(drainedMessage(replies.length));
      return;
    }
    this.#unwrittenBytes += replies.length;
    if (this.#unwrittenBytes > DRAINED_PORTION_BYTES) this.#watch();
    this.#writer.write(replies).then(
      () => this.#written(replies.length),
      () => this.#lose(),
    );
  }

  /** A write failed, so the client no longer reads. Its requests may still arrive, and are executed without replies. */
  #lose(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#tell(BRIDGE_GONE);
    this.#tell(drainedMessage(this.#drainedBytes + this.#unwrittenBytes));
    this.#unwrittenBytes = 0;
  }

  /** A write has reached the client. The Hub learns of it in portions. */
  #written(bytes: number): void {
    this.#writes++;
    this.#unwrittenBytes -= bytes;
    this.#drainedBytes += bytes;
    if (this.#drainedBytes < DRAINED_PORTION_BYTES) return;
    this.#tell(drainedMessage(this.#drainedBytes));
    this.#drainedBytes = 0;
  }

  /** Closes the client if nothing could be written to it for `STALL_TIMEOUT_MS`. */
  #watch(): void {
    if (this.#stallTimer !== null) return;
    const writes = this.#writes;
    this.#stallTimer = setTimeout(() => {
      this.#stallTimer = null;
      if (this.#isOver || this.#unwrittenBytes === 0) return;
      if (this.#writes !== writes) return this.#watch();
      logWarning("tcp_stalled", { unwrittenBytes: this.#unwrittenBytes });
      this.#abort();
    }, this.#stallTimeoutMs);
  }

  /** Gives the connection up, with whatever is unwritten: the client does not read, or has gone. */
  #abort(): void {
    if (this.#isOver) return;
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.close(1000);
    this.#writer.abort(new Error("stalled")).catch(() => {});
    this.#end();
  }

  /** The Hub closed the connection: writes the remaining replies, then closes the client. */
  async #finish(): Promise<void> {
    if (this.#isFinishing || this.#isOver) return;
    this.#isFinishing = true;
    this.#credit?.();
    if (this.#unwrittenBytes > 0) this.#watch();
    try {
      await this.#writer.close();
      // Closing a socket with unread bytes resets it, and the client would lose its last replies.
      await Promise.race([this.#drainedInput.promise, scheduler.wait(LINGER_MS)]);
    } catch {
      // The client is gone already.
    }
    this.#end();
  }

  /** Releases everything, so that `run` returns. A reader that waits for credit would wait for ever. */
  #end(): void {
    this.#isOver = true;
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#credit?.();
    this.#reader.cancel().catch(() => {});
    this.#ended.resolve();
  }
}
