import { expect, it } from "vitest";
import { ClockWatch } from "../../src/objects/shard/clock-watch.ts";

const NOW_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

it("a clock stands still when two seconds have passed at doors and none at the object", () => {
  const watch = new ClockWatch();
  const doorMs = NOW_MS - HOUR_MS;
  expect(watch.isStill(NOW_MS, doorMs)).toBe(false);
  expect(watch.isStill(NOW_MS, doorMs + 1999)).toBe(false);
  expect(watch.isStill(NOW_MS, doorMs + 2000)).toBe(true);
  expect(watch.isStill(NOW_MS, doorMs + 2001)).toBe(false);
});

it("a clock that advances does not stand still, however far ahead of doors it is", () => {
  const watch = new ClockWatch();
  for (let ms = 0; ms < 10_000; ms += 1000) {
    expect(watch.isStill(NOW_MS + ms, NOW_MS - HOUR_MS + ms)).toBe(false);
  }
});

it("doors that are ahead of the object's clock, or send no time, prove nothing", () => {
  const watch = new ClockWatch();
  for (const doorMs of [NOW_MS, NOW_MS + HOUR_MS, undefined, NOW_MS + 2 * HOUR_MS]) {
    expect(watch.isStill(NOW_MS, doorMs)).toBe(false);
  }
});
