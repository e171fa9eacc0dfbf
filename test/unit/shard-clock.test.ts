/** The clock of a shard, against a model that takes every millisecond by itself. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ShardClock } from "../../src/engine/shard-clock.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const START_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

/** A stretch of real time, which ends with a step of the platform's clock. */
interface Stretch {
  readonly passesMs: number;
  readonly stepMs: number;
  /** The shard starts again behind the step, from what was stored at the last reading. */
  readonly restarts: boolean;
}

const stretches: fc.Arbitrary<Stretch[]> = fc.array(
  fc.record({
    passesMs: fc.nat(500),
    stepMs: fc.oneof(
      fc.constant(0),
      fc.integer({ min: -300, max: 300 }),
      fc.integer({ min: -7_200_000, max: 7_200_000 }),
    ),
    restarts: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

describe("the clock of a shard", () => {
  it("a shard's clock is the platform's as long as that does not go back", () => {
    const clock = new ShardClock();
    for (const realMs of [START_MS, START_MS, START_MS + 1, START_MS + HOUR_MS]) {
      clock.read(realMs);
      expect(clock).toMatchObject({ nowMs: realMs, realMs, lagMs: 0 });
    }
  });

  it("after a step back a shard's clock runs at nine tenths of the platform's pace until the lag is gone", () => {
    const clock = new ShardClock();
    clock.read(START_MS);
    clock.read(START_MS - 1000);
    expect(clock).toMatchObject({ nowMs: START_MS, lagMs: 1000 });
    clock.read(START_MS);
    expect(clock).toMatchObject({ nowMs: START_MS + 900, lagMs: 900 });
    clock.read(START_MS + 9000);
    expect(clock).toMatchObject({ nowMs: START_MS + 9000, lagMs: 0 });
  });

  it("a shard's clock never goes back, never passes faster than real time, and loses its lag, whatever happens", () => {
    const property = fc.property(stretches, (list) => {
      let clock = new ShardClock();
      let realMs = START_MS;
      clock.read(realMs);
      for (const { passesMs, stepMs, restarts } of list) {
        for (let i = 0; i < passesMs; i++) {
          const before = { nowMs: clock.nowMs, lagMs: clock.lagMs };
          clock.read(++realMs);
          expect(clock.nowMs - before.nowMs).toBeGreaterThanOrEqual(0);
          expect(clock.nowMs - before.nowMs).toBeLessThanOrEqual(1);
          expect(clock.lagMs).toBe(clock.nowMs - realMs);
          expect(clock.lagMs).toBeLessThanOrEqual(before.lagMs);
        }
        const { nowMs, lagMs } = clock;
        const storedMs = realMs;
        realMs += stepMs;
        if (restarts) {
          clock = new ShardClock();
          clock.read(realMs);
          clock.restore(nowMs, storedMs);
        } else {
          clock.read(realMs);
        }
        const followsMs = Math.max(0, stepMs);
        expect(clock.nowMs).toBeGreaterThanOrEqual(nowMs);
        expect(clock.nowMs).toBeLessThanOrEqual(nowMs + followsMs);
        // Without a lag a step forwards is followed at once.
        if (lagMs === 0 && stepMs > 0) expect(clock.nowMs).toBe(realMs);
      }
      clock.read(realMs + 11 * clock.lagMs + 10);
      expect(clock.lagMs).toBe(0);
    });
    fc.assert(property, { seed, numRuns: runs(60) });
  });

  it("a shard's clock passes at the same pace however often it is read", () => {
    const property = fc.property(
      fc.nat(100_000),
      fc.array(fc.nat(2000), { maxLength: 50 }),
      (lagMs, gaps) => {
        const [often, once] = [new ShardClock(), new ShardClock()];
        for (const clock of [often, once]) {
          clock.read(START_MS + lagMs);
          clock.read(START_MS);
        }
        let realMs = START_MS;
        for (const gap of gaps) often.read((realMs += gap));
        once.read(realMs);
        expect([often.nowMs, often.lagMs]).toEqual([once.nowMs, once.lagMs]);
      },
    );
    fc.assert(property, { seed, numRuns: runs(200) });
  });

  it("a shard's clock knows to the millisecond when it will reach a time", () => {
    const property = fc.property(
      fc.nat(2000),
      fc.nat(1500),
      fc.integer({ min: 1, max: 30_000 }),
      (lagMs, passedMs, aheadMs) => {
        const clock = new ShardClock();
        clock.read(START_MS + lagMs);
        clock.read(START_MS);
        clock.read(START_MS + passedMs);
        const targetMs = clock.nowMs + aheadMs;
        const reachedMs = targetMs - clock.lagWhen(targetMs);
        const at = (realMs: number): number => realMs + clock.lagAtReading(realMs);
        expect(at(reachedMs)).toBeGreaterThanOrEqual(targetMs);
        expect(at(reachedMs - 1)).toBeLessThan(targetMs);
        clock.read(reachedMs);
        expect(clock.nowMs).toBe(targetMs);
      },
    );
    fc.assert(property, { seed, numRuns: runs(1000) });
  });

  it("a shard's clock goes on from the stored time, though the platform's clock is behind it", () => {
    const clock = new ShardClock();
    clock.read(START_MS);
    clock.restore(START_MS + 2 * HOUR_MS, START_MS + 2 * HOUR_MS);
    expect(clock).toMatchObject({ nowMs: START_MS + 2 * HOUR_MS, lagMs: 2 * HOUR_MS });
    clock.read(START_MS + 10_000);
    expect(clock.nowMs).toBe(START_MS + 2 * HOUR_MS + 9000);
  });

  it("a stored lag shrinks by the real time that has passed since", () => {
    const clock = new ShardClock();
    clock.read(START_MS + HOUR_MS);
    clock.restore(START_MS + 2 * HOUR_MS, START_MS);
    expect(clock.lagMs).toBe(2 * HOUR_MS - HOUR_MS / 10);
  });

  it("a shard's clock is the platform's again when it is set back", () => {
    const clock = new ShardClock();
    clock.read(START_MS + HOUR_MS);
    clock.read(START_MS);
    clock.setBack();
    expect(clock).toMatchObject({ nowMs: START_MS, lagMs: 0 });
    clock.read(START_MS + 5);
    expect(clock).toMatchObject({ nowMs: START_MS + 5, lagMs: 0 });
  });
});
