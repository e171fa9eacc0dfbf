/** The checker of histories against one that tries every order. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import {
  isLinearizable,
  RECORD,
  type Call,
  type RecordOperation,
  type RecordState,
} from "../support/commands/history.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
type History = Call<RecordOperation>[];

/** Tries every order of the calls that time allows, with and without the unknown ones. */
function hasOrder(left: History, state: RecordState): boolean {
  if (left.every(({ result }) => result === null)) return true;
  return left.some((call) => {
    if (left.some((other) => other.endedAt < call.startedAt)) return false;
    const after = RECORD.apply(state, call.operation);
    if (call.result !== null && call.result !== after.result) return false;
    return hasOrder(
      left.filter((other) => other !== call),
      after.state,
    );
  });
}

const operation: fc.Arbitrary<RecordOperation> = fc.oneof(
  fc.record({ name: fc.constant("insert" as const), quota: fc.constant(1n) }),
  fc.record({ name: fc.constant("increment" as const), by: fc.bigInt(1n, 2n) }),
  fc.record({ name: fc.constant("decrease" as const), amount: fc.bigInt(1n, 2n) }),
  fc.record({ name: fc.constantFrom("query" as const, "get" as const, "purge" as const) }),
  fc.record({
    name: fc.constant("compareAndSet" as const),
    expected: fc.constantFrom("a", null),
    value: fc.constantFrom("a", "b", null),
  }),
);

/** Calls whose results come of some order, which time may contradict. */
const history: fc.Arbitrary<History> = fc
  .array(
    fc.record({
      operation,
      startedAt: fc.nat(12),
      lasted: fc.nat(8),
      isUnknown: fc.nat(3).map((n) => n === 0),
    }),
    { maxLength: 7 },
  )
  .map((calls) => {
    let state: RecordState = RECORD.initial;
    return calls.map(({ operation, startedAt, lasted, isUnknown }, i) => {
      const after = RECORD.apply(state, operation);
      // Some of the unknown ones have not happened.
      if (!isUnknown || lasted % 2 === 0) state = after.state;
      return {
        operation,
        startedAt: startedAt + i / 100,
        endedAt: isUnknown ? Infinity : startedAt + lasted + i / 100 + 0.5,
        result: isUnknown ? null : after.result,
      };
    });
  });

it("a history is judged linearizable exactly when some order of its calls is valid", () => {
  const judged = { true: 0, false: 0 };
  const property = fc.property(history, (calls) => {
    const isFine = hasOrder(calls, RECORD.initial);
    judged[`${isFine}`]++;
    expect(isLinearizable(RECORD, calls)).toBe(isFine);
  });
  fc.assert(property, { seed, numRuns: runs(3000) });
  expect(judged.true).toBeGreaterThan(100);
  expect(judged.false).toBeGreaterThan(100);
});
