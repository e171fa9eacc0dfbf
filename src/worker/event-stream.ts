/**
 * A stream of Server-Sent Events: what the Hub pushes over an internal WebSocket, as text.
 *
 * Text is sent as it is; what is no text, or has a carriage return that the format would lose, is sent
 * in base64 as an event named `base64`. The Hub is told what was written, so it sees a listener that
 * does not read.
 */
import { parseBridgeMessage, drainedMessage } from "../wire/bridge.ts";
import { parseRecords, type EventRecord } from "../wire/events.ts";
import { base64Of, textOf } from "./text.ts";

/** Comments that keep proxies from closing a silent stream, and show that a listener has gone. */
const HEARTBEAT_MS = 15_000;
/** How long a browser waits before it comes back. */
const RETRY_MS = 3000;
/** Close code of a listener that does not read: it will not read what is left, either. */
const TRY_AGAIN_LATER = 1013;

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

const encoder = new TextEncoder();

/** What waits to be read: text of our own, or records of the Hub, which become text when they are. */
type Waiting = string | Uint8Array;

export class EventStream {
  readonly response: Response;
  readonly #hub: WebSocket;
  readonly #heartbeat: ReturnType<typeof setInterval>;
  readonly #waiting: Waiting[] = [];
  /** The reader waits for text. */
  #isWanted: (() => void) | null = null;
  /** Why there will be no more text than what waits; null while there may be. */
  #ending: "closed" | "unread" | null = null;

  constructor(hub: WebSocket) {
    const readable = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => await this.#pull(controller),
        cancel: () => this.#end("closed"),
      },
      { highWaterMark: 0 },
    );
    this.response = new Response(readable, { headers: HEADERS });
    this.#hub = hub;
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

  #fromHub(message: ArrayBuffer): void {
    this.#push(parseBridgeMessage(new Uint8Array(message)).replies);
  }

  /** Says nothing to a stream that has something to say. */
  #beat(): void {
    if (this.#waiting.length === 0) this.#push(": \n\n");
  }

  #push(waiting: Waiting): void {
    if (this.#ending !== null) return;
    this.#waiting.push(waiting);
    this.#isWanted?.();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (this.#waiting.length === 0 && this.#ending === null) {
      await new Promise<void>((resolve) => (this.#isWanted = resolve));
      this.#isWanted = null;
    }
    const next = this.#ending === "unread" ? undefined : this.#waiting.shift();
    if (next !== undefined) {
      const isText = typeof next === "string";
      const text = isText ? next : parseRecords(next).map(eventText).join("");
      controller.enqueue(encoder.encode(text));
      if (!isText) this.#tell(drainedMessage(next.length));
    } else if (this.#ending === "unread") {
      controller.error(new Error("unread"));
    } else {
      controller.close();
    }
  }

  #tell(message: string): void {
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.send(message);
  }

  #end(ending: "closed" | "unread"): void {
    if (this.#ending !== null) return;
    this.#ending = ending;
    clearInterval(this.#heartbeat);
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.close(1000);
    this.#isWanted?.();
  }
}

function eventText({ sequence, payload }: EventRecord): string {
  const id = sequence === null ? "" : `id: ${sequence}\n`;
  // An event without data is none: it only tells the listener where it is.
  if (payload === null) return `${id}\n`;
  const text = textOf(payload);
  // A carriage return would not come through as it is.
  if (text === null || text.includes("\r"))
    return `${id}event: base64\ndata: ${base64Of(payload)}\n\n`;
  return `${id}data: ${text.replaceAll("\n", "\ndata: ")}\n\n`;
}
