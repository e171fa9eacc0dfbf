/** Range map: which range has a hash, in a set of boundaries that only grows. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { RangeMap } from "../../src/dispatch/range-map.ts";
import { CIRCLE, endOf, isIn } from "../../src/wire/range.ts";

const hashes = fc.oneof(
  fc.integer({ min: 0, max: CIRCLE - 1 }),
  fc.integer({ min: 0, max: 40 }),
  fc.integer({ min: CIRCLE - 40, max: CIRCLE - 1 }),
);
const boundaries = fc.array(hashes, { maxLength: 60 });

const mapOf = (froms: readonly number[]): RangeMap => RangeMap.WHOLE.with(froms);

it("a new range map has one range, which has every hash", () => {
  const map = RangeMap.WHOLE;
  expect([map.count, map.rangeOf(0), map.rangeOf(CIRCLE - 1)]).toEqual([
    1,
    { from: 0, to: 0 },
    { from: 0, to: 0 },
  ]);
});

it("a range map finds the range that begins last before a hash, and ends where the next one begins", () => {
  fc.assert(
    fc.property(boundaries, hashes, (froms, hash) => {
      const all = [...new Set([0, ...froms])].toSorted((a, b) => a - b);
      const from = all.findLast((each) => each <= hash)!;
      const range = mapOf(froms).rangeOf(hash);
      expect(range).toEqual({ from, to: all.find((each) => each > hash) ?? 0 });
      expect(isIn(range, hash)).toBe(true);
    }),
  );
});

it("range maps merge as sets, in any order, and say whether they have become finer", () => {
  fc.assert(
    fc.property(fc.array(boundaries, { maxLength: 5 }), fc.func(fc.nat()), (news, shuffle) => {
      const all = new Set([0]);
      let map = RangeMap.WHOLE;
      for (const froms of news) {
        const before = all.size;
        for (const from of froms) all.add(from);
        const finer = map.with(froms);
        expect(finer === map).toBe(all.size === before);
        map = finer;
      }
      const others = news.toSorted((a, b) => shuffle(a) - shuffle(b));
      const other = others.reduce((known, froms) => known.with(froms), RangeMap.WHOLE);
      expect([...map.froms]).toEqual([...all].toSorted((a, b) => a - b));
      expect(other.froms).toEqual(map.froms);
    }),
  );
});

it("a range map lists the ranges that have hashes of another range, once and in order", () => {
  fc.assert(
    fc.property(boundaries, hashes, hashes, (froms, a, b) => {
      const map = mapOf(froms);
      const asked = { from: Math.min(a, b), to: (Math.max(a, b) + 1) % CIRCLE };
      const found = map.within(asked);
      expect(isIn(found[0]!, asked.from)).toBe(true);
      expect(isIn(found.at(-1)!, endOf(asked) - 1)).toBe(true);
      found.slice(1).forEach((range, i) => expect(range.from).toBe(endOf(found[i]!)));
    }),
  );
});

it("a range map stays as it is when a finer one is made of it", () => {
  const map = mapOf([7, 5]);
  const finer = map.with([6]);
  expect([[...map.froms], [...finer.froms]]).toEqual([
    [0, 5, 7],
    [0, 5, 6, 7],
  ]);
});

it("a range map takes at most 8,192 ranges, and then stays as it is", () => {
  const full = mapOf(Array.from({ length: 8192 }, (_, i) => 2 * i));
  expect([full.count, full.with([1]) === full]).toEqual([8192, true]);
});

it("a range map begins with the ranges of a number of shards", () => {
  expect([...RangeMap.initial(3).froms]).toEqual([0, 0x55555556, 0xaaaaaaab]);
  expect(RangeMap.initial(1)).toBe(RangeMap.WHOLE);
});

it("a look-up among 4,096 ranges takes less than 100 ns", () => {
  const map = mapOf(Array.from({ length: 4096 }, (_, i) => Math.ceil((i * CIRCLE) / 4096)));
  const asked = Uint32Array.from({ length: 65_536 }, (_, i) => Math.imul(i, 0x9e3779b1));
  let best = Infinity;
  let sum = 0;
  for (let round = 0; round < 20; round++) {
    const before = performance.now();
    for (const hash of asked) sum += map.indexOf(hash);
    best = Math.min(best, ((performance.now() - before) * 1e6) / asked.length);
  }
  expect(sum).toBeGreaterThan(0);
  expect(best).toBeLessThan(100);
});
