/** Counts of callers over HTTP, on their way from an isolate to the Directory. */
import { expect, it } from "vitest";
import type { Environment } from "../../src/base/environment.ts";
import type { TallyFigures } from "../../src/engine/tally.ts";
import { RequestType } from "../../src/wire/throttr/request-types.ts";
import { DoorTally } from "../../src/worker/door-tally.ts";

const CONTEXT = { waitUntil: () => {} };
let namespaces = 0;

/** A Directory that has added what it got before each of its first answers fails. */
function directoryThatFails(...failures: readonly Error[]) {
  const left = [...failures];
  const got: number[] = [];
  const absorb = async (figures: TallyFigures): Promise<void> => {
    got.push(figures[RequestType.event]!);
    const failure = left.shift();
    if (failure !== undefined) throw failure;
  };
  const env = { DIRECTORY: { getByName: () => ({ absorb }) } } as unknown as Environment;
  const { tally, flush } = DoorTally.of(env, CONTEXT, `door-${++namespaces}`);
  const count = (): void => void tally.totals[RequestType.event]!++;
  return { got, count, flush };
}

it("does not hand a count over again where the Directory may have it", async () => {
  const { got, count, flush } = directoryThatFails(new Error("Network connection lost."));
  count();
  await expect(flush()).rejects.toThrow("Network connection lost");
  count();
  await flush();
  expect(got).toEqual([1, 1]);
});

it("hands a count over again where the Directory was overloaded, which has not seen it", async () => {
  const overloaded = Object.assign(new Error("overloaded"), { overloaded: true });
  const { got, count, flush } = directoryThatFails(overloaded);
  count();
  await expect(flush()).rejects.toThrow("overloaded");
  count();
  await flush();
  expect(got).toEqual([1, 2]);
});
