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
  /** When the frame was first waited for; null when there is none. */
  #sinceMs: number | null = null;
  /** By when it has to go on; null while nothing is waited for. */
  #untilMs: number | null = null;
  /** A peer may send its frame in any number of pieces, and an object has 10,000 timers: each frame has one. */
  #isWatched = false;

  constructor(timeoutMs: number, host: UnfinishedFrameHost) {
    this.#timeoutMs = timeoutMs;
    this.#host = host;
  }

  /** More bytes have come. */
  noteProgress(): void {
    this.#untilMs = null;
  }

  /** The frame is finished, or small enough to be stored. */
  end(): void {
    this.#sinceMs = null;
    this.#untilMs = null;
  }

  /** Keeps the object in memory until the frame goes on, or the time is over. */
  stayAwake(): void {
    const nowMs = this.#host.nowMs();
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs >= STALLS_MAX * this.#timeoutMs) {
      this.#host.onTimeout(STALLS_MAX * this.#timeoutMs);
      return;
    }
    this.#untilMs = nowMs + this.#timeoutMs;
    if (!this.#isWatched) this.#host.waitUntil(this.#watch());
  }

  async #watch(): Promise<void> {
    this.#isWatched = true;
    try {
      while (this.#untilMs !== null) {
        const untilMs = this.#untilMs;
        const leftMs = untilMs - this.#host.nowMs();
        // A clock that was set says nothing of how long the frame has waited.
        const isPlausible = leftMs > 0 && leftMs <= this.#timeoutMs;
        await this.#host.wait(isPlausible ? leftMs : this.#timeoutMs);
        if (this.#untilMs !== untilMs) continue;
        this.#host.onTimeout(this.#timeoutMs);
        return;
      }
    } finally {
      this.#isWatched = false;
    }
  }
}
