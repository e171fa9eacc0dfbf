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
  needsRow = false,
  setForNext = async (): Promise<void> => {},
  onSync = (): void => {},
  onProbe = (): void => {},
  storeClock = (): void => {},
  append = (): void => {},
  isCutting = (): boolean => false,
}): {
  time: ShardTime;
  engine: { clockLagMs: number; isClockUnstored: boolean };
  abort: ReturnType<typeof vi.fn<(reason: string) => void>>;
  settled: () => Promise<unknown>;
} {
  const engine = {
    clockLagMs: lagMs,
    isClockUnstored: true,
    needsRow,
    noteClockUnstored: () => void (engine.isClockUnstored = true),
  };
  const abort = vi.fn<(reason: string) => void>();
  const works: Promise<void>[] = [];
  type Host = ConstructorParameters<typeof ShardTime>[0];
  const host = {
    name: "n/0",
    engine,
    journal: {
      storeClock,
      append,
      isCutDue: false,
      get isCutting() {
        return isCutting();
      },
    },
    alarm: { setForNext },
    write: (write: () => void) => write(),
    sync: async () => onSync(),
    probe: async () => {
      onProbe();
      await Promise.reject(new Error("not reached"));
    },
    abort,
    waitUntil: (work: Promise<void>) => void works.push(work),
  };
  const time = new ShardTime(host as unknown as Host);
  return { time, engine, abort, settled: async () => await Promise.all(works) };
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
  let probes = 0;
  const onProbe = (): void => {
    if (++probes === 20) vi.setSystemTime(NOW_MS + 1);
  };
  for (const moving of [{ onSync: () => vi.setSystemTime(NOW_MS + 1) }, { onProbe }]) {
    vi.setSystemTime(NOW_MS);
    const { time, abort, settled } = timeOf(moving);
    meetTwoDoors(time);
    await settled();
    expect(abort).not.toHaveBeenCalled();
  }
  expect(probes).toBe(20);
});

it("a shard whose clock seems to stand still sets the alarm for what it has just stored", async () => {
  const setForNext = vi.fn<() => Promise<void>>(async () => {});
  const { time, settled } = timeOf({
    needsRow: true,
    setForNext,
    onSync: () => vi.setSystemTime(NOW_MS + 1),
  });
  meetTwoDoors(time);
  await settled();
  expect(setForNext).toHaveBeenCalledTimes(1);
});

it("a shard that can't store its time goes on, and tries again after a minute", () => {
  const storeClock = vi.fn<() => void>(() => {
    throw new Error("the disk is full");
  });
  const { time, engine } = timeOf({ storeClock });
  const noteLag = (lagMs: number): void => {
    engine.clockLagMs = lagMs;
    time.note();
  };
  for (let lagMs = 5000; lagMs > 4000; lagMs -= 100) noteLag(lagMs);
  expect(storeClock).toHaveBeenCalledTimes(1);
  expect(engine.isClockUnstored).toBe(true);
  vi.setSystemTime(NOW_MS + 60_000);
  noteLag(3000);
  expect(storeClock).toHaveBeenCalledTimes(2);
});

it("a shard whose clock is right does nothing when it is set back", async () => {
  const append = vi.fn<() => void>();
  const advance = vi.fn<() => void>();
  const { time } = timeOf({ append, isCutting: () => append.mock.calls.length < 3 });
  expect(await time.setBack(advance)).toBe(0);
  expect(append).not.toHaveBeenCalled();
  expect(advance).not.toHaveBeenCalled();
});

it("a shard that ends a cut before its clock is set back sets the alarm, also if the lag is gone then", async () => {
  const setForNext = vi.fn<() => Promise<void>>(async () => {});
  let steps = 0;
  const { time, engine, settled } = timeOf({
    lagMs: 5,
    setForNext,
    append: () => void steps++,
    isCutting: () => steps < 2,
  });
  expect(await time.setBack(() => (engine.clockLagMs = 0))).toBe(0);
  await settled();
  expect(steps).toBe(2);
  expect(setForNext).toHaveBeenCalled();
});

it("a shard that could not store its time tries again after a minute also where the clock has gone back again", () => {
  const storeClock = vi.fn<() => void>(() => {
    throw new Error("the disk is full");
  });
  const { time, engine } = timeOf({ storeClock });
  engine.clockLagMs = 5000;
  time.note();
  expect(storeClock).toHaveBeenCalledTimes(1);
  vi.setSystemTime(NOW_MS - 3_600_000);
  engine.clockLagMs += 3_600_000;
  time.note();
  vi.setSystemTime(NOW_MS - 3_600_000 + 60_000);
  engine.clockLagMs -= 6000;
  time.note();
  expect(storeClock.mock.calls.length).toBeGreaterThan(1);
});
