/** Adapts the WebSocket of any runtime to the `Socket` of the client. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { connectionFailed } from "../calls/call.ts";
import { errorOfText } from "./failure.ts";
import { pageHint, type PlatformSocket } from "../platform.ts";
import type { Ending, Socket, SocketEvents } from "./transport.ts";

/** A WebSocket that was created. */
export interface MadeSocket {
  readonly socket: PlatformSocket;
  /** Starts a WebSocket that is open already, and has no open event: that of a service binding. */
  readonly accept?: () => void;
}

/** How to open a WebSocket. */
export interface SocketSource {
  /**
   * Fetches what is needed first: a token, or the socket of a binding.
   *
   * @returns a function that creates the WebSocket in the same turn as listeners are added, so that no event is missed; or
   *   why the server refuses
   * @throws anything when it can't be created now
   */
  readonly prepare: () => Promise<(() => MadeSocket) | Ending>;
  /** Whether another attempt may succeed after the server closed one with this code. */
  readonly canReturnFrom: (code: string) => boolean;
}

/** The error event of a WebSocket, of which runtimes have as much as they like. */
interface ErrorShape {
  readonly message?: string;
  readonly error?: { readonly code?: string } | null;
}

/** Begins to open a WebSocket. */
export function openSocket(source: SocketSource, events: SocketEvents): Socket {
  return new OpeningSocket(source, events);
}

class OpeningSocket implements Socket {
  readonly #source: SocketSource;
  readonly #events: SocketEvents;
  #socket: PlatformSocket | null = null;
  #isOpen = false;
  #isEnded = false;

  constructor(source: SocketSource, events: SocketEvents) {
    this.#source = source;
    this.#events = events;
    void this.#open();
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    this.#socket!.send(message);
  }

  ping(): void {
    this.#socket!.send("ping");
  }

  close(): void {
    this.#isEnded = true;
    this.#shut();
  }

  async #open(): Promise<void> {
    try {
      const prepared = await this.#source.prepare();
      if (typeof prepared === "function") this.#use(prepared());
      else this.#end(prepared);
    } catch (error) {
      this.#fail(error instanceof ThrottrError ? error : connectionFailed(String(error), error));
    }
  }

  #use({ socket, accept }: MadeSocket): void {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.#isOpen = true;
      if (!this.#isEnded) this.#events.opened();
    });
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("close", ({ code, reason }) => {
      this.#fail(
        errorOfText(reason) ?? connectionFailed(`the connection was closed: ${code} ${reason}`),
      );
    });
    socket.addEventListener("error", (event) => {
      const { message, error } = event as ErrorShape;
      // An AggregateError, of a host with several addresses, has a code alone.
      const why = message || error?.code;
      this.#fail(connectionFailed(`the connection failed${why ? `: ${why}` : ""}${this.#hint()}`));
    });
    accept?.();
    // With listeners: `ws` emits an error when it is closed before it is open, and without one the process ends.
    if (this.#isEnded) this.#shut();
    else if (accept !== undefined) this.#events.opened();
  }

  /** A hint for a WebSocket that never opened. A browser says nothing, and any server answers with a status. */
  #hint(): string {
    const url = this.#socket?.url;
    if (this.#isOpen || url == null) return "";
    // Without the user and password, or the ticket, that an address may have: errors end in logs.
    const shown = url.split("?")[0]!.replace(/\/\/[^/]*@/, "//");
    return pageHint(url) || `; is there a Throttr server at ${shown}?`;
  }

  #receive(data: unknown): void {
    if (this.#isEnded) return;
    if (typeof data === "string") this.#events.ponged();
    else if (data instanceof ArrayBuffer) this.#events.received(new Uint8Array(data));
    else
      this.#fail(
        connectionFailed("a message is not an ArrayBuffer, though binaryType asks for that"),
      );
  }

  #fail(error: ThrottrError): void {
    this.#end({ error, isFinal: !this.#source.canReturnFrom(error.code) });
  }

  #end(ending: Ending): void {
    if (this.#isEnded) return;
    this.close();
    this.#events.closed(ending);
  }

  #shut(): void {
    try {
      this.#socket?.close(1000);
    } catch {
      // It was closed already.
    }
  }
}
