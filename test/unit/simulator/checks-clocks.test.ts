/** What checkers believe of clocks of shards that have split, compared with such shards. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ShardClock } from "../../../src/engine/shard-clock.ts";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { runs } from "../../support/runs.ts";

const FIRST = "Shard default/0";

/** A shard, and by how much its machine's clock is ahead of true time. */
interface Shard {
  readonly name: string;
  clock: ShardClock;
  offsetMs: number;
}

/** The first shard of a namespace and those that splits make of it, at a true time that passes. */
class Splits {
  readonly history = new ClockHistory();
  readonly shards: Shard[] = [];
  nowMs = 1_000_000;

  constructor() {
    this.#start({ name: FIRST, clock: new ShardClock(), offsetMs: 0 });
  }

  /** A shard reads the clock of its machine, which may have been set: so does one that starts again on another machine. */
  set(shard: Shard, offsetMs: number): void {
    this.history.set(shard.name, this.nowMs, offsetMs);
    shard.offsetMs = offsetMs;
    this.read(shard);
  }

  /** @returns the time of the shard */
  read(shard: Shard): ShardClock {
    shard.clock.read(this.nowMs + shard.offsetMs);
    return shard.clock;
  }

  /** A new shard takes over the time of another one. */
  split(parent: Shard, offsetMs: number): void {
    const child = {
      name: `Shard default/${this.shards.length}`,
      clock: new ShardClock(),
      offsetMs,
    };
    this.history.addMember(FIRST, child.name);
    this.#start(child);
    const { nowMs, realMs } = this.read(parent);
    child.clock.restore(nowMs, realMs);
  }

  #start(shard: Shard): void {
    this.history.set(shard.name, this.nowMs, shard.offsetMs);
    this.history.start(shard.name, this.nowMs);
    this.shards.push(shard);
    this.read(shard);
  }
}

const steps = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 1, max: 50_000 }),
    shard: fc.nat(100),
    offsetMs: fc.integer({ min: -60_000, max: 60_000 }),
    isSplit: fc.boolean(),
  }),
  { maxLength: 30 },
);

describe("the clocks of shards that have split", () => {
  it("are ahead by what each of them was set forwards, one after the other", () => {
    const splits = new Splits();
    for (let i = 0; i < 2; i++) {
      splits.nowMs++;
      splits.set(splits.shards[i]!, 50_000);
      splits.nowMs++;
      splits.split(splits.shards[i]!, 0);
    }
    const { nowMs, history, shards } = splits;
    expect(splits.read(shards[2]!).lagMs).toBe(95_000);
    expect(history.lagMost(FIRST, nowMs, nowMs)).toBeGreaterThanOrEqual(95_000);
    expect(history.spanOf(FIRST, nowMs, nowMs).toMs).toBeGreaterThanOrEqual(nowMs + 95_000);
  });

  it("never show a time, a lag or a duration beyond what checkers take for possible", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const splits = new Splits();
        const { history, shards } = splits;
        let holder = shards[0]!;
        const seen: { atMs: number; timeMs: number }[] = [];
        for (const { afterMs, shard, offsetMs, isSplit } of all) {
          splits.nowMs += afterMs;
          const one = shards[shard % shards.length]!;
          if (isSplit) splits.split(one, offsetMs);
          else splits.set(one, offsetMs);
          // The time of a record is that of the shard that has it, and it moves with the upper half.
          if (isSplit && one === holder) holder = shards.at(-1)!;
          const { nowMs: timeMs, lagMs } = splits.read(holder);
          seen.push({ atMs: splits.nowMs, timeMs });
          const end = { fromMs: splits.nowMs, toMs: splits.nowMs };
          expect(timeMs).toBeLessThanOrEqual(history.spanOf(FIRST, end.fromMs, end.toMs).toMs);
          expect(lagMs).toBeLessThanOrEqual(history.lagMost(FIRST, end.fromMs, end.toMs));
          for (const before of seen) {
            const begin = { fromMs: before.atMs, toMs: before.atMs };
            const { toMs } = history.elapsed(FIRST, begin, end);
            expect(timeMs - before.timeMs).toBeLessThanOrEqual(toMs);
          }
        }
      }),
      { numRuns: runs(200) },
    );
  });
});
