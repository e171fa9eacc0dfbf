/** When a shard tries to split by itself: not again soon after an attempt that came to nothing. */
import { SPLIT_RETRY_MS_MAX, SPLIT_RETRY_MS_MIN, SPLIT_SIZE_SHARE } from "../../engine/sizes.ts";
import { CIRCLE, endOf, widthOf, type Range } from "../../wire/range.ts";

/** Whether a shard is so large that it splits. */
export function isLarge(bytes: number, bytesMax: number): boolean {
  return bytes > bytesMax * SPLIT_SIZE_SHARE;
}

/**
 * Whether both parts of a range that is split are as wide as one of `SHARDS_MAX` equal parts of the circle: so each shard
 * knows by itself that there are never more than these.
 */
export function isWideEnough(range: Range, at: number, shardsMax: number): boolean {
  const least = CIRCLE / shardsMax;
  return at - range.from >= least && endOf(range) - at >= least;
}

/** Where a range is split that no record gives a reason to split elsewhere. */
export function middleOf(range: Range): number {
  return range.from + Math.ceil(widthOf(range) / 2);
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
