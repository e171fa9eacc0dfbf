/** The last hour: reports of objects that keep their own clocks, added up minute by minute. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { History, HISTORY_MINUTES } from "../../src/engine/history.ts";
import { LimitFigures } from "../../src/engine/limit-figures.ts";
import {
  MinuteReporter,
  NO_SUMS,
  type MinuteReport,
  type Sums,
} from "../../src/engine/minute-report.ts";
import { Tally, TALLY_READ_BYTES } from "../../src/engine/tally.ts";
import { RequestType } from "../../src/wire/throttr/requests.ts";
import { batchIn, bytesOf, configurationBytes, EDGE, limit } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const MINUTE_MS = 60_000;
/** The beginning of a minute. */
const START_MS = 28_333_333 * MINUTE_MS;
const at = (minute: number, ms = 0): number => START_MS + minute * MINUTE_MS + ms;

/** An object that counts requests of one type. */
class Counting {
  readonly tally = new Tally();
  readonly reporter = new MinuteReporter(this.tally, null);

  constructor(sinceMs = START_MS) {
    this.reporter.begin(sinceMs, 0);
  }

  count(nowMs: number, times = 1): MinuteReport | null {
    this.tally.turn(nowMs);
    this.tally.totals[RequestType.get]! += times;
    return this.reporter.take();
  }
}

const sumsOf = (requests: number): Sums => [requests, 0, 0, 0, 0, 0];
const reportOf = (minute: number, requests: number, base = 0): MinuteReport => ({
  sinceMs: START_MS,
  base: sumsOf(base),
  minutes: [{ atMs: at(minute), sums: sumsOf(requests), limits: [] }],
});
const requestsOf = (history: History, nowMs: number): [number, number][] =>
  history.list(nowMs).map(({ atMs, requests }) => [(atMs - START_MS) / MINUTE_MS, requests]);

/** An engine that counts, and what reports its counts. */
function reportingEngine(): { engine: Engine; reporter: MinuteReporter } {
  const engine = new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 20, isCounting: true });
  const reporter = engine.newReporter()!;
  reporter.begin(START_MS, 0);
  return { engine, reporter };
}

describe("the report of a minute", () => {
  it("a report has the rest of the minute before, and this minute up to its first request", () => {
    const object = new Counting();
    expect(object.count(at(1, 10_000))).toMatchObject({
      minutes: [{ atMs: at(1), sums: sumsOf(1) }],
    });
    for (let i = 0; i < 5; i++) expect(object.count(at(1, 20_000))).toBeNull();
    expect(object.count(at(2, 1))).toMatchObject({
      base: sumsOf(1),
      minutes: [
        { atMs: at(1), sums: sumsOf(6) },
        { atMs: at(2), sums: sumsOf(7) },
      ],
    });
  });

  it("an object that is only looked at reports what it counted before, to its minute, and then nothing", () => {
    const object = new Counting();
    object.count(at(1));
    object.count(at(1, 59_999), 2);
    // A data point has looked at it in between.
    object.tally.turn(at(3));
    object.tally.turn(at(5));
    expect(object.reporter.take()).toMatchObject({ minutes: [{ atMs: at(1), sums: sumsOf(3) }] });
    object.tally.turn(at(6));
    expect(object.reporter.take()).toBeNull();
  });

  it("an object that slept reports what was restored to the minute in which it was counted", () => {
    const tally = new Tally();
    tally.add(RequestType.get, 20, 0);
    const reporter = new MinuteReporter(tally, null);
    reporter.begin(START_MS, at(3, 30_000));
    tally.turn(at(3, 50_000));
    expect(reporter.take()).toBeNull();
    tally.turn(at(9));
    tally.totals[RequestType.get]!++;
    expect(reporter.take()).toMatchObject({
      base: sumsOf(20),
      minutes: [
        { atMs: at(3), sums: sumsOf(20) },
        { atMs: at(9), sums: sumsOf(21) },
      ],
    });
  });

  it("the last report has what came since the one of this minute", () => {
    const object = new Counting();
    object.count(at(1));
    expect(object.reporter.take(true)).toBeNull();
    object.count(at(1, 5), 3);
    expect(object.reporter.take(true)).toMatchObject({
      base: sumsOf(1),
      minutes: [{ atMs: at(1), sums: sumsOf(4) }],
    });
  });

  it("reports have requests, bytes and decisions of an engine, by limiter", () => {
    const { engine, reporter } = reportingEngine();
    const strategy = configurationBytes({ strategy: "token_bucket", burst: 2, rate: 0.001 });
    const decide = (name: string, nowMs: number): void => {
      const frames = [limit(`${name}:ada`, strategy, 1)];
      engine.apply(batchIn([{ protocol: EDGE, frames }]), nowMs);
    };
    decide("api", at(1));
    reporter.take();
    for (let i = 0; i < 3; i++) decide("api", at(1, 1));
    decide("login", at(2));
    const { minutes } = reporter.take()!;
    expect(minutes.map(({ limits }) => limits)).toEqual([[["api", 1, 2, 0]], [["login", 1, 0, 0]]]);
    expect(minutes.map(({ sums }) => sums.slice(3))).toEqual([
      [2, 2, 0],
      [3, 2, 0],
    ]);
    expect(minutes[1]!.sums[0]).toBe(5);
    expect(minutes[1]!.sums[1]).toBe(engine.tallyFigures(at(2))[TALLY_READ_BYTES]);
    expect(minutes[1]!.sums[2]).toBeGreaterThan(0);
  });

  it("a report of an engine that is only looked at has decisions in the minute in which they were made", () => {
    const { engine, reporter } = reportingEngine();
    const strategy = configurationBytes({ strategy: "token_bucket", burst: 9, rate: 0.001 });
    const history = new History();
    for (let i = 0; i < 3; i++) {
      const frames = [limit("api:ada", strategy, 1)];
      engine.apply(batchIn([{ protocol: EDGE, frames }]), at(1, i));
      const report = reporter.take();
      if (report !== null) history.add("a", report, at(1, i));
    }
    engine.tallyFigures(at(3));
    history.add("a", reporter.takeAnyway(), at(3));
    const decided = history.list(at(5)).map(({ atMs, limits }) => [atMs, limits.allowed]);
    expect(decided).toEqual([[at(1), 3]]);
  });

  it("each report of a minute has what limiters decided since the one before it, however many there are", () => {
    const limits = new LimitFigures({ low: 1, high: 2 });
    const tally = new Tally();
    const reporter = new MinuteReporter(tally, limits);
    reporter.begin(START_MS, 0);
    const decide = (times: number): void =>
      limits.countDecisions(true, times, 1, bytesOf("api:ada"), 0, 7);
    const history = new History();
    for (const [minute, all] of [
      [1, [1, 5, 2]],
      [2, [4, 3]],
    ] as const) {
      tally.turn(at(minute));
      limits.turn(at(minute));
      for (const times of all) {
        decide(times);
        history.add("a", reporter.takeAnyway(), at(minute));
      }
    }
    const allowed = history
      .list(at(3))
      .map(({ limits, byLimit }) => [limits.allowed, byLimit["api"]!.allowed]);
    expect(allowed).toEqual([
      [8, 8],
      [7, 7],
    ]);
  });
});

