/** Ranges of the circle of placement hashes. */
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  CIRCLE,
  endOf,
  hexOfHash,
  initialIndexOf,
  initialRange,
  isIn,
  isSameRange,
  isWithin,
  WHOLE,
  widthOf,
} from "../../src/wire/range.ts";

const hashes = fc.integer({ min: 0, max: CIRCLE - 1 });
const counts = fc.oneof(fc.integer({ min: 1, max: 128 }), fc.integer({ min: 1, max: 65_535 }));

it("the whole circle has every hash, and a range that ends at 0 has the last one", () => {
  expect([widthOf(WHOLE), endOf(WHOLE)]).toEqual([CIRCLE, CIRCLE]);
  expect([0, 1, CIRCLE - 1].every((hash) => isIn(WHOLE, hash))).toBe(true);
  const last = { from: CIRCLE - 2, to: 0 };
  expect([CIRCLE - 3, CIRCLE - 2, CIRCLE - 1].map((hash) => isIn(last, hash))).toEqual([
    false,
    true,
    true,
  ]);
  expect(isIn({ from: 4, to: 6 }, 6)).toBe(false);
});

it("the ranges that a namespace begins with have the hashes that releases before them gave a shard", () => {
  fc.assert(
    fc.property(counts, hashes, (count, hash) => {
      // BigInt: the definition, without rounding.
      const index = Number((BigInt(hash) * BigInt(count)) >> 32n);
      return isIn(initialRange(index, count), hash);
    }),
  );
});

it("the ranges that a namespace begins with cover the circle once", () => {
  fc.assert(
    fc.property(counts, (count) => {
      let end = 0;
      for (let index = 0; index < count; index++) {
        const range = initialRange(index, count);
        if (range.from !== end) return false;
        end = endOf(range);
      }
      return end === CIRCLE;
    }),
    { numRuns: 20 },
  );
});

it("a hash is the begin of an initial range, or of none", () => {
  fc.assert(
    fc.property(counts, fc.nat(65_534), (count, at) => {
      const index = at % count;
      const { from } = initialRange(index, count);
      expect(initialIndexOf(from, count)).toBe(index);
      expect(initialIndexOf(from + 1, count)).toBe(-1);
      if (from > 0) expect(initialIndexOf(from - 1, count)).toBe(-1);
    }),
  );
});

it("a range lies within itself, within the circle, and not within a part of itself", () => {
  const range = { from: 10, to: 20 };
  expect([isWithin(range, range), isWithin(range, WHOLE), isWithin(WHOLE, range)]).toEqual([
    true,
    true,
    false,
  ]);
  expect(isWithin(range, { from: 10, to: 19 })).toBe(false);
  expect(isWithin({ from: 9, to: 12 }, range)).toBe(false);
  expect([isSameRange(range, { ...range }), isSameRange(range, { from: 10, to: 0 })]).toEqual([
    true,
    false,
  ]);
});

it("a hash is written as 8 hex digits", () => {
  expect([0, 0xab, CIRCLE - 1].map(hexOfHash)).toEqual(["00000000", "000000ab", "ffffffff"]);
});
