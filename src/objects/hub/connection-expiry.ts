/**
 * The end of a connection's access, where its token has one.
 *
 * What is under way then is answered, and the connection is closed. But the peer must not decide how long that takes: a wait
 * for the peer to read is ended at once, and everything else a fixed time later. The Hub's alarm begins the end; a busy
 * connection looks at the clock, too, since alarms come late.
 */
import { presentMs } from "../../base/clock.ts";
import type { Timers } from "../../base/timers.ts";
import { EXPIRED_CONNECTION_MS } from "../../engine/sizes.ts";
import { TOKEN_EXPIRED, type Ending } from "./ending.ts";

/** The connection's part. */
export interface ExpiryHost extends Pick<Timers, "wait" | "waitUntil"> {
  readonly isClosed: () => boolean;
  /** Starts nothing more, and closes the connection where nothing is under way. */
  onExpired(): void;
  close(ending: Ending): void;
}

/** Of one connection. */
export class ConnectionExpiry {
  readonly #endsAtMs: number;
  readonly #host: ExpiryHost;
  #hasEnded = false;
  /** Waits for the peer to read. */
  #waits = 0;

  /** @param endsAtMs ms since the epoch; null for never */
  constructor(endsAtMs: number | null, host: ExpiryHost) {
    this.#endsAtMs = endsAtMs ?? Infinity;
    this.#host = host;
  }

  /** When the access ends, ms since the epoch; Infinity for never, and once the end has begun. */
  get dueAtMs(): number {
    return this.#hasEnded ? Infinity : this.#endsAtMs;
  }

  /** Whether the access has ended. Begins the end of the connection where that was not noticed before. */
  check(): boolean {
    if (presentMs() >= this.dueAtMs) this.begin();
    return this.#hasEnded;
  }

  /** The access has ended: ends the connection. */
  begin(): void {
    this.#hasEnded = true;
    this.#host.onExpired();
    if (this.#waits > 0) this.#host.close(TOKEN_EXPIRED);
    // The wait keeps the Hub awake, which idle connections must not do.
    else if (!this.#host.isClosed()) this.#host.waitUntil(this.#closeLater());
  }

  /** Waits for the peer to read. */
  async waitFor(room: Promise<void>): Promise<void> {
    this.#waits++;
    try {
      await room;
    } finally {
      this.#waits--;
    }
  }

  async #closeLater(): Promise<void> {
    await this.#host.wait(EXPIRED_CONNECTION_MS);
    this.#host.close(TOKEN_EXPIRED);
  }
}
