/** Counts that go down, and sums that listings contradict, are found. */
import { describe, expect, it } from "vitest";
import {
  checkRequests,
  checkSums,
  checkTotals,
  type CountSample,
} from "../../simulator/checks/counts.ts";
import { forge } from "../../support/simulator/forge.ts";

const NOTHING = { mayBeStale: () => false, hasStarted: () => false, hasLost: () => false };

/** Samples of one shard, one a second. */
function samplesOf(
  values: readonly number[],
  more: Partial<CountSample> = {},
): readonly CountSample[] {
  return values.map((value, i) => ({
    shard: "0",
    series: "requests",
    value,
    begun: { tick: 2 * i, ms: 1000 * i },
    ended: { tick: 2 * i + 1, ms: 1000 * i + 5 },
    lasts: "restarts",
    startedAtMs: null,
    ...more,
  }));
}

describe("totals", () => {
  it("may grow and stay", () => {
    expect(checkTotals(samplesOf([0, 5, 5, 9]), NOTHING)).toEqual([]);
  });

  it("may not go down", () => {
    expect(checkTotals(samplesOf([0, 5, 4, 9]), NOTHING)).toMatchObject([
      { promise: "Counts", subject: "shard 0" },
    ]);
  });

  it("may go down with another start of the shard, where nothing else is promised", () => {
    const [first, second] = [1000, 2000].map((startedAtMs) =>
      samplesOf([7, 3], { lasts: "life", startedAtMs }),
    );
    expect(checkTotals([first![0]!, second![1]!], NOTHING)).toEqual([]);
    expect(checkTotals(first!, NOTHING)).toHaveLength(1);
  });

  it("may go down with a start that has the time of the one before, as the clock stood still", () => {
    const samples = samplesOf([7, 3], { lasts: "life", startedAtMs: 1000 });
    const hasStarted = (shard: string, before: CountSample, after: CountSample): boolean =>
      shard === "0" && before === samples[0] && after === samples[1];
    expect(checkTotals(samples, { ...NOTHING, hasStarted })).toEqual([]);
  });

  it("are those of one shard and one series", () => {
    const [more, less] = samplesOf([7, 3]);
    expect(checkTotals([more!, { ...less!, shard: "1" }], NOTHING)).toEqual([]);
    expect(checkTotals([more!, { ...less!, series: "bytes" }], NOTHING)).toEqual([]);
  });

  it("of an old copy of a shard say nothing, nor do those of one that could not write its counts", () => {
    const samples = samplesOf([7, 3, 8]);
    const mayBeStale = (sample: CountSample): boolean => sample === samples[1];
    expect(checkTotals(samples, { ...NOTHING, mayBeStale })).toEqual([]);
    expect(checkTotals(samples, { ...NOTHING, hasLost: () => true })).toEqual([]);
  });
});

describe("sums", () => {
  it.each([3, 4, 5])("may be %d between listings of 5 and 3", (told) => {
    expect(checkSums([{ what: "counters", told, before: 5, after: 3 }])).toEqual([]);
  });

  it.each([2, 6])("may not be %d between listings of 5 and 3", (told) => {
    expect(checkSums([{ what: "counters", told, before: 5, after: 3 }])).toHaveLength(1);
  });
});

describe("the total of requests of one kind", () => {
  const made = forge<string, string>([
    { operation: "stat", begunMs: 10, endedMs: 11, outcome: "told" },
    { operation: "stat", begunMs: 20, endedMs: 21, outcome: "told" },
    { operation: "stat", begunMs: 30, endedMs: 31, outcome: "unknown" },
    { operation: "stat", begunMs: 40, endedMs: 41, outcome: "refused" },
  ]);

  it("has each that was answered, may have the others, and has none twice", () => {
    const found = [1, 2, 3, 4, 5].map((told) => checkRequests("stat", told, made, () => true));
    expect(found.map(({ length }) => length)).toEqual([1, 0, 0, 0, 1]);
    expect(found[4]).toMatchObject([{ promise: "Counts", subject: "requests of stat" }]);
  });

  it("may lack those that were counted before a reset", () => {
    const isCounted = ({ begun }: (typeof made)[number]): boolean => begun.ms > 15;
    const found = [0, 1, 4].map((told) => checkRequests("stat", told, made, isCounted).length);
    expect(found).toEqual([1, 0, 0]);
  });
});
