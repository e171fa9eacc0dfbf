/**
 * A key that one connection alone writes to: every state that it may be found in after a crash.
 *
 * The requests of a connection on one key are executed in the order sent. So after a crash the key is
 * as after its last acknowledged request, or as after any later one that was sent.
 */
import {
  agrees,
  describeState,
  leftAt,
  sharpened,
  type RecordAnswer,
  type RecordOperation,
  type RecordState,
} from "../../test/support/models/record.ts";
import type { MsSpan } from "../../test/support/models/span.ts";
import { outcomesOf } from "./record.ts";
import { elapsed } from "./time.ts";

/** A QUERY or a GET, and its answer. */
export interface Read {
  readonly operation: RecordOperation;
  readonly answer: RecordAnswer;
}

export class OwnKey {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Largest value that it is set to, in bytes. */
  readonly valueBytesMax: number;
  /** After the last acknowledged request, and after each later one that was sent. */
  #states: RecordState[] = [null];

  /** @param keyBytesMin a shorter name is filled up to so many bytes */
  constructor(name: string, keyBytesMin: number, valueBytesMax: number) {
    this.name = name;
    this.bytes = new TextEncoder().encode(name.padEnd(keyBytesMin, "-"));
    this.valueBytesMax = valueBytesMax;
  }

  /** As the next request will find it. */
  get state(): RecordState {
    return this.#states.at(-1)!;
  }

  /** Requests that were sent and not acknowledged. */
  get inDoubt(): number {
    return this.#states.length - 1;
  }

  /**
   * Notes that a request is sent.
   *
   * @throws Error when it is uncertain whether a record has expired: choose such a request better
   */
  sent(operation: RecordOperation | null, at: MsSpan): void {
    const [outcome, ...others] = outcomesOf(this.state, operation, at);
    if (others.length > 0) throw new Error("the model can't tell whether the record has expired");
    this.#states.push(outcome!.state);
  }

  /** Notes that the earliest request in doubt is answered. */
  acknowledged(): void {
    this.#states.shift();
  }

  /** Goes on from what reads have found after a crash. Returns false, and changes nothing, when no state explains them. */
  settle(reads: readonly Read[], at: MsSpan): boolean {
    const possible = this.#states.filter((state) => reads.every((read) => shows(state, read, at)));
    const [first, ...others] = new Set(possible.map((state) => sharpenedBy(state, reads, at)));
    if (first === undefined) return false;
    this.#states = [others.reduce((a, b) => merge(a, b, at), first)];
    return true;
  }

  /** What the key may be, for a message. */
  describeStates(at: MsSpan): string {
    const [acknowledged, ...later] = this.#states.map((state) => describeState(state, at, elapsed));
    const unanswered = later.map(
      (text, index) => `  or, with ${index + 1} not acknowledged: ${text}`,
    );
    return [`  after the acknowledged requests: ${acknowledged}`, ...unanswered].join("\n");
  }
}

function shows(state: RecordState, { operation, answer }: Read, at: MsSpan): boolean {
  return outcomesOf(state, operation, at).some((outcome) => agrees(outcome.answer, answer));
}

function sharpenedBy(state: RecordState, reads: readonly Read[], at: MsSpan): RecordState {
  return reads.reduce((known, { answer }) => sharpened(known, answer, at, elapsed), state);
}

/** Two states that both agree with what was found differ in their ends alone. */
function merge(a: RecordState, b: RecordState, at: MsSpan): RecordState {
  if (a === null || b === null) return a;
  const [left, other] = [a, b].map(({ end }) => leftAt(end, at, elapsed)) as [MsSpan, MsSpan];
  const fromMs = Math.min(left.fromMs, other.fromMs);
  const toMs = Math.max(left.toMs, other.toMs);
  return { ...a, end: { since: at, left: { fromMs, toMs } } };
}
