/**
 * A link: a socket that is opened when it is needed, opened again when it was lost, and pinged, so that each side knows
 * that the other is still there.
 */
import { ThrottrError } from "../../wire/edge/error.ts";
import { connectionFailed } from "../calls/call.ts";
import { backoffMs } from "../timing/backoff.ts";
import type { Settings } from "../options.ts";
import type { Ending, Socket, Transport } from "../transport/transport.ts";

/**
 * The server takes a silent peer for one that does not read, so the link pings after this many bytes at the latest.
 */
const UNCONFIRMED_BYTES_MAX = 64 << 10;
/** After a connection that lasted so long, the next waits begin with the shortest again. */
const STABLE_MS = 5000;

/** The user of a link. */
export interface LinkHost {
  opened(): void;
  /** @throws ThrottrError when the bytes are not in the protocol: then the link drops the socket */
  received(bytes: Uint8Array): void;
  /**
   * The socket has closed, or could not be opened.
   *
   * @param failures failed attempts to open it, in a row
   * @returns whether another socket is needed
   */
  ended(ending: Ending, failures: number): boolean;
}

type State = "idle" | "connecting" | "open" | "waiting" | "closed";

export class Link {
  readonly #transport: Transport;
  readonly #settings: Settings;
  readonly #host: LinkHost;
  #state: State = "idle";
  #socket: Socket | null = null;
  /** Counts sockets: late events of an earlier one are ignored. */
  #generation = 0;
  /** The timer of the current state: how long opening may take, how long to wait, or when to ping. */
  #timer: unknown = null;
  #failures = 0;
  /** Waits since the last good connection. */
  #step = 0;
  #openedAtMs = 0;
  #isHeard = true;
  #unconfirmedBytes = 0;

  constructor(transport: Transport, settings: Settings, host: LinkHost) {
    this.#transport = transport;
    this.#settings = settings;
    this.#host = host;
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Opens a socket, soon, unless one is open. */
  open(): void {
    if (this.#state === "idle") this.#connect();
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    try {
      this.#socket!.send(message);
    } catch (error) {
      this.drop(`a message could not be sent: ${String(error)}`, error);
    }
  }

  /** Closes a socket that failed, and reports it. */
  drop(detail: string, cause?: unknown): void {
    this.#end({ error: connectionFailed(detail, cause), isFinal: false });
  }

  /** Closes a socket that is not needed for now. */
  release(): void {
    this.#leave("idle");
  }

  /** Closes the link for good. */
  close(): void {
    this.#leave("closed");
  }

  #connect(): void {
    const { timeoutMs } = this.#settings;
    const generation = ++this.#generation;
    const isCurrent = (): boolean => generation === this.#generation;
    this.#state = "connecting";
    this.#setTimer(timeoutMs, () => this.drop(`no connection within ${timeoutMs} ms`));
    try {
      this.#socket = this.#transport.connect({
        opened: () => {
          if (isCurrent()) this.#opened();
        },
        received: (bytes) => {
          if (isCurrent()) this.#received(bytes);
        },
        ponged: () => {
          if (isCurrent()) this.#isHeard = true;
        },
        closed: (ending) => {
          if (isCurrent()) this.#end(ending);
        },
      });
    } catch (error) {
      // A transport of the application: nothing else would catch it.
      this.drop(`no connection could be opened: ${String(error)}`, error);
    }
  }

  #opened(): void {
    this.#state = "open";
    this.#failures = 0;
    this.#openedAtMs = this.#settings.clock.nowMs();
    this.#isHeard = true;
    this.#unconfirmedBytes = 0;
    this.#awaitPing();
    this.#host.opened();
  }

  #received(bytes: Uint8Array): void {
    this.#isHeard = true;
    this.#unconfirmedBytes += bytes.length;
    try {
      this.#host.received(bytes);
    } catch (error) {
      this.drop(ThrottrError.from(error).message, error);
    }
    if (this.isOpen && this.#unconfirmedBytes >= UNCONFIRMED_BYTES_MAX) this.#ping();
  }

  #awaitPing(): void {
    const { pingIntervalMs } = this.#settings;
    this.#setTimer(pingIntervalMs, () => {
      if (!this.#isHeard) {
        this.drop(`the server has sent nothing for ${pingIntervalMs} ms`);
        return;
      }
      this.#isHeard = false;
      this.#awaitPing();
      this.#ping();
    });
  }

  #ping(): void {
    this.#unconfirmedBytes = 0;
    try {
      this.#socket!.ping();
    } catch (error) {
      this.drop(`a ping could not be sent: ${String(error)}`, error);
    }
  }

  #end(ending: Ending): void {
    const state = this.#state;
    if (state !== "connecting" && state !== "open") return;
    const { clock } = this.#settings;
    if (state === "connecting") this.#failures++;
    else if (clock.nowMs() - this.#openedAtMs >= STABLE_MS) this.#step = 0;
    this.#leave("waiting");
    const isNeeded = this.#host.ended(ending, this.#failures);
    if (this.#state !== "waiting") return;
    if (!isNeeded) {
      this.release();
      return;
    }
    const delayMs = backoffMs(this.#settings, this.#step++, clock.random());
    this.#setTimer(delayMs, () => this.#connect());
  }

  #leave(state: State): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#generation++;
    this.#clearTimer();
    this.#state = state;
    if (state !== "waiting") this.#failures = this.#step = 0;
    socket?.close();
  }

  #setTimer(delayMs: number, run: () => void): void {
    this.#clearTimer();
    this.#timer = this.#settings.clock.setTimer(run, delayMs);
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#settings.clock.clearTimer(this.#timer);
    this.#timer = null;
  }
}
