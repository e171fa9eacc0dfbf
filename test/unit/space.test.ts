/** The byte budget of a shard, and what it may hold beyond it while it splits. */
import { expect, it } from "vitest";
import { Records } from "../../src/engine/records.ts";

const MIB = 1 << 20;

it.each([
  [24, 30],
  [89, 111.25],
  // An isolate has 128 MB: a quarter more would end it, again and again.
  [100, 112],
  [112, 112],
])("a shard with a budget of %i MiB may hold %d MiB while it splits", (budget, stretched) => {
  const { space } = new Records({ low: 1, high: 2 }, 0, budget * MIB, true);
  expect(space.bytesMax).toBe(budget * MIB);
  space.isStretched = true;
  expect(space.bytesMax).toBe(stretched * MIB);
});
