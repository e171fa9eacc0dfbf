/**
 * Histories of concurrent calls, and whether they are linearizable: whether each call can have taken
 * effect at one moment between its start and its end. The search is the simulator's.
 */
import type { Call as SeenCall } from "../../simulator/checks/history.ts";
import { linearize, type Linearization } from "../../simulator/checks/linearize.ts";

/** One call as its caller saw it. Times are those of a logical clock. */
export interface Call<Operation> {
  readonly operation: Operation;
  readonly startedAt: number;
  /** Infinity where the caller never learnt what became of it: then it has happened, or not. */
  readonly endedAt: number;
  /** Null where it is not known. */
  readonly result: string | null;
}

export interface Specification<State, Operation> {
  readonly initial: State;
  /** What the operation makes of a state, and what it says. */
  readonly apply: (state: State, operation: Operation) => { state: State; result: string };
  /** Whether an operation with this result has changed nothing, whatever the state was. */
  readonly isWithoutEffect: (operation: Operation, result: string) => boolean;
  /** Equal for equal states. */
  readonly nameOf: (state: State) => string;
}

/**
 * True when there is an order of the calls that explains all results.
 *
 * @throws Error when that could not be found out
 */
export function isLinearizable<State, Operation>(
  specification: Specification<State, Operation>,
  calls: readonly Call<Operation>[],
): boolean {
  const verdict = verdictOn(specification, calls);
  if (verdict === "undecided") throw new Error(`${calls.length} calls are too many to judge`);
  return verdict === "explained";
}

/** Undecided where too many calls of unknown outcomes overlap: about one history of a thousand with kills. */
export function verdictOn<State, Operation>(
  { initial, apply, isWithoutEffect, nameOf }: Specification<State, Operation>,
  calls: readonly Call<Operation>[],
): Linearization<State, Operation, string>["verdict"] {
  return linearize<State, Operation, string>(
    {
      initial,
      statesAfter: (state, operation, result) => {
        const after = apply(state, operation);
        if (result !== null && result !== after.result) return [];
        return [nameOf(after.state) === nameOf(state) ? state : after.state];
      },
      isTelling: (result) => /\d/.test(result),
      isWithoutEffect,
      nameOf,
      twinOf: (operation, result) => JSON.stringify([operation, result], textOf),
    },
    calls.toSorted((a, b) => a.startedAt - b.startedAt).map(callOf),
  ).verdict;
}

const textOf = (_: string, value: unknown): unknown =>
  typeof value === "bigint" ? `${value}` : value;

function callOf<Operation>(
  { operation, startedAt, endedAt, result }: Call<Operation>,
  client: number,
): SeenCall<Operation, string> {
  const momentOf = (tick: number) => ({ tick, ms: tick });
  return {
    client,
    door: "binding",
    connection: null,
    operation,
    begun: momentOf(startedAt),
    ended: result === null ? null : momentOf(endedAt),
    outcome: result ?? "unknown",
    settled: null,
  };
}

/** What is asked of the one record of a history. */
export type RecordOperation =
  | { readonly name: "insert"; readonly quota: bigint }
  | { readonly name: "increment"; readonly by: bigint }
  | { readonly name: "decrease"; readonly amount: bigint }
  | { readonly name: "query" | "get" | "purge" }
  | {
      readonly name: "compareAndSet";
      readonly expected: string | null;
      readonly value: string | null;
    };

/** A counter, a buffer, or no record. */
export type RecordState = bigint | string | null;

const MISMATCH = "kind_mismatch";
const NO_EFFECTS: readonly string[] = ["false", "null", MISMATCH];

/** One record: a counter, or a register that is compared and set. */
export const RECORD: Specification<RecordState, RecordOperation> = {
  initial: null,
  isWithoutEffect: ({ name }, result) =>
    name === "query" ||
    name === "get" ||
    NO_EFFECTS.includes(result) ||
    result.startsWith("refused"),
  nameOf: (state) => (typeof state === "bigint" ? `${state}` : JSON.stringify(state)),
  apply: (state, operation) => {
    switch (operation.name) {
      case "insert":
        return state === null
          ? { state: operation.quota, result: "true" }
          : { state, result: "false" };
      case "increment": {
        if (typeof state === "string") return { state, result: MISMATCH };
        const quota = (state ?? 0n) + operation.by;
        return { state: quota, result: `${quota}` };
      }
      case "decrease": {
        if (state === null) return { state, result: "null" };
        if (typeof state === "string") return { state, result: MISMATCH };
        const left = state - operation.amount;
        return left < 0n
          ? { state, result: `refused at ${state}` }
          : { state: left, result: `${left}` };
      }
      case "query":
        return { state, result: typeof state === "string" ? MISMATCH : `${state}` };
      case "get":
        return { state, result: typeof state === "bigint" ? MISMATCH : `${state}` };
      case "purge":
        return { state: null, result: `${state !== null}` };
      case "compareAndSet":
        if (typeof state === "bigint") return { state, result: MISMATCH };
        return state === operation.expected
          ? { state: operation.value, result: "applied" }
          : { state, result: `refused at ${state}` };
    }
  },
};
