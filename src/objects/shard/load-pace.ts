/** How long a shard that has split under load waits before it does so again: longer each time that it has not helped. */

/** Calls have fallen by a split, or have not, when this has passed since. */
const JUDGED_AFTER_MS = 60_000;
/** A split has helped if at most this share of the calls is left. An even split leaves half. */
const HELPED_SHARE = 0.8;
const PAUSE_MS_MIN = 600_000;
const PAUSE_MS_MAX = 86_400_000;

/** Of one instance of a shard. */
export class LoadPace {
  #splitAtMs = -Infinity;
  #callsBefore = 0;
  #isJudged = true;
  #pauseMs = 0;

  /**
   * Whether the shard may split now. To be asked while it is under load.
   *
   * @param nowMs ms since the epoch
   * @param calls a second, now
   */
  mayTry(nowMs: number, calls: number): boolean {
    const sinceMs = nowMs - this.#splitAtMs;
    // A clock that has gone back would make the pause longer.
    if (sinceMs < 0) this.#splitAtMs = nowMs;
    if (sinceMs < JUDGED_AFTER_MS) return false;
    if (!this.#isJudged) this.#judge(calls);
    return sinceMs >= this.#pauseMs;
  }

  /** @param calls a second, before the split */
  noteSplit(nowMs: number, calls: number): void {
    this.#splitAtMs = nowMs;
    this.#callsBefore = calls;
    this.#isJudged = false;
  }

  #judge(calls: number): void {
    this.#isJudged = true;
    const hasHelped = calls <= this.#callsBefore * HELPED_SHARE;
    const longer = Math.min(Math.max(2 * this.#pauseMs, PAUSE_MS_MIN), PAUSE_MS_MAX);
    this.#pauseMs = hasHelped ? 0 : longer;
  }
}
