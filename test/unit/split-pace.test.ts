/** When a shard splits by itself. */
import { describe, expect, it } from "vitest";
import { SPLIT_RETRY_MS_MAX, SPLIT_RETRY_MS_MIN } from "../../src/engine/sizes.ts";
import { isLarge, isWideEnough, middleOf, SplitPace } from "../../src/objects/shard/split-pace.ts";
import { CIRCLE, WHOLE } from "../../src/wire/range.ts";

describe("when a shard splits by itself", () => {
  it("a shard above 60 percent of its memory is large", () => {
    expect(isLarge(600, 1000)).toBe(false);
    expect(isLarge(601, 1000)).toBe(true);
  });

  it("no split makes a range narrower than one of SHARDS_MAX equal parts of the circle", () => {
    const half = CIRCLE / 2;
    expect(isWideEnough(WHOLE, half, 1)).toBe(false);
    expect(isWideEnough(WHOLE, half, 2)).toBe(true);
    expect([half - 1, half + 1].map((at) => isWideEnough(WHOLE, at, 2))).toEqual([false, false]);
    const eighth = { from: CIRCLE / 4, to: (CIRCLE * 3) / 8 };
    expect(isWideEnough(eighth, middleOf(eighth), 15)).toBe(false);
    expect(isWideEnough(eighth, middleOf(eighth), 16)).toBe(true);
    expect(isWideEnough(eighth, eighth.from + CIRCLE / 32, 32)).toBe(true);
    expect(isWideEnough(eighth, eighth.from + CIRCLE / 32 - 1, 32)).toBe(false);
  });

  it("each attempt in vain doubles the pause before the next one, up to an hour", () => {
    const pace = new SplitPace();
    let nowMs = 1000;
    for (let pauseMs = SPLIT_RETRY_MS_MIN; pauseMs < 4 * SPLIT_RETRY_MS_MAX; pauseMs *= 2) {
      expect(pace.mayTry(nowMs)).toBe(true);
      pace.noteAttempt(nowMs);
      const expectedMs = Math.min(pauseMs, SPLIT_RETRY_MS_MAX);
      expect(pace.mayTry(nowMs + expectedMs - 1)).toBe(false);
      nowMs += expectedMs;
    }
  });

  it("a split that succeeded ends the pause, and so does a clock that went back", () => {
    const pace = new SplitPace();
    pace.noteAttempt(1_000_000);
    expect(pace.mayTry(1_000_001)).toBe(false);
    expect(pace.mayTry(1_000_000 - 1)).toBe(true);
    pace.noteSuccess();
    expect(pace.mayTry(1_000_001)).toBe(true);
  });
});
