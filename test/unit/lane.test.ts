/** Lane: one call at a time to one object, for pieces of whoever brings them. */
import { expect, it } from "vitest";
import { Lane, type Piece } from "../../src/dispatch/lane.ts";

const MIB = 1 << 20;

/** A lane whose calls wait until the test ends them. */
class Bench {
  readonly calls: { pieces: readonly Named[]; stub: number; end: PromiseWithResolvers<void> }[] =
    [];
  /** Names of pieces whose call failed, with the error. */
  readonly failed: [name: string, error: unknown][] = [];
  stubs = 0;
  idles = 0;
  /** Of the next `connect`. */
  connectError: Error | null = null;

  readonly lane = new Lane<Named>(
    () => {
      if (this.connectError !== null) throw this.connectError;
      const stub = this.stubs++;
      return async (pieces) => {
        const end = Promise.withResolvers<void>();
        this.calls.push({ pieces, stub, end });
        await end.promise;
      };
    },
    () => this.idles++,
  );

  submit(name: string, bytes = 1): Named {
    const piece = { name, bytes, fail: (error: unknown) => this.failed.push([name, error]) };
    this.lane.submit(piece);
    return piece;
  }

  /** Ends the call that is under way. */
  async end(error?: Error): Promise<void> {
    const { end } = this.calls.at(-1)!;
    if (error === undefined) end.resolve();
    else end.reject(error);
    await settled();
  }

  get carried(): string[] {
    return this.calls.map(({ pieces }) => pieces.map(({ name }) => name).join(" "));
  }
}

interface Named extends Piece {
  readonly name: string;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it("a lane gathers what arrives during a call for the next call, in the order of arrival", async () => {
  const bench = new Bench();
  for (const name of ["a", "b", "c"]) bench.submit(name);
  expect(bench.carried).toEqual(["a"]);
  await bench.end();
  bench.submit("d");
  expect(bench.carried).toEqual(["a", "b c"]);
  await bench.end();
  expect(bench.carried).toEqual(["a", "b c", "d"]);
});

it("a call of a lane carries at most 4 MiB and the piece that passes them", async () => {
  const bench = new Bench();
  bench.submit("first");
  bench.submit("huge", 9 * MIB);
  for (const name of ["a", "b", "c", "d"]) bench.submit(name, 1.5 * MIB);
  expect(bench.lane.queuedBytes).toBe(15 * MIB);
  for (let i = 0; i < 3; i++) await bench.end();
  expect(bench.carried).toEqual(["first", "huge", "a b c", "d"]);
  expect(bench.lane.queuedBytes).toBe(0);
});

it("a piece can be withdrawn from a lane until its call begins", async () => {
  const bench = new Bench();
  const underWay = bench.submit("a", 5);
  const waiting = bench.submit("b", 7);
  bench.submit("c", 11);
  expect(bench.lane.queuedBytes).toBe(18);
  bench.lane.withdraw(underWay);
  bench.lane.withdraw(waiting);
  bench.lane.withdraw(waiting);
  expect(bench.lane.queuedBytes).toBe(11);
  await bench.end();
  expect(bench.carried).toEqual(["a", "c"]);
});

it("a failed call fails its own pieces, and what waits behind it is carried by a new stub", async () => {
  const bench = new Bench();
  const reset = new Error("reset");
  for (const name of ["a", "b", "c"]) bench.submit(name);
  await bench.end();
  bench.submit("d");
  await bench.end(reset);
  expect(bench.failed).toEqual([
    ["b", reset],
    ["c", reset],
  ]);
  expect(bench.carried).toEqual(["a", "b c", "d"]);
  expect(bench.calls.map(({ stub }) => stub)).toEqual([0, 0, 1]);
});

it("a lane that cannot connect fails the pieces that wait, and connects again for later ones", async () => {
  const bench = new Bench();
  bench.connectError = new Error("no object");
  bench.submit("a");
  await settled();
  expect(bench.failed).toEqual([["a", bench.connectError]]);
  bench.connectError = null;
  bench.submit("b");
  expect(bench.carried).toEqual(["b"]);
});

it("a lane says once that it is idle, after its last call", async () => {
  const bench = new Bench();
  bench.submit("a");
  bench.submit("b");
  await bench.end();
  expect(bench.idles).toBe(0);
  await bench.end();
  expect(bench.idles).toBe(1);
  bench.submit("c");
  await bench.end(new Error("reset"));
  expect(bench.idles).toBe(2);
});
