/**
 * The clock of a shard: turns readings of the platform's clock into the shard's time.
 *
 * Shard time never goes back, because an expired record must stay expired. The platform's clock may go back: it was
 * ahead and was corrected, or the shard starts again on another machine. From then on shard time is ahead by a lag. It
 * continues at nine tenths of the platform's pace until the lag is gone. Without a lag, the normal case, shard time is
 * the platform's.
 *
 * A jump forwards is followed at once: the shard can't know whether it is right. Pure: readings are
 * arguments, in whole milliseconds since the epoch.
 */

/** While there is a lag, shard time leaves out one of this many milliseconds. */
const SLEW = 10;

export class ShardClock {
  /** Shard time as of the last reading. */
  nowMs = 0;
  /** By how much shard time is ahead of the last reading. */
  lagMs = 0;
  /** The last reading, or the reading that was stored with the time. */
  realMs = 0;
  /** The clock has gone back since the time was stored: a restart would begin at the stored time again. */
  isUnstored = false;
  /** The last reading that was taken; null before the first. */
  #readMs: number | null = null;
  /** The reading since which the platform's clock has not gone back. */
  #startMs = 0;
  #lagAtStartMs = 0;

  /** Takes a reading of the platform's clock. If it is before the last one, no time has passed. */
  read(realMs: number): void {
    if (realMs < this.realMs) {
      this.#begin(this.nowMs, realMs);
      this.isUnstored = true;
    }
    this.#readMs = realMs;
    this.#go(realMs);
  }

  /**
   * Continues from a stored time and the reading that it was made of. A reading of this instance, taken
   * before it restored, counts as later.
   */
  restore(nowMs: number, realMs: number): void {
    this.#begin(nowMs, realMs);
    this.#go(realMs);
    this.isUnstored = false;
    if (this.#readMs !== null) this.read(this.#readMs);
  }

  /** Drops the lag: shard time goes back to the platform's. All stored times must be set back as far. */
  setBack(): void {
    this.#begin(this.realMs, this.realMs);
    this.#go(this.realMs);
  }

  /** By how much shard time will be ahead when it reaches a time, if the platform's clock does not go back. */
  lagWhen(shardMs: number): number {
    if (shardMs <= this.nowMs) return this.lagMs;
    const passedMs = shardMs - this.#startMs - this.#lagAtStartMs;
    return Math.max(0, this.#lagAtStartMs - Math.floor((passedMs - 1) / (SLEW - 1)));
  }

  /** By how much shard time will be ahead at a later reading. */
  lagAtReading(realMs: number): number {
    return realMs <= this.realMs ? this.lagMs : this.#lagAt(realMs);
  }

  #go(realMs: number): void {
    this.realMs = realMs;
    this.lagMs = this.#lagAt(realMs);
    this.nowMs = realMs + this.lagMs;
  }

  #lagAt(realMs: number): number {
    return Math.max(0, this.#lagAtStartMs - Math.floor((realMs - this.#startMs) / SLEW));
  }

  #begin(nowMs: number, realMs: number): void {
    this.#startMs = realMs;
    this.#lagAtStartMs = nowMs - realMs;
  }
}
