/**
 * A stream of Server-Sent Events: what the Hub pushes over an internal WebSocket, as text.
 *
 * Text is sent as it is; what is no text, or has a carriage return that the format would lose, is sent
 * in base64 as an event named `base64`. The Hub is told what was written, so it sees a listener that
 * does not read.
 */
import { parseBridgeMessage, drainedMessage } from "../wire/bridge.ts";
import { parseRecords, type EventRecord } from "../wire/events.ts";

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
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class EventStream {
  readonly response: Response;
  readonly #hub: WebSocket;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #heartbeat: ReturnType<typeof setInterval>;
  #isOver = false;

  constructor(hub: WebSocket) {
    const { readable, writable } = new IdentityTransformStream();
    this.response = new Response(readable, { headers: HEADERS });
    this.#hub = hub;
    this.#writer = writable.getWriter();
    this.#writer.closed.catch(() => this.#end());
    this.#heartbeat = setInterval(() => this.#write(": \n\n", 0), HEARTBEAT_MS);
    hub.binaryType = "arraybuffer";
    hub.addEventListener("message", ({ data }) => this.#fromHub(data as ArrayBuffer));
    hub.addEventListener("close", ({ code }) => this.#finish(code));
    hub.addEventListener("error", () => this.#finish(TRY_AGAIN_LATER));
    hub.accept();
    this.#write(`retry: ${RETRY_MS}\n\n`, 0);
  }

  #fromHub(message: ArrayBuffer): void {
    const { replies } = parseBridgeMessage(message);
    this.#write(parseRecords(replies).map(eventText).join(""), replies.length);
  }

  /** Writes text; then `bytes` of the Hub's are drained. */
  #write(text: string, bytes: number): void {
    if (this.#isOver) return;
    this.#writer.write(encoder.encode(text)).then(
      () => {
        if (bytes > 0 && this.#hub.readyState === WebSocket.OPEN) {
          this.#hub.send(drainedMessage(bytes));
        }
      },
      () => this.#end(),
    );
  }

  /** The Hub has ended the connection: what it sent is written first. */
  #finish(code: number): void {
    if (this.#isOver) return;
    const ended =
      code === TRY_AGAIN_LATER ? this.#writer.abort(new Error("unread")) : this.#writer.close();
    ended.catch(() => {});
    this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#heartbeat);
    if (this.#hub.readyState === WebSocket.OPEN) this.#hub.close(1000);
  }
}

function eventText({ sequence, payload }: EventRecord): string {
  const id = sequence === null ? "" : `id: ${sequence}\n`;
  // An event without data is none: it only tells the listener where it is.
  if (payload === null) return `${id}\n`;
  const text = textOf(payload);
  if (text === null) return `${id}event: base64\ndata: ${base64Of(payload)}\n\n`;
  return `${id}data: ${text.replaceAll("\n", "\ndata: ")}\n\n`;
}

/** Null when the payload is no UTF-8, or would not come through as it is. */
function textOf(payload: Uint8Array): string | null {
  try {
    const text = decoder.decode(payload);
    return text.includes("\r") ? null : text;
  } catch {
    return null;
  }
}

function base64Of(payload: Uint8Array): string {
  let binary = "";
  for (const byte of payload) binary += String.fromCharCode(byte);
  return btoa(binary);
}