describe("the last hour", () => {
  it("the last hour has whole minutes alone, oldest first, and none without requests", () => {
    const history = new History();
    history.add("a", reportOf(3, 7), at(3, 10));
    expect(requestsOf(history, at(3, 59_999))).toEqual([]);
    expect(requestsOf(history, at(4))).toEqual([[3, 7]]);
    history.add("b", reportOf(1, 2), at(4));
    expect(requestsOf(history, at(4))).toEqual([
      [1, 2],
      [3, 7],
    ]);
  });

  it("late reports join their minute, until it is more than an hour ago", () => {
    const history = new History();
    history.add("a", reportOf(0, 1), at(0));
    history.add("b", reportOf(0, 2), at(HISTORY_MINUTES));
    expect(requestsOf(history, at(HISTORY_MINUTES))).toEqual([[0, 3]]);
    expect(requestsOf(history, at(HISTORY_MINUTES + 1))).toEqual([]);
    history.add("c", reportOf(0, 4), at(HISTORY_MINUTES + 1));
    expect(history.stored.minutes).toEqual([]);
  });

  it("a report that comes twice adds nothing, and the next one makes good one that was lost", () => {
    const history = new History();
    history.add("a", reportOf(1, 5), at(1));
    history.add("a", reportOf(1, 5), at(1));
    expect(requestsOf(history, at(2))).toEqual([[1, 5]]);
    // That of minute 2, with 8 requests, was lost.
    history.add("a", reportOf(3, 10, 8), at(3));
    expect(requestsOf(history, at(4))).toEqual([
      [1, 5],
      [3, 5],
    ]);
  });

  it("an object that is not known adds what came since its base, not its totals of years", () => {
    const history = new History();
    history.add("a", reportOf(1, 1_000_007, 1_000_000), at(1));
    expect(requestsOf(history, at(2))).toEqual([[1, 7]]);
  });

  it("an object that lost its last counts adds what comes from then on, and takes nothing off", () => {
    const history = new History();
    history.add("a", reportOf(1, 100), at(1));
    history.add("a", reportOf(2, 90, 90), at(2));
    history.add("a", reportOf(3, 92, 90), at(3));
    expect(requestsOf(history, at(4))).toEqual([
      [1, 100],
      [3, 2],
    ]);
  });

  it("an object that counts anew, since another time, begins at its base", () => {
    const history = new History();
    history.add("a", reportOf(1, 100), at(1));
    history.add("a", { ...reportOf(2, 120), sinceMs: at(2) }, at(2));
    expect(requestsOf(history, at(3))).toEqual([
      [1, 100],
      [2, 120],
    ]);
  });

  it("a minute that has not begun yet, by a clock that is ahead, is taken for the present one", () => {
    const history = new History();
    history.add("ahead", reportOf(9, 4), at(5));
    history.add("right", reportOf(5, 1), at(5));
    expect(requestsOf(history, at(6))).toEqual([[5, 5]]);
  });

  it("minutes that are in the future after the clock went back are dropped, and what comes is kept", () => {
    const history = new History();
    history.add("a", reportOf(30, 3), at(30));
    history.add("a", reportOf(10, 4, 3), at(10));
    expect(requestsOf(history, at(11))).toEqual([[10, 1]]);
    expect(requestsOf(history, at(31))).toEqual([[10, 1]]);
  });

  it("a minute has the sixteen limiters with the most decisions, and the sums of all", () => {
    const history = new History();
    const limits = Array.from(
      { length: 20 },
      (_, i) => [`limit${i}`, i, 1, 0] as [string, number, number, number],
    );
    for (const [i, part] of [limits.slice(0, 10), limits.slice(10)].entries()) {
      const sums: Sums = [0, 0, 0, 95, 10, 0];
      const minutes = [{ atMs: at(1), sums, limits: part }];
      history.add(`shard ${i}`, { sinceMs: START_MS, base: NO_SUMS, minutes }, at(1));
    }
    const [minute] = history.list(at(2));
    expect(minute!.limits).toEqual({ allowed: 190, refused: 20, errors: 0 });
    const names = Object.keys(minute!.byLimit);
    expect(names).toHaveLength(16);
    expect(minute!.byLimit["limit19"]).toEqual({ allowed: 19, refused: 1, errors: 0 });
    expect(names).not.toContain("limit3");
  });

  it("a history of any age is bounded: an hour of minutes, and a thousand objects", () => {
    const history = new History();
    for (let i = 0; i < 3000; i++) history.add(`object ${i}`, reportOf(i, 1), at(i));
    expect(history.stored.minutes.length).toBeLessThanOrEqual(HISTORY_MINUTES + 1);
    expect(history.stored.known).toHaveLength(1024);
    expect(history.stored.known.at(-1)![0]).toBe("object 2999");
  });

  it("what is stored and loaded again goes on", () => {
    const history = new History();
    history.add("a", reportOf(1, 5), at(1));
    const loaded = new History(structuredClone(history.stored));
    loaded.add("a", reportOf(2, 9, 5), at(2));
    expect(requestsOf(loaded, at(3))).toEqual([
      [1, 5],
      [2, 4],
    ]);
  });

  it("objects with clocks of their own, whose reports are lost or repeated, add up to all that they counted", () => {
    const step = fc.record({
      object: fc.nat(2),
      afterMs: fc.nat(90_000),
      times: fc.integer({ min: 1, max: 9 }),
      fate: fc.constantFrom("once", "twice", "lost"),
    });
    const skew = fc.tuple(...[0, 1, 2].map(() => fc.integer({ min: -5000, max: 5000 })));
    const property = fc.property(fc.array(step, { maxLength: 40 }), skew, (steps, skews) => {
      const objects = skews.map((skewMs) => ({ skewMs, counting: new Counting() }));
      const history = new History();
      /** By object: what its last report said, and what was not made known before its first one. */
      const said: (number | undefined)[] = [];
      const missed = objects.map(() => 0);
      let nowMs = at(10);
      for (const { object, afterMs, times, fate } of steps) {
        nowMs = Math.min(nowMs + afterMs, at(60));
        const { skewMs, counting } = objects[object]!;
        const report = counting.count(nowMs + skewMs, times);
        if (report === null || fate === "lost") continue;
        history.add(`${object}`, report, nowMs);
        if (fate === "twice") history.add(`${object}`, report, nowMs);
        if (said[object] === undefined) missed[object] = report.base[0];
        said[object] = report.minutes.at(-1)!.sums[0];
      }
      const total = requestsOf(history, at(61)).reduce((sum, [, requests]) => sum + requests, 0);
      const expected = objects.map((_, object) => (said[object] ?? 0) - missed[object]!);
      expect(total).toBe(expected.reduce((sum, requests) => sum + requests, 0));
    });
    fc.assert(property, { seed, numRuns: runs(300) });
  });
});
