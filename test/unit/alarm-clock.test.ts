import { expect, it } from "vitest";
import { AlarmClock } from "../../src/base/alarm-clock.ts";

const START_MS = 1_000_000;
const YEAR_MS = 365 * 86_400_000;

/** A host whose time moves only when a test says so. */
class Host {
  ms = START_MS;
  deadlineMs = Infinity;
  stored: number | null = null;
  sets: number[] = [];
  readonly #waits: { untilMs: number; resolve: () => void }[] = [];

  readonly storage = {
    getAlarm: async () => this.stored,
    setAlarm: async (atMs: number) => {
      this.stored = atMs;
      this.sets.push(atMs);
    },
  };
  findDeadlineMs = (): number => this.deadlineMs;
  nowMs = (): number => this.ms;
  wait = async (ms: number): Promise<void> =>
    await new Promise((resolve) => this.#waits.push({ untilMs: this.ms + ms, resolve }));
  waitUntil = (): void => {};

  async pass(ms: number): Promise<void> {
    this.ms += ms;
    for (const { untilMs, resolve } of this.#waits) if (untilMs <= this.ms) resolve();
    for (let i = 0; i < 10; i++) await Promise.resolve();
  }
}

async function loaded(): Promise<{ host: Host; alarm: AlarmClock }> {
  const host = new Host();
  const alarm = new AlarmClock(host);
  await alarm.load();
  return { host, alarm };
}

it("an alarm clock asks storage for the alarm before setFor returns, so that it is committed with the row before it", async () => {
  const { host, alarm } = await loaded();
  void alarm.setFor(START_MS + 5000);
  expect(host.sets).toEqual([START_MS + 5000]);
});

it("an alarm clock sets no alarm for a moment behind the one that is set", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(START_MS + 5000);
  await alarm.setFor(START_MS + 6000);
  await alarm.setFor(Infinity);
  expect(host.sets).toEqual([START_MS + 5000]);
  expect(alarm.timesSet).toBe(1);
});

it("an alarm clock sets an earlier alarm once a second at most, for what is due by then", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(START_MS + 50_000);
  for (const deadlineMs of [40_000, 30_000, 20_000]) {
    host.deadlineMs = START_MS + deadlineMs;
    await alarm.setFor(host.deadlineMs);
  }
  await host.pass(999);
  expect(host.sets).toEqual([START_MS + 50_000]);
  await host.pass(1);
  expect(host.sets).toEqual([START_MS + 50_000, START_MS + 20_000]);
});

it("an alarm clock waits a second at most when the clock has gone back by an hour", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(START_MS + 50_000);
  host.ms -= 3_600_000;
  host.deadlineMs = host.ms + 20_000;
  await alarm.setFor(host.deadlineMs);
  await host.pass(1000);
  expect(host.sets.at(-1)).toBe(host.deadlineMs);
});

it("an alarm clock sets alarms between a second and a year from now", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(2 ** 64);
  expect(host.stored).toBe(START_MS + YEAR_MS);
  await host.pass(2000);
  await alarm.setFor(0);
  expect(host.stored).toBe(host.ms + 1000);
});

it("an alarm clock sets the next alarm at once after one has rung", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(START_MS + 5000);
  alarm.noteRing();
  host.deadlineMs = START_MS + 9000;
  await alarm.setForNext();
  expect(host.sets).toEqual([START_MS + 5000, START_MS + 9000]);
});

it("an alarm clock that resumes without an alarm sets one after a second, unless one has rung", async () => {
  for (const hasRung of [false, true]) {
    const host = new Host();
    host.deadlineMs = START_MS + 7000;
    const alarm = new AlarmClock(host);
    await alarm.resume();
    if (hasRung) alarm.noteRing();
    expect(host.sets).toEqual([]);
    await host.pass(1000);
    expect(host.sets).toEqual(hasRung ? [] : [START_MS + 7000]);
  }
});

it("an alarm clock that resumes with an alarm sets it for what is due earlier", async () => {
  const host = new Host();
  host.stored = START_MS + 9000;
  host.deadlineMs = START_MS + 7000;
  await new AlarmClock(host).resume();
  expect(host.sets).toEqual([START_MS + 7000]);
});
