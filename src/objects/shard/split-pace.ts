/** When a shard tries to split by itself: not again soon after an attempt that came to nothing. */
import { SPLIT_RETRY_MS_MAX, SPLIT_RETRY_MS_MIN } from "../../engine/sizes.ts";
import { CIRCLE, widthOf, type Range } from "../../wire/range.ts";

/** Of `SHARD_BYTES_MAX`: a shard with more splits, so that there is time before it is full. */
const SIZE_SHARE = 0.6;

/** Whether a shard is so large that it splits. */
export function isLarge(bytes: number, bytesMax: number): boolean {
  return bytes > bytesMax * SIZE_SHARE;
}

/** Whether a range may be split: each shard knows by itself that there are not too many. */
export function isWideEnough(range: Range, shardsMax: number): boolean {
  return widthOf(range) >= (2 * CIRCLE) / shardsMax;
}

/** Of one shard. */
export class SplitPace {
  #pauseMs = 0;
  #notBeforeMs = -Infinity;

  /** @param nowMs ms since the epoch, which may go back */
  mayTry(nowMs: number): boolean {
    const waitMs = this.#notBeforeMs - nowMs;
    return waitMs <= 0 || waitMs > this.#pauseMs;
  }

  /** An attempt begins: unless it succeeds, the next one comes after a pause, twice as long each time. */
  noteAttempt(nowMs: number): void {
    const doubled = Math.max(2 * this.#pauseMs, SPLIT_RETRY_MS_MIN);
    this.#pauseMs = Math.min(doubled, SPLIT_RETRY_MS_MAX);
    this.#notBeforeMs = nowMs + this.#pauseMs;
  }

  noteSuccess(): void {
    this.#pauseMs = 0;
    this.#notBeforeMs = -Infinity;
  }
}
