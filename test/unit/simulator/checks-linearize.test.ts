/** The search for an order of calls against one that tries every order. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { isAnswered } from "../../simulator/checks/history.ts";
import { checkRecords, type RecordCall } from "../../simulator/checks/records.ts";
import {
  agrees,
  execute,
  type ModelAnswer,
  type RecordAnswer,
  type RecordOperation,
  type RecordState,
} from "../../support/models/record.ts";
import { runs } from "../../support/runs.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

const seed = inject("seed");
const clocks = new ClockHistory();
/** What was sent over this connection was certainly executed. */
const TAKEN = 3;
const hasTaken = (connection: number): boolean => connection === TAKEN;
const TERMS = { clocks, objectOf: () => "shard 0", answersKept: { fromMs: 0, toMs: 0 }, hasTaken };
const EDGE = { key: "k", dialect: "edge" } as const;
const ttl = { count: 1, unit: 6 };

const isLinearizable = (calls: readonly RecordCall[]): boolean => {
  const { violations, undecided } = checkRecords(calls, TERMS);
  expect(undecided).toEqual([]);
  return violations.length === 0;
};

/** Records live for an hour: none ends, whenever a call is executed. */
function outcomeOf(state: RecordState, operation: RecordOperation) {
  const moment = { fromMs: 0, toMs: 0 };
  const [outcome] = execute(state, operation, moment, () => moment);
  return outcome!;
}

/** Tries every order of the calls that time and connections allow, with and without the unknown ones. */
function hasOrder(left: readonly RecordCall[], state: RecordState, latestBegin = 0): boolean {
  if (!left.some(isExecuted)) return true;
  return left.some((call) => {
    if (left.some((other) => isExecuted(other) && mustPrecede(other, call))) return false;
    if (call.settled !== null && call.settled.tick < latestBegin) return false;
    const after = outcomeOf(state, call.operation);
    if (isAnswered(call) && !agrees(after.answer, call.outcome)) return false;
    return hasOrder(
      // What its connection sent before, and is not known to have happened, does not happen any more.
      left.filter((other) => other !== call && !isSentBefore(other, call)),
      after.state,
      Math.max(latestBegin, call.begun.tick),
    );
  });
}

/** A read without an answer says nothing. */
const isExecuted = (call: RecordCall): boolean =>
  isAnswered(call) ||
  (call.connection === TAKEN && !["query", "get"].includes(call.operation.name));

const mustPrecede = (other: RecordCall, call: RecordCall): boolean =>
  endOf(other) < call.begun.tick || isSentBefore(other, call);

const endOf = (call: RecordCall): number =>
  isAnswered(call) ? call.ended.tick : (call.settled?.tick ?? Infinity);

const isSentBefore = (other: RecordCall, call: RecordCall): boolean =>
  call.connection !== null &&
  other.connection === call.connection &&
  other.begun.tick < call.begun.tick;

/** What an answer of the server says of what the model expects; nothing of the time that is left. */
function answerOf({ success, record, code }: ModelAnswer): RecordAnswer {
  if (code !== null) return { success, code };
  if (record === null) return { success, record };
  return {
    success,
    record: record.kind === "counter" ? { quota: record.quota! } : { value: record.value! },
  };
}

const amount = fc.bigInt(1n, 2n);
const operation: fc.Arbitrary<RecordOperation> = fc.oneof(
  fc.constant({ ...EDGE, name: "insert" as const, quota: 1n, ttl }),
  amount.map((by) => ({ ...EDGE, name: "increment" as const, by, ttl })),
  amount.map((by) => ({
    ...EDGE,
    name: "change" as const,
    change: "decrease" as const,
    amount: by,
  })),
  fc
    .constantFrom("query" as const, "get" as const, "purge" as const)
    .map((name) => ({ ...EDGE, name })),
  fc
    .tuple(fc.constantFrom("a", null), fc.constantFrom("a", "b", null))
    .map(([expected, value]) => ({
      ...EDGE,
      name: "compareAndSet" as const,
      expected,
      value,
      ttl,
    })),
);

/** Calls whose answers come of some order, which time and connections may contradict. */
const history: fc.Arbitrary<RecordCall[]> = fc
  .array(
    fc.record({
      operation,
      begunMs: fc.nat(12),
      lasted: fc.nat(8),
      isUnknown: fc.nat(3).map((n) => n === 0),
      isSettled: fc.boolean(),
      connection: fc.constantFrom(1, 2, TAKEN, null, null),
    }),
    { maxLength: 7 },
  )
  .map((calls) => {
    let state: RecordState = null;
    const forged = calls.map((call, i): ForgedCall<RecordOperation, RecordAnswer> => {
      const { operation: asked, lasted, isUnknown, isSettled, connection } = call;
      const after = outcomeOf(state, asked);
      // Some of the unknown ones have not happened.
      if (!isUnknown || lasted % 2 === 0) state = after.state;
      const begunMs = call.begunMs + i / 100;
      const endMs = begunMs + lasted + 0.5;
      return {
        operation: asked,
        begunMs,
        ...(connection === null ? {} : { connection }),
        ...(isUnknown
          ? { endedMs: null, outcome: "unknown", ...(isSettled ? { settledMs: endMs } : {}) }
          : { endedMs: endMs, outcome: answerOf(after.answer) }),
      };
    });
    return forge(forged);
  });

