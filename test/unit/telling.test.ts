/** A shard that tells another one that it has its range. */
import { afterEach, expect, it, vi } from "vitest";
import { SPLIT_WAIT_MS } from "../../src/engine/sizes.ts";
import { Telling } from "../../src/objects/shard/telling.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("a shard that hangs is told again, at last by the alarm, which does not wait for it", async () => {
  vi.useFakeTimers();
  let isHanging = true;
  let isKnown = false;
  const reasons: string[] = [];
  const calls: number[] = [];
  const telling = new Telling({
    engine: { advance: () => {}, nowMs: 0 },
    journal: { split: { attempt: 3, noteActivated: () => {} } },
    given: async (at) => {
      calls.push(at);
      return isHanging ? await new Promise<never>(() => {}) : await Promise.resolve(true);
    },
    write: (write) => write(),
    setAlarm: async () => await Promise.resolve(),
    onUntold: (reason) => void reasons.push(reason),
    onTold: () => (isKnown = true),
    nowMs: () => Date.now(),
    wait: async (ms) => await new Promise((resolve) => setTimeout(resolve, ms)),
    waitUntil: (work) => void work,
  });
  const told = telling.tell(7);
  await vi.advanceTimersByTimeAsync(20 * SPLIT_WAIT_MS);
  await told;
  expect(calls).toEqual([7, 7, 7, 7, 7, 7, 7]);
  expect(new Set(reasons)).toEqual(new Set([`Error: no answer within ${SPLIT_WAIT_MS} ms`]));
  expect(telling.atMs).toBeLessThan(Infinity);
  vi.setSystemTime(telling.atMs);
  telling.runDue(7);
  expect(calls).toHaveLength(8);
  await vi.advanceTimersByTimeAsync(SPLIT_WAIT_MS);
  isHanging = false;
  vi.setSystemTime(telling.atMs);
  telling.runDue(7);
  await vi.advanceTimersByTimeAsync(0);
  expect(isKnown).toBe(true);
  expect(telling.atMs).toBe(Infinity);
});
