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

it("an alarm clock that was set while an earlier alarm waited for its second waits another second", async () => {
  const { host, alarm } = await loaded();
  await alarm.setFor(START_MS + 50_000);
  await alarm.setFor(START_MS + 40_000);
  // The second is over, and the timer has not come yet.
  host.ms += 1000;
  host.deadlineMs = START_MS + 30_000;
  await alarm.setForNext();
  await host.pass(1);
  host.deadlineMs = START_MS + 20_000;
  await alarm.setForNext();
  expect(host.sets).toEqual([START_MS + 50_000, START_MS + 30_000]);
  await host.pass(1000);
  expect(host.sets.at(-1)).toBe(START_MS + 20_000);
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
  await host.pass(5000);
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

/** Lets the platform ring for a while, by its own clock. @returns when it has rung */
async function rings(
  host: Host,
  alarm: AlarmClock,
  options: { aheadMs: number; forMs: number },
): Promise<number[]> {
  const rung: number[] = [];
  for (const endMs = host.ms + options.forMs; host.ms < endMs; await host.pass(5)) {
    if (host.stored === null || host.stored > host.ms + options.aheadMs) continue;
    host.stored = null;
    alarm.noteRing();
    rung.push(host.ms);
    if (host.deadlineMs <= host.ms) host.deadlineMs = Infinity;
    await alarm.setForNext();
  }
  return rung;
}

it("an alarm clock that is a minute behind the platform's clock is rung a few times until something is due, not all the time", async () => {
  const { host, alarm } = await loaded();
  host.deadlineMs = START_MS + 30_000;
  await alarm.setForNext();
  const rung = await rings(host, alarm, { aheadMs: 60_000, forMs: 60_000 });
  expect(rung.length).toBeLessThan(10);
  expect(rung.at(-1)).toBeGreaterThanOrEqual(START_MS + 30_000);
  expect(rung.at(-1)).toBeLessThan(START_MS + 35_000);
});

it("an alarm clock is on time again once it is no longer behind the platform's clock", async () => {
  const { host, alarm } = await loaded();
  for (const aheadMs of [60_000, 0, 0]) {
    host.deadlineMs = host.ms + 30_000;
    await alarm.setForNext();
    await rings(host, alarm, { aheadMs, forMs: 120_000 });
  }
  const dueMs = (host.deadlineMs = host.ms + 5000);
  await alarm.setForNext();
  expect(host.stored).toBe(dueMs);
});

it("an alarm clock that rings without reason sets one alarm, for a second later", async () => {
  const { host, alarm } = await loaded();
  host.deadlineMs = START_MS + 3_600_000;
  await alarm.setForNext();
  for (let i = 0; i < 3; i++) {
    await host.pass(1200);
    alarm.noteRing();
    await alarm.setForNext();
  }
  await host.pass(100);
  alarm.noteRing();
  await alarm.setForNext();
  expect(host.sets.map((atMs) => atMs - host.deadlineMs)).toEqual([0, 0, 0, 0, 1000]);
});
