/**
 * The live overview: a stream of Server-Sent Events, each of them a whole overview as JSON.
 *
 * The reader drives the stream: an overview is made when the reader wants one and it is due. So there is no timer
 * except that of a read under way, and a listener that does not read costs nothing.
 */
import type { Overview } from "../wire/overview.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { recentOverview } from "./live-overviews.ts";
import { isRevoked } from "./revocations.ts";
import type { Caller } from "./caller.ts";
import { presentMs, stopwatchMs } from "../base/clock.ts";

/** Most listeners of a namespace in one isolate, and most listeners of the isolate. */
export const LISTENERS_MAX = 32;
const ISOLATE_LISTENERS_MAX = 512;
/** Shortest time between events: an overview is made once a second at most. */
export const INTERVAL_MS_MIN = 1000;
/** Longest time between events, a minute. */
export const INTERVAL_MS_MAX = 60_000;
/**
 * Interval of comments. They keep proxies from closing a silent stream, and reveal a closed listener: the runtime
 * notices only when it writes. Until then the listener keeps its place from others.
 */
const HEARTBEAT_MS = 5000;
/** How long a browser waits before it reconnects. */
const RETRY_MS = 3000;
/** A listener that has read nothing for this long no longer counts: it may have closed unnoticed. */
const LOST_MS = 3 * HEARTBEAT_MS;

/** `x-accel-buffering` keeps nginx from holding events back until its buffer is full. */
const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-accel-buffering": "no",
};

const encoder = new TextEncoder();
/** Listeners of this isolate. Another isolate has its own: a limit for all would need an object. */
const listeners = new Set<Listener>();

/**
 * Opens a stream. Its first event is sent at once.
 *
 * @param intervalMs from event to event: `INTERVAL_MS_MIN` to `INTERVAL_MS_MAX`
 * @throws ThrottrError `listeners_max`, or as `recentOverview`
 */
export async function openLive(caller: Caller, intervalMs: number): Promise<Response> {
  const nowMs = stopwatchMs();
  for (const listener of listeners) {
    if (nowMs - listener.readAtMs > LOST_MS) listeners.delete(listener);
  }
  if (isFull(caller.access.namespace)) {
    throw new ThrottrError(
      "listeners_max",
      `there are already ${LISTENERS_MAX} listeners: try again later`,
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

/** One stream. Everything happens in `pull`, which the runtime calls when the client has taken the last event. */
class Listener {
  readonly namespace: string;
  readonly readable: ReadableStream<Uint8Array>;
  /** When the client last took something. */
  readAtMs = stopwatchMs();
  readonly #caller: Caller;
  readonly #intervalMs: number;
  /** Aborts the wait for the next event when the stream ends. */
  readonly #ended = new AbortController();
  /** What the next `pull` sends; empty until it is made. */
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

  /** Makes the first event. Its failure is still a plain HTTP error, as nothing was sent yet. */
  async begin(): Promise<void> {
    this.#text = `retry: ${RETRY_MS}\n\n${await this.#next()}`;
  }

  /** Gives the place back. Called for each end, some of which come twice. */
  end(): void {
    listeners.delete(this);
    this.#ended.abort();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.readAtMs = stopwatchMs();
    // A listener that was counted as lost reads again: it gets its place back if there is room.
    if (!listeners.has(this) && isFull(this.namespace)) {
      controller.close();
      return;
    }
    listeners.add(this);
    try {
      if (this.#text === "") this.#text = await this.#awaited();
    } catch {
      // The listener closed, or no object could be asked (logged there). The stream ends, and a browser reconnects.
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

  /** The next event, or a heartbeat; empty once the token has expired or is revoked, which ends the stream. */
  async #awaited(): Promise<string> {
    const nowMs = presentMs();
    // A clock that went back must not make the next event wait.
    this.#dueAtMs = Math.min(this.#dueAtMs, nowMs + this.#intervalMs);
    const expiresAtMs = this.#caller.access.expiresAtMs ?? Infinity;
    const atMs = Math.min(this.#dueAtMs, nowMs + HEARTBEAT_MS, expiresAtMs);
    const { signal } = this.#ended;
    if (atMs > nowMs) await scheduler.wait(atMs - nowMs, { signal });
    if (presentMs() >= expiresAtMs || (await this.#isRevoked())) return "";
    return presentMs() >= this.#dueAtMs ? await this.#next() : ": \n\n";
  }

  /** Each event looks: the list is read every 45 s at most, in this request, which the stream keeps alive. */
  async #isRevoked(): Promise<boolean> {
    const { env, access } = this.#caller;
    return await isRevoked(env, access, (work) => void work);
  }

  /** An overview as an event. The interval begins behind it, so slow objects are not asked more often. */
  async #next(): Promise<string> {
    const overview = await recentOverview(this.#caller);
    this.#dueAtMs = presentMs() + this.#intervalMs;
    return eventOf(overview);
  }
}

/** JSON has no line ends, so one `data` line holds it. */
function eventOf(overview: Overview): string {
  return `data: ${JSON.stringify(overview)}\n\n`;
}
