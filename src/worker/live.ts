/**
 * The overview, live: a stream of Server-Sent Events, each of which is a whole overview as JSON.
 *
 * The stream is driven by its reader: an event is asked for when it is wanted and due. So there is no
 * timer but that of a read under way, and a listener that does not read costs nothing.
 */
import type { Overview } from "../wire/overview.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { recentOverview } from "./live-overviews.ts";
import type { Caller } from "./caller.ts";

/** Listeners of a namespace in one isolate, and all of them. */
export const LISTENERS_MAX = 32;
const ISOLATE_LISTENERS_MAX = 512;
export const INTERVAL_MS_MIN = 1000;
export const INTERVAL_MS_MAX = 60_000;
/**
 * Comments that keep proxies from closing a silent stream, and show that a listener has gone: no runtime
 * tells that before something is written. They come as often as its place may be kept from others.
 */
const HEARTBEAT_MS = 5000;
/** How long a browser waits before it comes back. */
const RETRY_MS = 3000;
/** A listener who has read nothing for so long is not counted any more: it may have gone unseen. */
const LOST_MS = 3 * HEARTBEAT_MS;

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-accel-buffering": "no",
};

const encoder = new TextEncoder();
const listeners = new Set<Listener>();

/**
 * Opens a stream; its first event comes at once.
 *
 * @param intervalMs from event to event: `INTERVAL_MS_MIN` to `INTERVAL_MS_MAX`
 * @throws ThrottrError `listeners_max`, or as `recentOverview`
 */
export async function openLive(caller: Caller, intervalMs: number): Promise<Response> {
  const nowMs = Date.now();
  for (const listener of listeners) {
    if (nowMs - listener.readAtMs > LOST_MS) listeners.delete(listener);
  }
  if (isFull(caller.access.namespace)) {
    throw new ThrottrError(
      "listeners_max",
      `${LISTENERS_MAX} listeners are possible: try again later`,
    );
  }
  const listener = new Listener(caller, intervalMs);
  listeners.add(listener);
  try {
    await listener.begin();
  } catch (error) {
    listener.end();
    throw error;
  }
  return new Response(listener.readable, { headers: HEADERS });
}

function isFull(namespace: string): boolean {
  if (listeners.size >= ISOLATE_LISTENERS_MAX) return true;
  const isOfNamespace = (listener: Listener): boolean => listener.namespace === namespace;
  return [...listeners].filter(isOfNamespace).length >= LISTENERS_MAX;
}

class Listener {
  readonly namespace: string;
  readonly readable: ReadableStream<Uint8Array>;
  readAtMs = Date.now();
  readonly #caller: Caller;
  readonly #intervalMs: number;
  readonly #ended = new AbortController();
  #text = "";
  #dueAtMs = 0;

  constructor(caller: Caller, intervalMs: number) {
    this.#caller = caller;
    this.namespace = caller.access.namespace;
    this.#intervalMs = intervalMs;
    this.readable = new ReadableStream(
      {
        pull: async (controller) => await this.#pull(controller),
        cancel: () => this.end(),
      },
      { highWaterMark: 0 },
    );
  }

  /** Asks for the first event. */
  async begin(): Promise<void> {
    this.#text = `retry: ${RETRY_MS}\n\n${await this.#next()}`;
  }

  end(): void {
    listeners.delete(this);
    this.#ended.abort();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.readAtMs = Date.now();
    // Who was taken for lost is there after all, if there is room.
    if (!listeners.has(this) && isFull(this.namespace)) {
      controller.close();
      return;
    }
    listeners.add(this);
    try {
      if (this.#text === "") this.#text = await this.#awaited();
    } catch {
      // The listener has gone, or nobody could be asked, which is logged: a browser comes back.
      this.#text = "";
    }
    if (this.#ended.signal.aborted) return;
    if (this.#text === "") {
      this.end();
      controller.close();
      return;
    }
    controller.enqueue(encoder.encode(this.#text));
    this.#text = "";
  }

  /** The next event, or a heartbeat; nothing when the token has expired. */
  async #awaited(): Promise<string> {
    const nowMs = Date.now();
    const expiresAtMs = this.#caller.access.expiresAtMs ?? Infinity;
    const atMs = Math.min(this.#dueAtMs, nowMs + HEARTBEAT_MS, expiresAtMs);
    const { signal } = this.#ended;
    if (atMs > nowMs) await scheduler.wait(atMs - nowMs, { signal });
    if (Date.now() >= expiresAtMs) return "";
    return Date.now() >= this.#dueAtMs ? await this.#next() : ": \n\n";
  }

  async #next(): Promise<string> {
    const overview = await recentOverview(this.#caller);
    this.#dueAtMs = Date.now() + this.#intervalMs;
    return eventOf(overview);
  }
}

function eventOf(overview: Overview): string {
  return `data: ${JSON.stringify(overview)}\n\n`;
}
