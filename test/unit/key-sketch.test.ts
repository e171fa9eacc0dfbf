/** The sketch of frequent keys, beside exact counts of the same stream. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { hashBytes } from "../../src/engine/hash.ts";
import { HALVING_MS, KeySketch, SKETCH_ENTRIES } from "../../src/engine/key-sketch.ts";
import { bytesOf } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const HASH_KEY = { low: 3, high: 4 };

/** A sketch beside exact counts, which are halved without rounding. */
class Beside {
  readonly sketch = new KeySketch();
  readonly exact = new Map<string, number>();
  #periods = 0;
  readonly #hashOf: (bytes: Uint8Array) => number;

  constructor(hashOf = (bytes: Uint8Array) => hashBytes(HASH_KEY, 0, bytes, 0, bytes.length)) {
    this.#hashOf = hashOf;
    this.sketch.turn(0);
  }

  count(name: string): void {
    const bytes = bytesOf(`..${name}.`);
    this.sketch.count(this.#hashOf(bytesOf(name)), bytes, 2, name.length);
    this.exact.set(name, (this.exact.get(name) ?? 0) + 1);
  }

  pass(periods: number): void {
    this.#periods += periods;
    this.sketch.turn(this.#periods * HALVING_MS);
    for (const [name, count] of this.exact) this.exact.set(name, count / 2 ** periods);
  }

  rows(): { name: string; count: number; errorMax: number }[] {
    return this.sketch
      .rows()
      .map(({ key, ...row }) => ({ name: String.fromCharCode(...key), ...row }));
  }
}

/** Checks what the head of `key-sketch.ts` promises. */
function expectBounds(beside: Beside): void {
  const rows = beside.rows();
  const total = [...beside.exact.values()].reduce((sum, count) => sum + count, 0);
  expect(rows.length).toBeLessThanOrEqual(SKETCH_ENTRIES);
  expect(new Set(rows.map(({ name }) => name)).size).toBe(rows.length);
  for (const { name, count, errorMax } of rows) {
    const exact = beside.exact.get(name) ?? 0;
    expect(count - errorMax).toBeLessThanOrEqual(exact);
    expect(exact).toBeLessThan(count + 1);
  }
  const names = new Set(rows.map(({ name }) => name));
  for (const [name, count] of beside.exact) {
    if (count >= total / SKETCH_ENTRIES + 1) expect(names).toContain(name);
  }
  expect(rows.map(({ count }) => count)).toEqual(
    rows.map(({ count }) => count).toSorted((x, y) => y - x),
  );
}

/** Keys of a stream: some come again and again, most come once. */
const stream = fc.array(
  fc.oneof(
    { weight: 20, arbitrary: fc.nat(5).map((i) => `api:hot${i}`) },
    { weight: 20, arbitrary: fc.nat(100).map((i) => `api:warm${i}`) },
    { weight: 20, arbitrary: fc.nat(100_000).map((i) => `api:cold${i}`) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 3 }) },
  ),
  { minLength: 1, maxLength: 700, size: "max" },
);

describe("the sketch of keys", () => {
  it.each([
    ["seeded hashes", undefined],
    ["hashes that collide", (bytes: Uint8Array) => bytes.at(-1)! & 3],
  ])("the sketch of keys holds its bounds beside an exact count, with %s", (_, hashOf) => {
    const property = fc.property(stream, (events) => {
      const beside = new Beside(hashOf);
      events.forEach((event, i) => {
        if (typeof event === "number") beside.pass(event);
        else beside.count(event);
        if (i % 97 === 0) expectBounds(beside);
      });
      expectBounds(beside);
    });
    // Shrinking a stream of hundreds of keys takes minutes and tells little.
    fc.assert(property, { seed, numRuns: runs(60), endOnFailure: true });
  });

  it("the sketch of keys counts exactly while it has room for all keys", () => {
    const beside = new Beside();
    for (let i = 0; i < SKETCH_ENTRIES; i++) {
      for (let n = 0; n <= i; n++) beside.count(`k${i}`);
    }
    expect(beside.rows()).toEqual(
      Array.from({ length: SKETCH_ENTRIES }, (_, i) => ({
        name: `k${SKETCH_ENTRIES - 1 - i}`,
        count: SKETCH_ENTRIES - i,
        errorMax: 0,
      })),
    );
  });

  it("a key that has stopped coming leaves the sketch after some halvings", () => {
    const beside = new Beside();
    for (let i = 0; i < 1000; i++) beside.count("old");
    beside.pass(9);
    beside.count("new");
    expect(beside.rows()).toEqual([
      { name: "old", count: 1, errorMax: 0 },
      { name: "new", count: 1, errorMax: 0 },
    ]);
    beside.pass(1);
    expect(beside.rows()).toEqual([]);
  });

  it("a clock that is set back halves nothing, and the next period halves once", () => {
    const sketch = new KeySketch();
    sketch.turn(10 * HALVING_MS);
    for (let i = 0; i < 8; i++) sketch.count(1, bytesOf("k"), 0, 1);
    sketch.turn(4 * HALVING_MS);
    expect(sketch.rows()[0]!.count).toBe(8);
    sketch.turn(5 * HALVING_MS);
    expect(sketch.rows()[0]!.count).toBe(4);
  });

  it("keys of 255 bytes are kept whole", () => {
    const beside = new Beside();
    const long = `api:${"x".repeat(250)}`;
    beside.count(`${long}1`);
    beside.count(`${long}2`);
    beside.count(`${long}2`);
    expect(beside.rows()).toEqual([
      { name: `${long}2`, count: 2, errorMax: 0 },
      { name: `${long}1`, count: 1, errorMax: 0 },
    ]);
  });
});
