/** What a shard that splits does after a start, and how long it waits for other shards. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SPLIT_RESUME_MS, SPLIT_WAIT_MS } from "../../src/engine/sizes.ts";
import { SplitPhase, SplitRows, type SplitUpdate } from "../../src/objects/shard/split-rows.ts";
import { Splitting } from "../../src/objects/shard/splitting.ts";
import type { SplittingHost } from "../../src/objects/shard/splitting-host.ts";
import { initialRange } from "../../src/wire/range.ts";
import { environmentOf } from "../support/pool/other-shard.ts";

const AT = 2 ** 31;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockReturnValue();
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A shard as it starts with a row, and the shards that it calls. */
class Bench {
  readonly written: SplitUpdate[] = [];
  readonly rows: SplitRows;
  readonly splitting: Splitting;
  isFull = false;
  /** Rows that a full disk has refused: each one restarts a shard. */
  refused = 0;

  constructor(
    row: Parameters<SplitRows["load"]>[0],
    others: Parameters<typeof environmentOf>[0] = {},
  ) {
    this.rows = new SplitRows((columns) => {
      if (this.isFull) {
        this.refused++;
        throw new Error("database or disk is full: SQLITE_FULL");
      }
      this.written.push(columns);
    });
    this.rows.load(row);
    const ranges = { shards: 1, range: this.rows.range ?? initialRange(0, 1), begins: [] };
    const host = {
      name: "n/0",
      engine: { advance: () => {}, nowMs: 0, ownership: { copy: null, isForgetting: false } },
      journal: { split: this.rows, placement: { shards: 1, fingerprint: 1 } },
      own: { ranges },
      shardsMax: 1,
      isWanted: () => false,
      noteSplit: async () => {},
      noteGivenUp: async () => {},
      onChange: () => {},
      setAlarm: async () => {},
      listedAtMs: () => -Infinity,
      nowMs: () => Date.now(),
      wait: async (ms: number) => await new Promise((resolve) => setTimeout(resolve, ms)),
      waitUntil: (work: Promise<void>) => void work.catch(() => {}),
      write: (write: () => void) => write(),
    };
    this.splitting = new Splitting(environmentOf(others), host as unknown as SplittingHost);
  }
}

describe("a shard that starts with a split under way", () => {
  const copying = { attempt: 3, split_at: AT, split_phase: SplitPhase.copying };

  it("starts on a full disk where SHARDS_MAX no longer admits the split, and gives it up later", async () => {
    const bench = new Bench(copying);
    bench.isFull = true;
    bench.splitting.resume();
    await vi.advanceTimersByTimeAsync(SPLIT_RESUME_MS - 1);
    expect(bench.refused).toBe(0);
    bench.isFull = false;
    await vi.advanceTimersByTimeAsync(1);
    expect(bench.written).toEqual([{ format: 1, split_at: null, split_phase: null }]);
    expect(bench.splitting.figures).toBeNull();
    expect(bench.splitting.problem).toContain("SHARDS_MAX=1");
  });

  it("serves reads on a full disk before it stores that the other shard knows of its range", async () => {
    const calls: number[][] = [];
    const given = async (...asked: number[]): Promise<boolean> => {
      calls.push(asked);
      return await Promise.resolve(true);
    };
    const row = {
      range_from: 0,
      range_to: AT,
      attempt: 3,
      split_at: AT,
      split_phase: SplitPhase.given,
      born_to: 0,
    };
    const bench = new Bench(row, { given });
    bench.isFull = true;
    bench.splitting.resume();
    await vi.advanceTimersByTimeAsync(SPLIT_RESUME_MS - 1);
    expect(bench.refused).toBe(0);
    bench.isFull = false;
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toEqual([[3, 0]]);
    expect(bench.written).toEqual([{ split_at: null, split_phase: null }]);
  });
});

describe("a shard that was split off, and has split", () => {
  const gone = Uint32Array.of(AT + 2 ** 30).buffer;
  const row = { range_from: AT, range_to: AT + 2 ** 30, attempt: 3, gone, born_to: 0, parent: 0 };

  it("serves reads on a full disk before it tells the shard above, and stores that it has", async () => {
    const bench = new Bench(row, { noteSplit: async () => await Promise.resolve(true) });
    bench.isFull = true;
    bench.splitting.resume();
    await vi.advanceTimersByTimeAsync(SPLIT_RESUME_MS - 1);
    expect(bench.refused).toBe(0);
    bench.isFull = false;
    await vi.advanceTimersByTimeAsync(1);
    expect(bench.written).toEqual([{ hinted: 1 }]);
  });

  it("tells the shard above again where that one does not answer for a minute", async () => {
    let calls = 0;
    const noteSplit = async (): Promise<boolean> =>
      await (++calls === 1 ? new Promise<never>(() => {}) : Promise.resolve(true));
    const bench = new Bench(row, { noteSplit });
    bench.splitting.resume();
    await vi.advanceTimersByTimeAsync(SPLIT_RESUME_MS + SPLIT_WAIT_MS);
    expect(bench.rows.isToHint).toBe(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(calls).toBe(2);
    expect(bench.rows.isToHint).toBe(false);
  });
});
