/**
 * Keeps the Hub awake while a large frame is unfinished, and ends the connection when it does not go on.
 *
 * Up to 1 KiB of an unfinished frame outlives hibernation in the attachment. A longer one is in memory only, and
 * hibernation, which comes after 10 s without I/O, would lose it.
 */
import type { Timers } from "../../base/timers.ts";

/** How many timeouts a frame may take in all. */
const STALLS_MAX = 4;

/** The connection's part. */
export interface UnfinishedFrameHost extends Timers {
  /** The frame has not gone on for too long, or takes too long in all. */
  onTimeout(timeoutMs: number): void;
}

/** Of one connection; most never have one, as clients send small frames. */
export class UnfinishedFrame {
  readonly #host: UnfinishedFrameHost;
  readonly #timeoutMs: number;
  /** Goes up with all that may end the frame: more bytes, or a reply. */
  #progress = 0;
  /** When the frame was first waited for; null when there is none. */
  #sinceMs: number | null = null;

  constructor(timeoutMs: number, host: UnfinishedFrameHost) {
    this.#timeoutMs = timeoutMs;
    this.#host = host;
  }

  /** More bytes have come. */
  noteProgress(): void {
    this.#progress++;
  }

  /** The frame is finished, or small enough to be stored. */
  end(): void {
    this.#sinceMs = null;
  }

  /** Keeps the object in memory until the frame goes on, or the time is over. */
  stayAwake(): void {
    const progress = this.#progress;
    const nowMs = this.#host.nowMs();
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs >= STALLS_MAX * this.#timeoutMs) {
      this.#host.onTimeout(STALLS_MAX * this.#timeoutMs);
      return;
    }
    const timeout = this.#host.wait(this.#timeoutMs).then(() => {
      if (this.#progress === progress) this.#host.onTimeout(this.#timeoutMs);
    });
    this.#host.waitUntil(timeout);
  }
}
