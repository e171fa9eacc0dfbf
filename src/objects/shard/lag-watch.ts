/**
 * Watches by how much a shard's time is ahead of the platform's clock (`ShardClock`), and says so once for each lag.
 *
 * A machine's clock may be some milliseconds behind another's. Such a lag is gone at once, and is worth neither a row nor
 * a line of the log. A lag of a second or more is stored, so that a restart goes on from the shard's time: what has
 * expired must not come back.
 */
import { logWarning } from "../../base/log.ts";

/** A lag is stored and logged from here on. */
const NOTED_MS = 1000;

/** The shard's part. */
export interface LagHost {
  /** The lag has grown: the platform's clock has gone back, and alarms, which are in its time, are too late. */
  onGrown(): void;
  /** The lag is long enough to be stored. */
  onLong(): void;
}

/** Of one instance of a shard. */
export class LagWatch {
  readonly #shard: string;
  readonly #host: LagHost;
  #lagMs = 0;
  /** The log says that there is a lag, and must say when it is over. */
  #isLogged = false;

  /** @param shard name of the object */
  constructor(shard: string, host: LagHost) {
    this.#shard = shard;
    this.#host = host;
  }

  /** Takes the present lag in ms, 0 for none. */
  note(lagMs: number): void {
    if (lagMs === this.#lagMs) return;
    if (lagMs > this.#lagMs) this.#host.onGrown();
    this.#lagMs = lagMs;
    if (lagMs >= NOTED_MS) this.#host.onLong();
    if (lagMs >= NOTED_MS && !this.#isLogged) {
      this.#isLogged = true;
      logWarning("clock_lagging", { shard: this.#shard, lagMs });
    }
    if (lagMs === 0 && this.#isLogged) {
      this.#isLogged = false;
      logWarning("clock_right", { shard: this.#shard });
    }
  }
}
