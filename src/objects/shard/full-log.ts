/** Logs that a shard refuses records for want of room: at most once a minute, with how many since the last time. */
import { logWarning } from "../../base/log.ts";

/** A full shard may refuse a thousand requests a second, and each line of a log is billed. */
const INTERVAL_MS = 60_000;

/** Of one instance of a shard. */
export class FullLog {
  readonly #shard: string;
  readonly #bytesMax: number;
  /** Refusals since the start: at the last call, and at the last line of the log. */
  #seen = 0;
  /** Refusals that the log has told of, and when it did so last. */
  #logged = 0;
  #loggedAtMs = -Infinity;

  /** @param shard name of the object */
  constructor(shard: string, bytesMax: number) {
    this.#shard = shard;
    this.#bytesMax = bytesMax;
  }

  /**
   * Takes how many requests were refused since the start. True when there are more than the last time.
   *
   * @param nowMs the shard's time, which an operator can set back
   */
  note(refused: number, bytes: number, nowMs: number): boolean {
    if (refused === this.#seen) return false;
    this.#seen = refused;
    if (Math.abs(nowMs - this.#loggedAtMs) >= INTERVAL_MS) {
      logWarning("shard_full", {
        shard: this.#shard,
        refused: refused - this.#logged,
        bytes,
        bytesMax: this.#bytesMax,
      });
      this.#logged = refused;
      this.#loggedAtMs = nowMs;
    }
    return true;
  }
}
