/** Ids of charges that were cancelled before they came. */
import { expect, it } from "vitest";
import { CancelledIds } from "../../src/engine/cancelled-ids.ts";

it("a cancelled id is known for thirty seconds", () => {
  const ids = new CancelledIds();
  ids.add("a", 1_000);
  ids.add("b", 20_000);
  expect([ids.has("a", 30_999), ids.has("b", 30_999), ids.has("c", 30_999)]).toEqual([
    true,
    true,
    false,
  ]);
  expect([ids.has("a", 31_000), ids.has("b", 31_000)]).toEqual([false, true]);
});

it("of more than 16,384 cancelled ids the oldest are forgotten", () => {
  const ids = new CancelledIds();
  for (let i = 0; i <= 16_384; i++) ids.add(`${i}`, 1_000);
  expect([ids.has("0", 1_000), ids.has("1", 1_000), ids.has("16384", 1_000)]).toEqual([
    false,
    true,
    true,
  ]);
});