it("a history is judged linearizable exactly when some order of its calls is valid", () => {
  const judged = { true: 0, false: 0 };
  const property = fc.property(history, (calls) => {
    const isFine = hasOrder(calls, null);
    judged[`${isFine}`]++;
    expect(isLinearizable(calls)).toBe(isFine);
  });
  fc.assert(property, { seed, numRuns: runs(3000) });
  expect(judged.true).toBeGreaterThan(100);
  expect(judged.false).toBeGreaterThan(100);
});

type Forged = ForgedCall<RecordOperation, RecordAnswer>;
const call = (
  begunMs: number,
  endedMs: number,
  operation: RecordOperation,
  outcome: RecordAnswer,
): Forged => ({ begunMs, endedMs, operation, outcome });
const unknown = (begunMs: number, operation: RecordOperation): Forged => ({
  begunMs,
  endedMs: null,
  operation,
  outcome: "unknown",
});
const add: RecordOperation = { ...EDGE, name: "increment", by: 1n, ttl };
const insert: RecordOperation = { ...EDGE, name: "insert", quota: 1n, ttl };
const decrease: RecordOperation = { ...EDGE, name: "change", change: "decrease", amount: 1n };
const purge: RecordOperation = { ...EDGE, name: "purge" };
const query: RecordOperation = { ...EDGE, name: "query" };
const swap = (expected: string | null, value: string | null): RecordOperation => ({
  ...EDGE,
  name: "compareAndSet",
  expected,
  value,
  ttl,
});
const at = (quota: bigint): RecordAnswer => ({ success: true, record: { quota } });
const none: RecordAnswer = { success: false, record: null };
const done: RecordAnswer = { success: true };
const no: RecordAnswer = { success: false };

it.each<[string, boolean, Forged[]]>([
  ["no calls", true, []],
  ["one call after the other", true, [call(1, 2, add, at(1n)), call(3, 4, add, at(2n))]],
  ["calls in the wrong order", false, [call(1, 2, add, at(2n)), call(3, 4, add, at(1n))]],
  ["calls at once in either order", true, [call(1, 3, add, at(2n)), call(2, 4, add, at(1n))]],
  ["the same answer twice", false, [call(1, 3, add, at(1n)), call(2, 4, add, at(1n))]],
  ["a stale read", false, [call(1, 2, add, at(1n)), call(3, 4, query, none)]],
  [
    "a read of a write that is under way",
    true,
    [call(1, 4, add, at(1n)), call(2, 3, query, at(1n))],
  ],
  [
    "a read that goes back",
    false,
    [call(1, 6, add, at(1n)), call(2, 3, query, at(1n)), call(4, 5, query, none)],
  ],
  [
    "a lost update",
    false,
    [call(1, 2, add, at(1n)), call(3, 4, add, at(2n)), call(5, 6, query, at(1n))],
  ],
  [
    "an unknown call that happened",
    true,
    [unknown(1, add), call(2, 3, query, at(1n)), call(4, 5, query, at(1n))],
  ],
  [
    "an unknown call that did not happen",
    true,
    [unknown(1, add), call(2, 3, query, none), call(4, 5, query, none)],
  ],
  [
    "an unknown call that happened later",
    true,
    [unknown(1, add), call(2, 3, query, none), call(4, 5, query, at(1n))],
  ],
  ["an unknown call that happened twice", false, [unknown(1, add), call(2, 3, query, at(2n))]],
  [
    "an unknown call that was taken back",
    false,
    [unknown(1, add), call(2, 3, query, at(1n)), call(4, 5, query, none)],
  ],
  [
    "an unknown call that happened when it was settled, behind another one of its connection",
    false,
    [
      { ...unknown(0.1, decrease), connection: 2 },
      { ...unknown(0.2, add), connection: 2, settledMs: 0.5 },
      call(0.3, 4, insert, { ...no, record: { quota: 1n } }),
      call(1, 2, query, none),
    ],
  ],
  [
    "an unknown call that happened before a read, between two others of its connection",
    true,
    [
      { ...call(0.1, 4, insert, done), connection: 2 },
      { ...unknown(0.2, purge), connection: 2, settledMs: 0.5 },
      { ...call(0.3, 5, insert, done), connection: 2 },
      call(1, 2, query, none),
    ],
  ],
  [
    "a lock that two callers have",
    false,
    [call(1, 3, swap(null, "a"), done), call(2, 4, swap(null, "b"), done)],
  ],
  [
    "a lock that is handed over",
    true,
    [
      call(0, 0.5, swap(null, "a"), done),
      call(1, 4, swap("a", null), done),
      call(2, 3, swap(null, "b"), done),
    ],
  ],
])("the search judges %s: %s", (_, isFine, calls) => {
  expect(isLinearizable(forge(calls))).toBe(isFine);
});
