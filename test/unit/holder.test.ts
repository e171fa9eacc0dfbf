/** Holder: which shards know a connection that may hold something. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Holder, rangesOfBits } from "../../src/dispatch/holder.ts";
import { CIRCLE, endOf, isIn, WHOLE, type Range } from "../../src/wire/range.ts";

const ID = Uint8Array.from({ length: 16 }, (_, i) => 0x40 + i);
const NONE = new Uint32Array(0);

const holderOf = (ranges: Uint32Array = NONE): Holder => new Holder(ID, ranges, () => {});
const has = (ranges: readonly Range[], hash: number): boolean =>
  ranges.some((range) => isIn(range, hash));

it("a holder is the connection's kind and its id", () => {
  const { bytes } = holderOf();
  expect([...bytes]).toEqual([1, ...ID]);
  expect(() => new Holder(ID.subarray(1), NONE, () => {})).toThrow(RangeError);
});

it("a holder stores a range when it has noted no shard of it before, and not again", () => {
  const stored: number[][] = [];
  const holder = new Holder(ID, NONE, (ranges) => stored.push([...ranges]));
  const [a, b, c] = [
    { from: 30, to: 40 },
    { from: 0, to: 10 },
    { from: 4, to: 8 },
  ];
  for (const range of [a, a, b, c, a]) holder.note(range);
  expect(stored).toEqual([
    [30, 40],
    [0, 10, 30, 40],
  ]);
});

it("a holder has the hashes of all ranges that it has noted, and few others", () => {
  const bound = fc.integer({ min: 0, max: 60 });
  const range = fc
    .tuple(bound, bound)
    .filter(([a, b]) => a !== b)
    .map(([a, b]) => ({ from: Math.min(a, b), to: Math.max(a, b) % 60 }));
  fc.assert(
    fc.property(fc.array(range, { maxLength: 12 }), (ranges) => {
      let stored: Uint32Array = NONE;
      const holder = new Holder(ID, NONE, (noted) => (stored = noted));
      for (const each of ranges) holder.note(each);
      for (let hash = 0; hash < 70; hash++) {
        expect(has(holder.ranges, hash)).toBe(has(ranges, hash));
      }
      expect(holderOf(stored).ranges).toEqual(holder.ranges);
      // In order, with a gap between each two.
      holder.ranges
        .slice(1)
        .forEach(({ from }, i) => expect(from).toBeGreaterThan(endOf(holder.ranges[i]!)));
    }),
  );
});

it("a holder of more than 128 ranges that do not touch notes the whole circle", () => {
  const holder = holderOf();
  for (let i = 0; i < 128; i++) holder.note({ from: 4 * i, to: 4 * i + 2 });
  expect(holder.ranges).toHaveLength(128);
  holder.note({ from: 4 * 128, to: 4 * 128 + 2 });
  expect(holder.ranges).toEqual([{ from: 0, to: 0 }]);
  holder.note({ from: CIRCLE - 5, to: 0 });
  expect(holder.ranges).toHaveLength(1);
});

it("a shard that a release before 0.5.0 has noted stands for all of them", () => {
  expect(holderOf(rangesOfBits(Uint8Array.of(0, 0b10))).ranges).toEqual([WHOLE]);
  expect(holderOf(rangesOfBits(new Uint8Array(2))).ranges).toEqual([]);
});

it("a holder is idle when no exchange sends frames of its connection any more", async () => {
  const holder = holderOf();
  await holder.idle();
  holder.beginExchange();
  holder.beginExchange();
  let isIdle = false;
  const idle = holder.idle().then(() => (isIdle = true));
  holder.endExchange();
  await Promise.resolve();
  expect(isIdle).toBe(false);
  holder.endExchange();
  await idle;
  holder.beginExchange();
  const again = Promise.race([holder.idle().then(() => "idle"), Promise.resolve("busy")]);
  expect(await again).toBe("busy");
});
