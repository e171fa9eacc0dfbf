/** Numbers of semaphores, when some were given to another shard. */
import { expect, it } from "vitest";
import { Numbers } from "../../src/engine/semaphores/numbers.ts";

it.each(["before", "after"])(
  "a number that a semaphore has stays its own, also where one that was given away is met with it %s it",
  (order) => {
    const numbers = new Numbers();
    if (order === "before") numbers.retire(1);
    numbers.claim(1, 77);
    if (order === "after") numbers.retire(1);
    numbers.endClaims();
    expect(numbers.hashOf(1)).toBe(77);
    expect(numbers.isInUse(1)).toBe(true);
    numbers.freeRetired();
    expect(numbers.hashOf(1)).toBe(77);
  },
);

it("a number of a semaphore that was given away is not given out before no row has it", () => {
  const numbers = new Numbers();
  numbers.retire(1);
  numbers.endClaims();
  numbers.grow();
  expect(numbers.isInUse(1)).toBe(false);
  expect(numbers.take(5)).toBe(2);
  numbers.freeRetired();
  expect(numbers.take(6)).toBe(1);
});
