/** The client's queue: as an array is, for any number of items. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { Fifo } from "../../src/client/calls/fifo.ts";

const seed = inject("seed");

it("a queue gives its items in the order in which they came", () => {
  const counts = fc.array(fc.tuple(fc.nat(3000), fc.nat(3000)), { maxLength: 8 });
  fc.assert(
    fc.property(counts, (counts) => {
      const fifo = new Fifo<number>();
      const model: number[] = [];
      let next = 0;
      for (const [pushes, shifts] of counts) {
        for (let i = 0; i < pushes; i++, next++) {
          fifo.push(next);
          model.push(next);
        }
        const shifted = Array.from({ length: shifts }, () => fifo.shift());
        expect(shifted).toEqual(Array.from({ length: shifts }, () => model.shift()));
        expect(fifo.length).toBe(model.length);
        expect(fifo.peek()).toBe(model[0]);
        expect([...fifo]).toEqual(model);
      }
      fifo.clear();
      expect([fifo.length, fifo.shift()]).toEqual([0, undefined]);
    }),
    { seed, numRuns: 50 },
  );
});
