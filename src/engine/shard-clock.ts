/**
 * The clock of a shard: makes the shard's time of readings of the platform's clock.
 *
 * Shard time never goes back, as what has expired must stay so. The platform's clock may: it was ahead and was
 * set right, or the shard starts again on another machine. From then on shard time is ahead by a lag. It
 * goes on from where it was, at nine tenths of the platform's pace, until the lag is gone. While there is no
 * lag, which is the normal case, shard time is the platform's.
 *
 * A clock that goes forwards is followed at once: whether it is right can't be known. Pure: readings are
 * arguments, in whole milliseconds since the epoch.
 */

/** Of so many milliseconds that pass while there is a lag, shard time leaves out one. */
const SLEW = 10;

export class ShardClock {
  /** Shard time as of the last reading. */
  nowMs = 0;
  /** By how much shard time is ahead of the last reading. */
  lagMs = 0;
  /** The last reading, or the one that the time was stored with. */
  realMs = 0;
  /** The clock has gone back since the time was stored: what is stored would stand still through a restart. */
  isUnstored = false;
  /** The last reading that was taken; null before the first. */
  #readMs: number | null = null;
  /** Where the present stretch begins, in which the platform's clock has not gone back. */
  #startMs = 0;
  #lagAtStartMs = 0;

  /** Takes a reading of the platform's clock. No time has passed since one that was later. */
  read(realMs: number): void {
    if (realMs < this.realMs) {
      this.#begin(this.nowMs, realMs);
      this.isUnstored = true;
    }
    this.#readMs = realMs;
    this.#go(realMs);
  }

  /**
   * Goes on from a time that was stored with the reading that it was made of. A reading that was taken
   * before, after a start, counts as later.
   */
  restore(nowMs: number, realMs: number): void {
    this.#begin(nowMs, realMs);
    this.#go(realMs);
    this.isUnstored = false;
    if (this.#readMs !== null) this.read(this.#readMs);
  }

  /** Forgets the lag: shard time goes back to the platform's, and what is kept by it must go back as far. */
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
