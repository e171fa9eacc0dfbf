/** Holder: which shards know a connection that may hold something. */
import { expect, it } from "vitest";
import { Holder } from "../../src/dispatch/holder.ts";

const ID = Uint8Array.from({ length: 16 }, (_, i) => 0x40 + i);

it("a holder is the connection's kind and its id", () => {
  const { bytes } = new Holder(ID, new Uint8Array(0), () => {});
  expect([...bytes]).toEqual([1, ...ID]);
  expect(() => new Holder(ID.subarray(1), new Uint8Array(0), () => {})).toThrow(RangeError);
});

it("a holder stores a shard when it is noted first, and not again", () => {
  const stored: number[][] = [];
  const holder = new Holder(ID, new Uint8Array(0), (shards) => stored.push([...shards]));
  for (const shard of [3, 3, 8, 3, 127, 8]) holder.note(shard);
  expect(stored).toEqual([
    [0b1000],
    [0b1000, 0b1],
    [0b1000, 0b1, ...Array.from({ length: 13 }, () => 0), 0b1000_0000],
  ]);
});

it("a holder lists its shards in order, those of before hibernation too", () => {
  const before = Uint8Array.of(0b1000_0001, 0b10);
  const holder = new Holder(ID, before, () => {});
  expect(holder.shards()).toEqual([0, 7, 9]);
  holder.note(1);
  holder.note(20);
  expect(holder.shards()).toEqual([0, 1, 7, 9, 20]);
  expect([...before]).toEqual([0b1000_0001, 0b10]);
});

it("a holder that has stored its shards gives them again when it is made from them", () => {
  let stored = new Uint8Array(0);
  const holder = new Holder(ID, stored, (shards) => (stored = new Uint8Array(shards)));
  const shards = Array.from({ length: 128 }, (_, i) => i).filter((i) => i % 5 !== 2);
  for (const shard of shards.toReversed()) holder.note(shard);
  expect(new Holder(ID, stored, () => {}).shards()).toEqual(shards);
});
