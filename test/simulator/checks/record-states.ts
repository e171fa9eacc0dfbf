/**
 * What a key holds after each of its calls, as the search for their order asks for it: a record, the answers that are kept for
 * idempotency keys, and a record that has ended, as long as it may come back.
 */
import {
  agrees,
  executeOn,
  leftAt,
  living,
  sharpened,
  type Elapsed,
  type ModelAnswer,
  type RecordAnswer,
  type RecordOperation,
  type RecordState,
} from "../../support/models/record.ts";
import type { MsSpan } from "../../support/models/span.ts";
import {
  answerText,
  isKept,
  isStillKept,
  repeats,
  textOf,
  type KeptAnswer,
} from "./idempotency.ts";
import type { Specification } from "./linearize.ts";
import type { ObjectTime } from "./object-time.ts";

export const READS: readonly string[] = ["query", "get"];

/** A record that has ended, which no row says: requests find it again where the time of its object goes back before its end. */
interface Ended {
  readonly record: NonNullable<RecordState>;
  /** Of the object's returns, the first one that it may come back at. */
  readonly from: number;
}

/** What a request finds under a key. */
interface Found {
  readonly record: RecordState;
  readonly ended: Ended | null;
}

/** Besides, the answers that are kept for idempotency keys on it. */
export interface KeyState extends Found {
  readonly kept: readonly KeptAnswer[];
}

const INITIAL: KeyState = { record: null, ended: null, kept: [] };

/** Promises that a search may leave out, to find the broken one. */
export interface Leniency {
  readonly elapsed?: Elapsed;
  readonly forgetsAnswers?: boolean;
}

export class RecordStates {
  /** Of the object of the key. */
  readonly #time: ObjectTime;
  readonly #elapsed: Elapsed;
  readonly #repeated: ReadonlySet<string>;
  readonly #answersTtlMs: number;
  readonly #keptNames = new WeakMap<readonly KeptAnswer[], string>();
  readonly #keptNumbers = new Map<string, number>();

  /**
   * @param repeated idempotency keys that came more than once
   * @param answersTtlMs how long answers are kept for idempotency keys
   */
  constructor(time: ObjectTime, repeated: ReadonlySet<string>, answersTtlMs: number) {
    this.#time = time;
    this.#elapsed = (since, at) => time.elapsed(since, at);
    this.#repeated = repeated;
    this.#answersTtlMs = answersTtlMs;
  }

