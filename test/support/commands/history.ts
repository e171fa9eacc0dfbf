/**
 * Histories of concurrent calls, and whether they are linearizable: whether each call can have taken
 * effect at one moment between its start and its end.
 *
 * The search is that of Wing and Gong, with Lowe's memory of what has been tried.
 */

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
  /** Equal for equal states. */
  readonly nameOf: (state: State) => string;
}

/** A state, and the calls that have taken effect on the way to it. */
interface Point<State> {
  readonly done: bigint;
  readonly state: State;
}

/** True when there is an order of the calls that explains all results. */
export function isLinearizable<State, Operation>(
  specification: Specification<State, Operation>,
  calls: readonly Call<Operation>[],
): boolean {
  const known = calls.reduce((all, call, i) => (call.result === null ? all : all | bit(i)), 0n);
  const twins = twinsOf(calls);
  const tried = new Set<string>();
  const open: Point<State>[] = [{ done: 0n, state: specification.initial }];
  for (let point = open.pop(); point !== undefined; point = open.pop()) {
    if ((point.done & known) === known) return true;
    for (const next of nextPoints(specification, calls, twins, point)) {
      const name = `${next.done.toString(36)} ${specification.nameOf(next.state)}`;
      if (tried.has(name)) continue;
      tried.add(name);
      open.push(next);
    }
  }
  return false;
}

/** Where one more call leads to; the most promising last. */
function nextPoints<State, Operation>(
  { apply, nameOf }: Specification<State, Operation>,
  calls: readonly Call<Operation>[],
  twins: readonly bigint[],
  { done, state }: Point<State>,
): Point<State>[] {
  const points: Point<State>[] = [];
  for (const i of startedIn(calls, done)) {
    const { operation, result } = calls[i]!;
    const after = apply(state, operation);
    const next = { done: done | bit(i), state: after.state };
    const isChange = nameOf(after.state) !== nameOf(state);
    if (result === null) {
      // Without an effect it need not have happened, and equal ones may as well happen in order.
      if (isChange && (twins[i]! & ~done) === 0n) points.unshift(next);
    } else if (result === after.result) {
      // What fits and changes nothing may as well happen now: nothing else becomes impossible.
      if (!isChange) return [next];
      points.push(next);
    }
  }
  return points;
}

/** For each unknown call those of the same operation that started before it. */
function twinsOf(calls: readonly Call<unknown>[]): bigint[] {
  const textOf = (_: string, value: unknown): unknown =>
    typeof value === "bigint" ? `${value}` : value;
  const names = calls.map(({ operation, result }) =>
    result === null ? JSON.stringify(operation, textOf) : null,
  );
  return calls.map((call, i) =>
    calls.reduce(
      (all, other, j) =>
        names[i] !== null && names[j] === names[i] && other.startedAt < call.startedAt
          ? all | bit(j)
          : all,
      0n,
    ),
  );
}

/** The calls that may take effect next: those that started before any that is left ended. */
function startedIn(calls: readonly Call<unknown>[], done: bigint): number[] {
  const left = calls.flatMap((_, i) => ((done & bit(i)) === 0n ? [i] : []));
  const firstEnd = left.reduce((first, i) => Math.min(first, calls[i]!.endedAt), Infinity);
  return left
    .filter((i) => calls[i]!.startedAt < firstEnd)
    .toSorted((a, b) => calls[b]!.endedAt - calls[a]!.endedAt);
}

const bit = (i: number): bigint => 1n << BigInt(i);

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

/** One record: a counter, or a register that is compared and set. */
export const RECORD: Specification<RecordState, RecordOperation> = {
  initial: null,
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
