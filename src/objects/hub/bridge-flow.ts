/**
 * What a TCP client has not read yet, as its bridge reports it (`wire/bridge.ts`).
 *
 * `send` of a WebSocket never waits, and what a slow client leaves unread stays in the Hub's memory. So a bridge says
 * how much it has written to its client, and further calls wait while more than a window of replies is on its way.
 */
import { BRIDGE_WINDOW_BYTES, DRAINED_PORTION_BYTES } from "../../wire/bridge.ts";
import { BRIDGES_BACKLOG_BYTES_MAX } from "../../engine/sizes.ts";

/** What all clients behind bridges in a Hub have not read. */
export class HubBacklog {
  bytes = 0;
  /** Of each client what is more than its bridge reports at once: one that has read everything may owe such a report for good. */
  unreadBytes = 0;

  /** True when each client may leave at most one window unread. */
  get isTight(): boolean {
    return this.unreadBytes > BRIDGES_BACKLOG_BYTES_MAX;
  }
}

/** What the client of one bridge has not read. */
export class BridgeFlow {
  readonly #hub: HubBacklog;
  /** Bytes that the bridge has not written to its client. */
  undrainedBytes = 0;
  /** What further calls wait for; null while there is room. */
  #drained: PromiseWithResolvers<void> | null = null;

  constructor(hub: HubBacklog, undrainedBytes: number) {
    this.#hub = hub;
    this.send(undrainedBytes);
  }

  /** Bytes are sent to the bridge. */
  send(bytes: number): void {
    const before = this.undrainedBytes;
    this.undrainedBytes += bytes;
    this.#hub.bytes += bytes;
    this.#hub.unreadBytes += unreadOf(this.undrainedBytes) - unreadOf(before);
  }

  /** The bridge has written bytes to its client. It can't have written more than it was sent. */
  drain(bytes: number): void {
    this.send(-Math.min(bytes, this.undrainedBytes));
    if (this.undrainedBytes <= BRIDGE_WINDOW_BYTES) this.goOn();
  }

  /** Null while there is room for further replies, else a promise of it, which `close` rejects. */
  room(): Promise<void> | null {
    if (this.undrainedBytes <= BRIDGE_WINDOW_BYTES) return null;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** Lets further calls go on. */
  goOn(): void {
    this.#drained?.resolve();
    this.#drained = null;
  }

  /** The connection is closed: gives back what it counts, and ends what waits. */
  close(): void {
    this.send(-this.undrainedBytes);
    this.#drained?.promise.catch(() => {});
    this.#drained?.reject(new Error("closed"));
  }
}

/** Bytes that a client surely has not read. */
const unreadOf = (undrainedBytes: number): number =>
  Math.max(0, undrainedBytes - DRAINED_PORTION_BYTES);
