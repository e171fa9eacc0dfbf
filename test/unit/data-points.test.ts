/** Data points for Analytics Engine: when they are written, and what they tell. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { COUNTED_REQUESTS } from "../../src/engine/counted-requests.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, Tally } from "../../src/engine/tally.ts";
import { DataPoints, type Dataset, type Measured } from "../../src/base/data-points.ts";
import { LimitFigures } from "../../src/engine/limit-figures.ts";
import { bytesOf } from "../support/frames/index.ts";
import { VERSION } from "../../src/base/version.ts";

type Point = Parameters<Dataset["writeDataPoint"]>[0];

const SUBJECT = { namespace: "my-app", kind: "shard", name: "3" } as const;

function indexOf(type: string): number {
  return COUNTED_REQUESTS.find((counted) => counted.type === type)!.index;
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Points of an object that has counted nothing yet. */
function newObject(gauges: Omit<Measured, "tally"> = {}) {
  const written: Point[] = [];
  const work: Promise<void>[] = [];
  const tally = new Tally();
  const dataset: Dataset = { writeDataPoint: (point) => written.push(point) };
  const points = new DataPoints(
    { ANALYTICS: dataset },
    (promise) => work.push(promise),
    SUBJECT,
    () => ({ tally: tally.figures(0), ...gauges }),
  );
  const count = (type: string, times: number): void => {
    tally.totals[indexOf(type)]! += times;
  };
  return { written, work, tally, points, count, gauges };
}

describe("data points", () => {
  it("no data points are written without a data set", () => {
    const work: Promise<void>[] = [];
    const points = new DataPoints(
      {},
      (promise) => work.push(promise),
      SUBJECT,
      () => {
        throw new Error("measured without a data set");
      },
    );
    points.note();
    points.flush();
    expect(work).toEqual([]);
  });

  it("data points have the namespace, what it used, and the state of its objects", async () => {
    const { written, work, tally, points, count } = newObject({
      refusedForSpace: 4,
      rowsWritten: 9,
      records: 100,
      bytes: 6400,
      connections: 7,
      subscriptions: 21,
    });
    count("QUERY", 5);
    count("EDGE_READ", 1);
    count("INSERT", 2);
    count("EDGE_LIMIT", 30);
    count("EDGE_PEEK", 1);
    count("COUNTER_ACQUIRE", 11);
    count("EDGE_ACQUIRE", 1);
    count("PUBLISH", 13);
    count("LIST", 17);
    tally.totals[TALLY_READ_BYTES]! += 1000;
    tally.totals[TALLY_WRITE_BYTES]! += 500;
    points.note();
    expect(written).toEqual([]);
    await vi.advanceTimersByTimeAsync(5000);
    await Promise.all(work);
    expect(written).toEqual([
      {
        indexes: ["my-app"],
        blobs: ["my-app", "shard", "3", VERSION],
        doubles: [81, 1000, 500, 6, 2, 31, 12, 13, 17, 4, 9, 100, 6400, 7, 21],
      },
    ]);
  });

  it("one data point covers 5 s, with what is new in them", async () => {
    const { written, work, points, count } = newObject();
    for (let i = 0; i < 100; i++) {
      count("INSERT", 1);
      points.note();
    }
    await vi.advanceTimersByTimeAsync(4999);
    expect(written).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(written.map(({ doubles }) => doubles[0])).toEqual([100]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(written).toHaveLength(1);
    count("INSERT", 3);
    points.note();
    await vi.advanceTimersByTimeAsync(5000);
    expect(written.map(({ doubles }) => doubles[0])).toEqual([100, 3]);
    expect(work).toHaveLength(2);
  });

  it("data points are written before counts start again, and no count is written twice", async () => {
    const { written, tally, points, count } = newObject();
    points.flush();
    expect(written).toHaveLength(0);
    count("WHOAMI", 5);
    points.note();
    points.flush();
    tally.release(0);
    await vi.advanceTimersByTimeAsync(5000);
    expect(written.map(({ doubles }) => doubles[0])).toEqual([5]);
    count("WHOAMI", 2);
    points.note();
    await vi.advanceTimersByTimeAsync(5000);
    expect(written.map(({ doubles }) => doubles[0])).toEqual([5, 2]);
  });

  it("a data point for each limiter has what it decided since the last one", async () => {
    const figures = new LimitFigures({ low: 1, high: 2 });
    const written: Point[] = [];
    const points = new DataPoints(
      { ANALYTICS: { writeDataPoint: (point: Point) => written.push(point) } },
      () => {},
      SUBJECT,
      () => ({ tally: new Tally().figures(0), limits: figures.snapshot() }),
    );
    const decide = (key: string, isAllowed: boolean): void =>
      figures.countDecisions(isAllowed, 1, 1, bytesOf(key), 0, key.length);
    const flush = (): unknown[] => {
      written.length = 0;
      points.note();
      points.flush();
      for (const { blobs, doubles, indexes } of written.slice(1)) {
        expect(indexes).toEqual(["my-app"]);
        expect(blobs.slice(0, 4)).toEqual(["my-app", "limit", "3", VERSION]);
        expect(doubles.slice(0, 15)).toEqual(Array.from({ length: 15 }, () => 0));
      }
      return written.slice(1).map(({ blobs, doubles }) => [blobs[4], ...doubles.slice(15)]);
    };
    decide("before:ada", true);
    points.begin();
    expect(flush()).toEqual([]);
    decide("login:ada", true);
    for (const isAllowed of [true, true, false]) decide("api:ada", isAllowed);
    figures.countLocal(2, bytesOf("api:ada"), 0, 7);
    figures.countError(bytesOf("nameless"), 0, 8);
    expect(flush()).toEqual([
      ["api", 2, 1, 0, 2],
      ["login", 1, 0, 0, 0],
      ["", 0, 0, 1, 0],
    ]);
    decide("api:ada", false);
    expect(flush()).toEqual([["api", 0, 1, 0, 0]]);
    for (let i = 0; i < 30; i++) for (let n = 0; n <= i; n++) decide(`n${i}:k`, true);
    const rows = flush() as [string, number][];
    expect(rows).toHaveLength(21);
    expect(rows[0]).toEqual(["n29", 30, 0, 0, 0]);
    expect(rows[20]).toEqual(["", (10 * 11) / 2, 0, 0, 0]);
  });

  it("data points keep within the limits of a data set", () => {
    const { written, points } = newObject();
    points.note();
    points.flush();
    const { indexes, blobs, doubles } = written[0]!;
    expect(indexes).toHaveLength(1);
    expect(blobs.length).toBeLessThanOrEqual(20);
    expect(doubles.length).toBeLessThanOrEqual(20);
  });
});
