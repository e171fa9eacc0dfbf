/** What a shard does when its clock stands still, or is behind its records. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ShardTime } from "../../src/objects/shard/shard-time.ts";

const NOW_MS = 1_700_000_000_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW_MS });
  vi.spyOn(console, "warn").mockReturnValue();
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function timeOf({
  lagMs = 0,
  onSync = (): void => {},
  storeClock = (): void => {},
  cutWithoutCommit = (): void => {},
}): {
  time: ShardTime;
  abort: ReturnType<typeof vi.fn<(reason: string) => void>>;
  settled: () => Promise<unknown>;
} {
  const abort = vi.fn<(reason: string) => void>();
  const works: Promise<void>[] = [];
  type Host = ConstructorParameters<typeof ShardTime>[0];
  const host = {
    name: "n/0",
    engine: { clockLagMs: lagMs, isClockUnstored: true, isDirty: false },
    journal: { storeClock, cutWithoutCommit },
    alarm: { setForNext: async () => {} },
    write: (write: () => void) => write(),
    sync: async () => onSync(),
    abort,
    waitUntil: (work: Promise<void>) => void works.push(work),
  };
  const time = new ShardTime(host as unknown as Host);
  return { time, abort, settled: async () => await Promise.all(works) };
}

/** Calls of two doors, whose times are three seconds apart, in one moment of the shard. */
function meetTwoDoors(time: ShardTime): void {
  time.noteCall(NOW_MS, NOW_MS - 5000);
  time.noteCall(NOW_MS, NOW_MS - 2000);
}

it("a shard whose clock stands still ends", async () => {
  const { time, abort, settled } = timeOf({});
  meetTwoDoors(time);
  await settled();
  expect(abort).toHaveBeenCalledTimes(1);
});

it("a shard whose clock goes on, and that has served calls late, does not end", async () => {
  const { time, abort, settled } = timeOf({ onSync: () => vi.setSystemTime(NOW_MS + 1) });
  meetTwoDoors(time);
  await settled();
  expect(abort).not.toHaveBeenCalled();
});

it("a shard that can't store its time goes on", () => {
  const { time } = timeOf({
    lagMs: 5000,
    storeClock: () => {
      throw new Error("the disk is full");
    },
  });
  expect(() => time.note()).not.toThrow();
});

it("a cut of the journal that fails behind the time of a shard is not passed over: half of it may be written", () => {
  const { time } = timeOf({
    lagMs: 5000,
    cutWithoutCommit: () => {
      throw new Error("the disk is full");
    },
  });
  expect(() => time.note()).toThrow("the disk is full");
});
