/** Calls that wait to be sent: no more than the queue may hold. */
import { expect, it } from "vitest";
import { Call } from "../../src/client/calls/call.ts";
import { CallQueue } from "../../src/client/calls/call-queue.ts";
import { query } from "../../src/wire/edge/operations.ts";

const callOf = (key: string): Call => new Call(query(key), { nowMs: 0, wallMs: 0 }, 1_000, null);

it("a queue that calls were put back into takes no others until it has room", () => {
  const queue = new CallQueue(2, 1 << 20);
  const [first, second, third] = ["a", "b", "c"].map(callOf);
  expect(queue.add(third!)).toBe(true);
  queue.addFirst([first!, second!]);
  expect([queue.size, queue.add(callOf("d"))]).toEqual([3, false]);
  queue.released(first!);
  expect([queue.size, queue.add(callOf("e"))]).toEqual([2, false]);
  queue.released(second!);
  expect([queue.add(callOf("f")), queue.add(callOf("g"))]).toEqual([true, false]);
});
