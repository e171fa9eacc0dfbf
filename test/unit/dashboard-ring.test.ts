/** The circle of hashes in the dashboard: the arcs of shards, whatever their ranges. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { arcsOf, describeRing } from "../../src/dashboard/ring.ts";
import type { ShardRow } from "../../src/wire/shards.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const CIRCLE = 2 ** 32;

const rowOf = (from: number, to: number, rest: Partial<ShardRow> = {}): ShardRow => ({
  shard: from.toString(16).padStart(8, "0"),
  from,
  to,
  records: 0,
  bytes: 0,
  bytesMax: 100,
  callsPerSecond: 0,
  isHot: false,
  split: null,
  splitProblem: null,
  reportedAtMs: null,
  ...rest,
});

/** Shards that have the whole circle, by where they begin. */
function rowsOf(begins: readonly number[]): ShardRow[] {
  const froms = [...new Set([0, ...begins])].toSorted((a, b) => a - b);
  return froms.map((from, i) => rowOf(from, froms[i + 1] ?? CIRCLE));
}

describe("arcs of the circle of hashes", () => {
  it("one shard has the whole circle", () => {
    expect(arcsOf([rowOf(0, CIRCLE, { bytes: 25 })])).toMatchObject([
      { start: 0, length: 1, filled: 0.25, isHot: false, leaving: null },
    ]);
    expect(arcsOf([])).toEqual([]);
  });

  it("each arc lies within its shard's range and has most of it, however narrow the range is", () => {
    const property = fc.property(fc.array(fc.nat(CIRCLE - 1), { maxLength: 60 }), (begins) => {
      const rows = rowsOf(begins);
      const arcs = arcsOf(rows);
      expect(arcs).toHaveLength(rows.length);
      let end = 0;
      arcs.forEach(({ shard, start, length }, i) => {
        const { from, to } = rows[i]!;
        expect(shard).toBe(rows[i]!.shard);
        expect(start).toBeGreaterThanOrEqual(Math.max(end, from / CIRCLE));
        end = start + length;
        expect(end).toBeLessThanOrEqual(to / CIRCLE + Number.EPSILON);
        expect(length).toBeGreaterThanOrEqual((0.7 * (to - from)) / CIRCLE);
      });
    });
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("a shard is filled from nothing to all of its limit", () => {
    const filled = [0, 50, 100, 125].map(
      (bytes) => arcsOf([rowOf(0, CIRCLE, { bytes })])[0]!.filled,
    );
    // While it splits, a shard may pass its limit.
    expect(filled).toEqual([0, 0.5, 1, 1]);
    // A shard without data says no limit.
    expect(arcsOf([rowOf(0, CIRCLE, { bytesMax: 0 })])[0]!.filled).toBe(0);
  });

  it("the upper part of a shard that splits is within its arc, to the arc's end", () => {
    const range = fc.tuple(fc.nat(CIRCLE - 3), fc.nat(), fc.nat()).map(([from, a, b]) => {
      const to = from + 2 + (a % (CIRCLE - from - 1));
      return {
        from,
        to: Math.min(CIRCLE, to),
        at: from + 1 + (b % (Math.min(CIRCLE, to) - from - 1)),
      };
    });
    const property = fc.property(range, ({ from, to, at }) => {
      const row = rowOf(from, to, { split: { at, isGiven: false } });
      const [arc] = arcsOf([row, rowOf(0, 0)]);
      const { start, length } = arc!.leaving!;
      expect(start).toBeGreaterThanOrEqual(arc!.start);
      expect(start + length).toBeCloseTo(arc!.start + arc!.length, 12);
      expect(length).toBeGreaterThanOrEqual(0);
      // Where the ranges begin, the gap apart.
      expect(Math.abs(start - at / CIRCLE)).toBeLessThanOrEqual(0.003);
    });
    fc.assert(property, { seed, numRuns: runs(300) });
    const half = arcsOf([rowOf(0, CIRCLE, { split: { at: CIRCLE / 2, isGiven: true } })]);
    expect(half[0]!.leaving).toEqual({ start: 0.5, length: 0.5 });
  });

  it("the circle is described by how many shards there are, split and are hot", () => {
    const split = { at: 1, isGiven: false };
    expect(describeRing([rowOf(0, CIRCLE)])).toBe("1 shard");
    const rows = [
      rowOf(0, 9, { split }),
      rowOf(9, 99, { isHot: true }),
      rowOf(99, CIRCLE, { isHot: true }),
    ];
    expect(describeRing(rows)).toBe("3 shards, 1 splitting, 2 hot");
  });
});