  specification({
    elapsed = this.#elapsed,
    forgetsAnswers = false,
  }: Leniency): Specification<KeyState, RecordOperation, RecordAnswer> {
    return {
      initial: INITIAL,
      statesAfter: (state, operation, outcome, at) =>
        operation.once === undefined || forgetsAnswers || !this.#repeated.has(operation.once)
          ? this.#statesOf(state, operation, outcome, at, elapsed)
          : this.#statesOnce(state, operation, outcome, at, elapsed),
      isTelling: ({ record }) => (record?.quota ?? record?.value) !== undefined,
      isWithoutEffect: ({ name }, { success, code }) =>
        READS.includes(name) || success === false || code !== undefined,
      nameOf: ({ record, ended, kept }) =>
        nameOf(record) +
        (ended === null ? "" : ` after ${nameOf(ended.record)} ${ended.from}`) +
        (kept.length === 0 ? "" : this.#nameOfKept(kept)),
      twinOf: (operation, outcome) =>
        operation.once === undefined ? textOf(operation) + answerText(outcome) : null,
    };
  }

  /** Equal for equal answers. Many states share what is kept, so that each is named once. */
  #nameOfKept(kept: readonly KeptAnswer[]): string {
    let name = this.#keptNames.get(kept);
    if (name === undefined) {
      const text = answerText(kept);
      const known = this.#keptNumbers.get(text);
      name = String(known ?? this.#keptNumbers.size);
      if (known === undefined) this.#keptNumbers.set(text, this.#keptNumbers.size);
      this.#keptNames.set(kept, name);
    }
    return ` ${name}`;
  }

  #statesOf(
    state: KeyState,
    operation: RecordOperation,
    outcome: RecordAnswer | null,
    at: MsSpan,
    elapsed: Elapsed,
  ): KeyState[] {
    return this.#outcomes(state, operation, outcome, at, elapsed).map((after) =>
      isSame(after, state) ? state : { record: after.record, ended: after.ended, kept: state.kept },
    );
  }

  /** All that may come of a request that was answered like that. */
  #outcomes(
    state: KeyState,
    operation: RecordOperation,
    outcome: RecordAnswer | null,
    at: MsSpan,
    elapsed: Elapsed,
  ): (Found & { readonly answer: ModelAnswer })[] {
    return this.#finds(state, at, elapsed).flatMap((found) =>
      executeOn(found.record, operation, at, elapsed)
        .filter(({ answer }) => outcome === null || agrees(answer, outcome))
        .map((after) => {
          const { answer } = after;
          const record =
            outcome === null ? after.state : sharpened(after.state, outcome, at, elapsed);
          // Only what found no record, and made none, leaves no row.
          const isAbsent = found.record === null && record === null;
          return { record, ended: isAbsent ? found.ended : null, answer };
        }),
    );
  }

  /** What a request may find: a record, none as it has ended, or one again that had ended before the object's time went back. */
  #finds({ record, ended }: Found, at: MsSpan, elapsed: Elapsed): Found[] {
    if (record !== null) {
      return living(record, at, elapsed).map((live) =>
        live === null
          ? { record: null, ended: this.#ended(record, at) }
          : { record: live, ended: null },
      );
    }
    if (ended === null) return [{ record: null, ended }];
    const isBack =
      this.#time.returns[ended.from]!.atMs <= at.toMs &&
      leftAt(ended.record.end, at, elapsed).toMs > 0;
    const still = this.#ended(ended.record, at);
    const absent = { record: null, ended: still?.from === ended.from ? ended : still };
    return isBack ? [absent, { record: ended.record, ended: null }] : [absent];
  }

  /** @returns null where no return of the object's time comes after it */
  #ended(record: NonNullable<RecordState>, at: MsSpan): Ended | null {
    const from = this.#time.returns.findIndex(({ atMs }) => atMs >= at.fromMs);
    return from < 0 ? null : { record, from };
  }

  /** A repeated call gets the answer of the first, unless that is forgotten. */
  #statesOnce(
    state: KeyState,
    operation: RecordOperation,
    outcome: RecordAnswer | null,
    at: MsSpan,
    elapsed: Elapsed,
  ): KeyState[] {
    const states: KeyState[] = [];
    const once = operation.once!;
    const text = textOf(operation);
    const known = state.kept.find((answer) => answer.once === once);
    const isThere = known !== undefined && isStillKept(known, at, elapsed);
    if (isThere !== false && repeats(known!, text, outcome)) states.push(state);
    if (isThere === true) return states;
    const others = state.kept.filter((answer) => answer.once !== once);
    const leftMs = this.#answersTtlMs;
    const end = { since: at, left: { fromMs: leftMs, toMs: leftMs } };
    for (const after of this.#outcomes(state, operation, outcome, at, elapsed)) {
      const { answer, ...found } = after;
      const keeps = isKept(answer);
      if (keeps !== false)
        states.push({ ...found, kept: [...others, { once, text, answer, end }] });
      // No row says that a kept answer has ended.
      if (keeps !== true)
        states.push(isSame(found, state) ? state : { ...found, kept: state.kept });
    }
    return states;
  }
}

const isSame = (a: Found, b: Found): boolean => a.record === b.record && a.ended === b.ended;

function nameOf(record: RecordState): string {
  if (record === null) return "-";
  const { kind, unit, end } = record;
  const what = kind === "counter" ? `${record.quota}` : JSON.stringify(record.value);
  const { since, left } = end;
  return `${what} ${unit} ${since.fromMs} ${since.toMs} ${left.fromMs} ${left.toMs}`;
}
