/**
 * A stream of Server-Sent Events: the Hub's pushes over an internal WebSocket, as text.
 *
 * A payload in UTF-8 is sent as text. Other payloads, and text with a carriage return, which the format would turn into
 * a line end, are sent in base64 as an event named `base64`. The stream reports to the Hub what it has written, so the
 * Hub notices a listener that does not read.
 */
import { logWarning } from "../base/log.ts";
import { parseBridgeMessage, drainedMessage } from "../wire/bridge.ts";
import { parseRecords, type EventRecord } from "../wire/events.ts";
import { base64Of, textOf } from "./text.ts";

/** Interval of comments: they keep proxies from closing a silent stream, and a failed write shows a closed listener. */
const HEARTBEAT_MS = 15_000;
/** How long a browser waits before it reconnects. */
const RETRY_MS = 3000;
/** The Hub's close code for a listener that does not read. It would not read the rest either. */
const TRY_AGAIN_LATER = 1013;

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

const encoder = new TextEncoder();

/** Waiting for the reader: text of our own, or the Hub's records, which are encoded only when they are read. */
type Waiting = string | Uint8Array;

/**
 * One listener. What the Hub sends waits until the client reads; the Hub's own limit for unread bytes keeps it short. Once
 * the Hub has ended the listener, it no longer counts these bytes: a client that does not read is then dropped.
 */
export class EventStream {
  readonly response: Response;
  readonly #hub: WebSocket;
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  readonly #stallTimeoutMs: number;
  readonly #heartbeat: ReturnType<typeof setInterval>;
  readonly #waiting: Waiting[] = [];
  /** Resolves the reader's wait for text; null while it does not wait. */
  #isWanted: (() => void) | null = null;
  /** How often the client has asked for more. */
  #pulls = 0;
  /** Why nothing more will be added; null while the stream is open. */
  #ending: "closed" | "unread" | null = null;

  /** @param stallTimeoutMs how long a client may read nothing of what waits once the Hub has ended the listener */
  constructor(hub: WebSocket, stallTimeoutMs: number) {
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const readable = new ReadableStream<Uint8Array>(
      {
        start: (ofStream) => void (controller = ofStream),
        pull: async () => await this.#pull(),
        cancel: () => this.#cancel(),
      },
      { highWaterMark: 0 },
    );
    this.response = new Response(readable, { headers: HEADERS });
    this.#hub = hub;
    this.#controller = controller!;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS);
    hub.binaryType = "arraybuffer";
    hub.addEventListener("message", ({ data }) => this.#fromHub(data as ArrayBuffer));
    hub.addEventListener("close", ({ code }) => {
      this.#end(code === TRY_AGAIN_LATER ? "unread" : "closed");
    });
    hub.addEventListener("error", () => this.#end("closed"));
    hub.accept();
    this.#push(`retry: ${RETRY_MS}\n\n`);
  }

  /** A push from the Hub, in the same messages as replies to the TCP door. */
  #fromHub(message: ArrayBuffer): void {
    this.#push(parseBridgeMessage(new Uint8Array(message)).replies);
  }

  /** Adds a comment, unless something waits to be read: a listener that does not read would collect comments. */
  #beat(): void {
    if (this.#waiting.length === 0) this.#push(": \n\n");
  }

  #push(waiting: Waiting): void {
    if (this.#ending !== null) return;
    this.#waiting.push(waiting);
    this.#isWanted?.();
  }

  /** Sends one thing that waits. A stream that was left unread has ended with an error already. */
  async #pull(): Promise<void> {
    this.#pulls++;
    if (this.#waiting.length === 0 && this.#ending === null) {
      await new Promise<void>((resolve) => (this.#isWanted = resolve));
      this.#isWanted = null;
    }
    const next = this.#waiting.shift();
    if (next !== undefined) {
      const isText = typeof next === "string";
      const text = isText ? next : parseRecords(next).map(eventText).join("");
      this.#controller.enqueue(encoder.encode(text));
      if (!isText) this.#tell(drainedMessage(next.length));
    } else if (this.#ending === "closed") {
      this.#controller.close();
    }
  }

  /** Sends to the Hub, unless the WebSocket is closed: sending would throw. */
  #tell(message: string): void {
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.send(message);
  }

  /** The client has closed the response. */
  #cancel(): void {
    this.#waiting.length = 0;
    this.#end("closed");
  }

  /**
   * Ends the stream, by either side. What waits is still sent, unless it was left unread: then the stream fails, so that a
   * browser reconnects and asks for the rest.
   */
  #end(ending: "closed" | "unread"): void {
    if (this.#ending !== null) return;
    this.#ending = ending;
    clearInterval(this.#heartbeat);
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.close(1000);
    if (ending === "unread") this.#fail("unread");
    else this.#watch();
    this.#isWanted?.();
  }

  /** At once: a client that does not read asks for nothing, and what waits would stay in memory as long as it lives. */
  #fail(reason: string): void {
    this.#waiting.length = 0;
    this.#controller.error(new Error(reason));
  }

  /** Gives the client up if it reads nothing of what waits. */
  #watch(): void {
    if (this.#waiting.length === 0) return;
    const pulls = this.#pulls;
    setTimeout(() => {
      if (this.#pulls !== pulls) return this.#watch();
      if (this.#waiting.length === 0) return;
      logWarning("http_stalled", { unwrittenBytes: bytesOf(this.#waiting) });
      this.#fail("stalled");
    }, this.#stallTimeoutMs);
  }
}

const bytesOf = (waiting: readonly Waiting[]): number =>
  waiting.reduce((sum, { length }) => sum + length, 0);

function eventText({ sequence, payload }: EventRecord): string {
  const id = sequence === null ? "" : `id: ${sequence}\n`;
  // By the format an event without data is not delivered; it only moves the listener's `lastEventId`.
  if (payload === null) return `${id}\n`;
  const text = textOf(payload);
  // The format treats a carriage return as a line end.
  if (text === null || text.includes("\r"))
    return `${id}event: base64\ndata: ${base64Of(payload)}\n\n`;
  return `${id}data: ${text.replaceAll("\n", "\ndata: ")}\n\n`;
}
