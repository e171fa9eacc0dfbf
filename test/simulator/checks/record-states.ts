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
  type End,
  type ModelAnswer,
  type RecordAnswer,
  type RecordOperation,
  type RecordState,
} from "../../support/models/record.ts";
import type { MsSpan } from "../../support/models/span.ts";
import {
  answerText,
  isKept,
  isNotKept,
  isStillKept,
  repeats,
  textOf,
  type KeptAnswer,
} from "./idempotency.ts";
import { isAnswered, type Call } from "./history.ts";
import type { Specification } from "./linearize.ts";
import type { ObjectTime } from "./object-time.ts";

export type RecordCall = Call<RecordOperation, RecordAnswer>;

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

/** An answer that a call got. */
interface KnownAnswer {
  readonly text: string;
  readonly outcome: RecordAnswer;
  readonly at: MsSpan;
  /** Since when it may have been kept: it may be that of any earlier call under the key. */
  readonly since: MsSpan;
}

/** By idempotency keys. */
type Answers = ReadonlyMap<string, readonly KnownAnswer[]>;

/** Promises that a search may leave out, to find the broken one. */
export interface Leniency {
  readonly elapsed?: Elapsed;
  readonly forgetsAnswers?: boolean;
  /** What was sent before the end of a connection may be lost with it. */
  readonly dropsSent?: boolean;
}

export class RecordStates {
  /** Of the object of the key. */
  readonly #time: ObjectTime;
  readonly #elapsed: Elapsed;
  readonly #repeated: ReadonlySet<string>;
  readonly #answersKept: MsSpan;
  readonly #texts = new Map<RecordOperation, string>();

  /**
   * @param repeated idempotency keys that came more than once
   * @param answersKept how long answers are kept for idempotency keys, at least and at most
   */
  constructor(time: ObjectTime, repeated: ReadonlySet<string>, answersKept: MsSpan) {
    this.#time = time;
    this.#elapsed = (since, at) => time.elapsed(since, at);
    this.#repeated = repeated;
    this.#answersKept = answersKept;
  }

  /** @param calls that are judged, in the order in which they began */
  specification(
    calls: readonly RecordCall[],
    { elapsed = this.#elapsed, forgetsAnswers = false }: Leniency,
  ): Specification<KeyState, RecordOperation, RecordAnswer> {
    const answers = this.#answersOf(calls);
    return {
      initial: INITIAL,
      statesAfter: (state, operation, outcome, at) =>
        operation.once === undefined || forgetsAnswers || !this.#repeated.has(operation.once)
          ? this.#statesOf(state, operation, outcome, at, elapsed)
          : this.#statesOnce(state, operation, outcome, at, elapsed, answers),
      isTelling: ({ record }) => (record?.quota ?? record?.value) !== undefined,
      isWithoutEffect: ({ name }, { success, code }) =>
        READS.includes(name) || success === false || code !== undefined,
      nameOf: ({ record, ended, kept }) =>
        nameOf(record) +
        (ended === null
          ? ""
          : ` after ${nameOf(ended.record)} ${nameOfEnd(ended.record.end)} ${ended.from}`) +
        kept.map(nameOfKept).join(""),
      covers,
      twinOf: (operation, outcome) =>
        this.#textOf(operation) + answerText([operation.once, outcome]),
    };
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
    answers: Answers,
  ): KeyState[] {
    const states: KeyState[] = [];
    const once = operation.once!;
    const text = this.#textOf(operation);
    const known = state.kept.find((answer) => answer.once === once);
    const isThere = known !== undefined && isStillKept(known, at, elapsed);
    if (isThere !== false && repeats(known!, text, outcome)) states.push(state);
    if (isThere === true) return states;
    const others = state.kept.filter((answer) => answer.once !== once);
    const end = { since: at, left: this.#answersKept };
    for (const after of this.#outcomes(state, operation, outcome, at, elapsed)) {
      const { answer, ...found } = after;
      const keeps = isKept(answer);
      const kept = { once, text, answer, end };
      const isOpen = keeps !== true || !this.#contradicts(kept, at, elapsed, answers);
      if (keeps !== false && isOpen) states.push({ ...found, kept: withKept(others, kept) });
      // No row says that a kept answer has ended.
      if (keeps !== true)
        states.push(isSame(found, state) ? state : { ...found, kept: state.kept });
    }
    return states;
  }

  /** Whether a call under the same idempotency key was answered otherwise, though neither can have been forgotten before the other. */
  #contradicts(
    { once, text, answer }: KeptAnswer,
    at: MsSpan,
    elapsed: Elapsed,
    answers: Answers,
  ): boolean {
    const ttlMs = this.#answersKept.fromMs;
    return (answers.get(once) ?? []).some(
      (known) =>
        known.text === text &&
        !agrees(answer, known.outcome) &&
        elapsed(at, known.at).toMs < ttlMs &&
        elapsed(known.since, at).toMs < ttlMs,
    );
  }

  /** What is known to have been answered, and kept, under idempotency keys that came more than once. */
  #answersOf(calls: readonly RecordCall[]): Answers {
    const known = new Map<string, KnownAnswer[]>();
    const firsts = new Map<string, number>();
    for (const call of calls) {
      const { once } = call.operation;
      if (once === undefined || !this.#repeated.has(once)) continue;
      if (!firsts.has(once)) firsts.set(once, call.begun.ms);
      if (!isAnswered(call) || isNotKept(call.outcome)) continue;
      const at = { fromMs: call.begun.ms, toMs: call.ended.ms };
      const since = { fromMs: firsts.get(once)!, toMs: call.ended.ms };
      const answer = { text: this.#textOf(call.operation), outcome: call.outcome, at, since };
      known.set(once, [...(known.get(once) ?? []), answer]);
    }
    return known;
  }

  #textOf(operation: RecordOperation): string {
    let text = this.#texts.get(operation);
    if (text === undefined) this.#texts.set(operation, (text = textOf(operation)));
    return text;
  }
}

/** In the order of their idempotency keys, so that the order in which they were made makes no difference. */
const withKept = (others: readonly KeptAnswer[], kept: KeptAnswer): readonly KeptAnswer[] => {
  const at = others.findIndex(({ once }) => once > kept.once);
  return at < 0 ? [...others, kept] : others.toSpliced(at, 0, kept);
};

const isSame = (a: Found, b: Found): boolean => a.record === b.record && a.ended === b.ended;

/** The name of all but the moment from which a record's life is counted: see `covers`. */
function nameOf(record: RecordState): string {
  if (record === null) return "-";
  const { kind, unit, end } = record;
  const what = kind === "counter" ? `${record.quota}` : JSON.stringify(record.value);
  return `${what} ${unit} ${end.left.fromMs} ${end.left.toMs}`;
}

const nameOfEnd = ({ since, left }: End): string =>
  `${since.fromMs} ${since.toMs} ${left.fromMs} ${left.toMs}`;

function nameOfKept({ once, answer: { success, code, record }, end }: KeptAnswer): string {
  const shown =
    record === null
      ? ""
      : `${record.kind} ${record.quota ?? record.value} ${record.left.fromMs} ${record.left.toMs}`;
  return ` ${once} ${success} ${code} ${shown} ${nameOfEnd(end)}`;
}

/** Of two states of one name: all that may come of the other may come of this one, of whose time less is known. */
function covers({ record }: KeyState, other: KeyState): boolean {
  if (record === null || other.record === null) return true;
  const a = record.end.since;
  const b = other.record.end.since;
  return a.fromMs <= b.fromMs && a.toMs >= b.toMs;
}
