/**
 * Counters and buffers: requests on a key take effect one after the other, those of one connection in the order in which it sent
 * them; a record past its time is absent; what was acknowledged is there; a call with an idempotency key is applied once.
 *
 * All of that is one question for each key: is there an order of its calls in which each answer is right? If there is none, the
 * checker looks for one with one promise less, and so finds out which was broken.
 */
import {
  describeAnswer,
  describeOperation,
  describeState,
  type Elapsed,
  type RecordAnswer,
  type RecordOperation,
} from "../../support/models/record.ts";
import type { MsSpan } from "../../support/models/span.ts";
import { ROUNDING_MS, SLEWED_PACE } from "./clock-steps.ts";
import { appliedBy } from "./facts.ts";
import type { ClockHistory } from "./clocks.ts";
import {
  describeCall,
  isAnswered,
  type AnsweredCall,
  type Call,
  type Moment,
  type Violation,
} from "./history.ts";
import { isBefore } from "./order.ts";
import { checkSameAnswers, keepsRow } from "./idempotency.ts";
import { ObjectTime } from "./object-time.ts";
import { asFarAsKept } from "./relaxed-calls.ts";
import { linearize, type Linearization, type Stuck } from "./linearize.ts";
import {
  READS,
  RecordStates,
  type KeyState,
  type Leniency,
  type RecordCall,
} from "./record-states.ts";

export type { RecordCall };

export interface RecordTerms {
  readonly clocks: ClockHistory;
  /** The object that owns a key, as `clocks` names it. */
  readonly objectOf: (key: string) => string;
  /** How long answers are kept under idempotency keys, at least and at most: deployments may change it. */
  readonly answersKept: MsSpan;
  /** Whether an answer may come from a second copy of the key's object, which a partition keeps alive. */
  readonly mayBeStale?: (object: string, call: RecordCall) => boolean;
  /** Whether a connection has ended in a way after which the server must have executed all writes that were sent over it. */
  readonly hasTaken?: (connection: number) => boolean;
  /** Whether an object had no room for records at some time. */
  readonly wasFull?: (object: string) => boolean;
  /** What was lost for good of what there was under a key; null where nothing was. */
  readonly lossOf?: (key: string) => Loss | null;
  /**
   * Whether an object may have lost what it answered between two moments of true time: given where it answers before that is on disk.
   */
  readonly hasLost?: (object: string, answered: MsSpan) => boolean;
}

/** What there was under a key was lost for good. */
export interface Loss {
  readonly at: Moment;
  /** Nothing is left; else there may be what it was a while before. */
  readonly isWhole: boolean;
}

export interface RecordsVerdict {
  readonly violations: readonly Violation[];
  /** Keys on which too many calls overlap to be judged. */
  readonly undecided: readonly string[];
  readonly keys: number;
  /** Keys that were read when all their writes had ended: nothing that was acknowledged can have been lost unseen. */
  readonly keysReadAtEnd: number;
}

/** @param made in the order in which they began */
export function checkRecords(made: readonly RecordCall[], terms: RecordTerms): RecordsVerdict {
  const calls = made.map((call) => asFarAsKept(call, lossesFor(call, terms)));
  const violations: Violation[] = [];
  const undecided: string[] = [];
  let keysReadAtEnd = 0;
  const byKey = Map.groupBy(calls, ({ operation }) => operation.key);
  const timeOf = timesOf(calls, terms);
  const elapsed = (key: string, since: MsSpan, at: MsSpan): MsSpan =>
    terms.clocks.elapsed(terms.objectOf(key), since, at);
  const judge = (key: string, part: readonly RecordCall[]): Violation[] => {
    const check = new KeyCheck(key, part, terms, timeOf(terms.objectOf(key)));
    const violation = check.violation();
    if (violation === "undecided") undecided.push(key);
    const found = violation === null || violation === "undecided" ? [] : [violation];
    return [...found, ...checkSameAnswers(part, { ttlMs: terms.answersKept.fromMs, elapsed })];
  };
  for (const [key, ofKey] of byKey) {
    const parts = partsOf(ofKey, terms.lossOf?.(key) ?? null);
    violations.push(...parts.flatMap((part) => judge(key, part)));
    if (isReadAtEnd(ofKey)) keysReadAtEnd++;
  }
  return { violations, undecided, keys: byKey.size, keysReadAtEnd };
}

/** What a crash may take back of a call: nothing where each answer is on disk before it leaves. */
function lossesFor(
  { operation }: RecordCall,
  { objectOf, hasLost }: RecordTerms,
): ((answered: MsSpan) => boolean) | null {
  if (hasLost === undefined) return null;
  return (answered) => hasLost(objectOf(operation.key), answered);
}

/**
 * The calls on a key until all that there was under it was lost, and those after that, which find nothing at first. A call that was
 * under way at the loss has an unknown outcome in both. Where only a part was lost, calls after the loss are not judged.
 */
function partsOf(calls: readonly RecordCall[], loss: Loss | null): readonly RecordCall[][] {
  if (loss === null) return [[...calls]];
  const { at: lostAt, isWhole } = loss;
  const isBehind = ({ begun }: RecordCall): boolean => isBefore(lostAt, begun);
  const isOpenAt = (call: RecordCall): boolean =>
    !isBehind(call) && !isBefore(appliedBy(call), lostAt);
  const toEither = (call: RecordCall): RecordCall =>
    isOpenAt(call) && call.outcome !== "refused"
      ? { ...call, connection: null, outcome: "unknown", settled: appliedBy(call) }
      : call;
  const before = calls.filter((call) => !isBehind(call)).map(toEither);
  const behind = calls.filter((call) => isBehind(call) || isOpenAt(call)).map(toEither);
  return isWhole ? [before, behind] : [before];
}

const isRead = ({ operation }: RecordCall): boolean => READS.includes(operation.name);

const ROWS: readonly string[] = ["insert", "set", "increment", "purge"];

/** Whether the answer proves that the shard wrote a row during the call. With an idempotency key the answer may be an older one. */
const hasRow = (call: RecordCall): boolean =>
  ROWS.includes(call.operation.name) &&
  call.operation.once === undefined &&
  isAnswered(call) &&
  call.outcome.success === true;

/** The time of each object, by its name. */
function timesOf(
  calls: readonly RecordCall[],
  { clocks, objectOf, mayBeStale, hasLost }: RecordTerms,
): (object: string) => ObjectTime {
  const byObject = Map.groupBy(calls.filter(isAnswered), ({ operation }) =>
    objectOf(operation.key),
  );
  const known = new Map<string, ObjectTime>();
  return (object) => {
    let time = known.get(object);
    if (time === undefined) {
      const answered = byObject.get(object) ?? [];
      const readings = answered.filter((call) => mayBeStale?.(object, call) !== true);
      const activity = {
        readings: readings.map(spanOf),
        // The row of a relaxed call comes later.
        rows: hasLost === undefined ? answered.filter(hasRow).map(spanOf) : [],
      };
      known.set(object, (time = new ObjectTime(clocks, object, activity)));
    }
    return time;
  };
}

const spanOf = ({ begun, ended }: RecordCall): MsSpan => ({ fromMs: begun.ms, toMs: ended!.ms });

/**
 * The call, with the time that its record has left measured by the shard's time. Its caller was told a time by the platform's clock,
 * which is longer while the shard's time is ahead of that clock and passes more slowly: by a ninth at most, and by no more than the lead.
 */
function byObjectsTime(
  call: RecordCall,
  begunMs: number,
  clocks: ClockHistory,
  object: string,
): RecordCall {
  if (!isAnswered(call)) return call;
  const outcome: RecordAnswer = call.outcome;
  const { record } = outcome;
  if (record === undefined || record === null || record.left === undefined) return call;
  const lagMs = clocks.lagMost(object, begunMs, call.ended.ms);
  if (lagMs === 0) return call;
  const { fromMs, toMs } = record.left;
  const least = Math.max(fromMs - lagMs, Math.floor(fromMs * SLEWED_PACE)) - ROUNDING_MS;
  return { ...call, outcome: { ...outcome, record: { ...record, left: { fromMs: least, toMs } } } };
}

/** The earliest time at which the answer of a call may have been made: a repeated call gets the answer of the first one. */
function firstBegun(calls: readonly RecordCall[], { operation, begun }: RecordCall): number {
  const { once } = operation;
  if (once === undefined) return begun.ms;
  return calls.find((other) => other.operation.once === once)!.begun.ms;
}

/**
 * The call without what its answer says about the record, as the answer may come from a second copy of the object, whose records
 * are old. A copy can't write rows. So the answer stays if it needed one: for a successful write, or to be kept under an
 * idempotency key.
 */
function withoutStale(call: RecordCall): RecordCall {
  if (!isAnswered(call)) return call;
  const { operation, outcome } = call;
  const { success, code } = outcome;
  if (isRead(call)) return { ...call, outcome: "refused" };
  const keeps = operation.once !== undefined && keepsRow(outcome);
  if (success === true || keeps === true) return call;
  const isWithoutEffect = success === false || code !== undefined;
  return { ...call, outcome: isWithoutEffect && !keeps ? "refused" : "unknown" };
}

/**
 * The call without its refusal, where that may only mean that the shard had no room. Commands have a code for that. In other
 * dialects INSERT and SET get one status for every refusal, which then says nothing about the record.
 */
function withoutRefused(call: RecordCall): RecordCall {
  const { dialect, name } = call.operation;
  const isRefused = isAnswered(call) && call.outcome.success === false;
  const needsRoom = dialect !== "edge" && (name === "insert" || name === "set");
  return isRefused && needsRoom ? { ...call, outcome: "refused" } : call;
}

/** Whether a full shard refuses it: it may add a record, or the answer that an idempotency key keeps. */
function needsRoom({ name, once }: RecordOperation): boolean {
  return once !== undefined || ADDING.includes(name);
}

function isReadAtEnd(calls: readonly RecordCall[]): boolean {
  const end = calls.reduce((last, call) => {
    if (isRead(call) || call.outcome === "refused") return last;
    return Math.max(last, isAnswered(call) ? call.ended.tick : (call.settled?.tick ?? Infinity));
  }, 0);
  return calls.some((call) => isRead(call) && isAnswered(call) && call.begun.tick > end);
}

type Searched = Linearization<KeyState, RecordOperation, RecordAnswer>;

/** A promise that was broken, and how. */
const NOT_EXECUTED = [
  "The end of a connection",
  "a write was not executed that its client had sent before it closed its connection",
] as const;
const UNEXPLAINED = ["Order per key", "no order of the calls explains this"] as const;

/** Operations that add a record where there is none. */
const ADDING = ["insert", "set", "increment", "compareAndSet"];

/** Writes before an answer that may be the lost one. */
const SUSPECTS_MAX = 12;

class KeyCheck {
  readonly #key: string;
  readonly #calls: readonly RecordCall[];
  readonly #elapsed: Elapsed;
  readonly #states: RecordStates;
  readonly #isExecuted: (call: RecordCall) => boolean;

  constructor(key: string, calls: readonly RecordCall[], terms: RecordTerms, time: ObjectTime) {
    this.#key = key;
    const object = terms.objectOf(key);
    // A read whose answer is not known says nothing.
    this.#calls = calls
      .map((call) => (terms.mayBeStale?.(object, call) === true ? withoutStale(call) : call))
      .map((call) => (terms.wasFull?.(object) === true ? withoutRefused(call) : call))
      .filter((call) => call.outcome !== "refused" && (isAnswered(call) || !isRead(call)))
      .map((call) => byObjectsTime(call, firstBegun(calls, call), terms.clocks, object));
    const { hasTaken = () => false } = terms;
    const mayRefuse = terms.wasFull?.(object) === true;
    this.#isExecuted = ({ connection, operation }) =>
      connection !== null && hasTaken(connection) && !(mayRefuse && needsRoom(operation));
    this.#elapsed = (since, at) => time.elapsed(since, at);
    this.#states = new RecordStates(time, repeatedOf(calls), terms.answersKept);
  }

  violation(): Violation | "undecided" | null {
    const found = this.#search(this.#calls);
    if (found.verdict === "stuck") return this.#explain(found.stuck);
    return found.verdict === "undecided" ? "undecided" : null;
  }

  #search(calls: readonly RecordCall[], leniency: Leniency = {}): Searched {
    const isExecuted = leniency.dropsSent === true ? () => false : this.#isExecuted;
    return linearize(this.#states.specification(calls, leniency), calls, isExecuted);
  }

  #isExplained(calls: readonly RecordCall[], leniency?: Leniency): boolean {
    return this.#search(calls, leniency).verdict === "explained";
  }

  /** Which promise was broken: the one without which there is an order. */
  #explain(stuck: Stuck<KeyState, RecordOperation, RecordAnswer>): Violation {
    const { call } = stuck;
    const [promise, reason] = isAnswered(call) ? this.#reason(call) : this.#reasonOfExecuted();
    const at = { fromMs: call.begun.ms, toMs: (call.ended ?? call.begun).ms };
    const states = stuck.states.map(
      ({ record }) => `  ${describeState(record, at, this.#elapsed)}`,
    );
    const message = [
      isAnswered(call)
        ? `${describeOperation(call.operation)} was answered: ${describeAnswer(call.outcome)}`
        : `${describeOperation(call.operation)} was not answered, and certainly executed`,
      `  by ${describeCall(call)}`,
      reason,
      "before it the key could be:",
      ...states,
    ].join("\n");
    return { promise, subject: this.#key, message };
  }

  #reason(call: AnsweredCall<RecordOperation, RecordAnswer>): readonly [string, string] {
    const until = this.#until(call);
    const hasExecuted = until.some((each) => !isAnswered(each) && this.#isExecuted(each));
    if (hasExecuted && this.#isExplained(until, { dropsSent: true })) return NOT_EXECUTED;
    if (this.#isExplained(until, { forgetsAnswers: true })) {
      return ["Idempotency keys", "a call was applied more than once under one idempotency key"];
    }
    if (this.#isExplained(until.map((each) => ({ ...each, connection: null })))) {
      return [
        "Order per key",
        "requests of one connection were not executed in the order in which it sent them",
      ];
    }
    if (this.#isExplained(until, { elapsed: this.#slower }))
      return ["Exact", "a record was there after its end"];
    if (this.#isExplained(until, { elapsed: this.#faster }))
      return ["Exact", "a record was gone before its end"];
    const lost = this.#lostWrite(until, call);
    if (lost !== null) {
      return ["Durable before the reply", `an acknowledged write is lost: ${described(lost)}`];
    }
    if (
      isRead(call) &&
      this.#isExplained(this.#calls.filter(({ begun }) => begun !== call.begun))
    ) {
      return [
        "Order per key",
        "a stale read, or one of what never was: without it all other calls have an order",
      ];
    }
    const undone = this.#undoneWrite(until, call);
    if (undone !== null) {
      return [
        "Durable before the reply",
        `an acknowledged write is lost after it was read: ${described(undone)}`,
      ];
    }
    return UNEXPLAINED;
  }

  /** Why no order explains the answers: it may be that a call has no place in any, though it was certainly executed. */
  #reasonOfExecuted(): readonly [string, string] {
    return this.#isExplained(this.#calls, { dropsSent: true }) ? NOT_EXECUTED : UNEXPLAINED;
  }

  /** Calls that began before an answer came; what was answered later is open. */
  #until({ ended }: AnsweredCall<RecordOperation, RecordAnswer>): RecordCall[] {
    return this.#calls
      .filter(({ begun }) => begun.tick < ended.tick)
      .map((call): RecordCall => {
        const isOpen = isAnswered(call) && call.ended.tick > ended.tick;
        return isOpen ? { ...call, outcome: "unknown" } : call;
      })
      .filter((call) => isAnswered(call) || !isRead(call));
  }

  #slower = (since: MsSpan, at: MsSpan): MsSpan => ({ ...this.#elapsed(since, at), fromMs: 0 });

  /** Records end up to a second and twice as early as they should. */
  #faster = (since: MsSpan, at: MsSpan): MsSpan => {
    const { fromMs, toMs } = this.#elapsed(since, at);
    return { fromMs, toMs: 2 * toMs + 1000 };
  };

  /** The acknowledged write without which there is an order. */
  #lostWrite(until: readonly RecordCall[], call: RecordCall): RecordCall | null {
    const suspects = until.filter(
      (each) => isAnswered(each) && !isRead(each) && each.begun !== call.begun,
    );
    for (const suspect of suspects.slice(-SUSPECTS_MAX).toReversed()) {
      if (!this.#isExplained(until.filter((each) => each !== suspect))) continue;
      const isStale =
        isRead(call) && this.#isExplained(this.#calls.filter((each) => each.begun !== call.begun));
      const isLost = this.#isExplained(this.#calls.filter((each) => each.begun !== suspect.begun));
      if (isLost || !isStale) return suspect;
    }
    return null;
  }

  /** A write that others have seen, and that is gone. */
  #undoneWrite(until: readonly RecordCall[], call: RecordCall): RecordCall | null {
    const suspects = until.filter(
      (each) => isAnswered(each) && !isRead(each) && each.begun !== call.begun,
    );
    const writes = until.filter((each) => !isRead(each) || each.begun === call.begun);
    const isUndone = (suspect: RecordCall): boolean =>
      this.#isExplained(writes.filter((each) => each !== suspect));
    return suspects.slice(-SUSPECTS_MAX).toReversed().find(isUndone) ?? null;
  }
}

function repeatedOf(calls: readonly RecordCall[]): Set<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { operation } of calls) {
    if (operation.once === undefined) continue;
    if (seen.has(operation.once)) repeated.add(operation.once);
    seen.add(operation.once);
  }
  return repeated;
}

const described = (call: RecordCall): string =>
  `${describeOperation(call.operation)} by ${describeCall(call)}`;

/**
 * Answers that came out of order on their connection.
 *
 * @param calls of all kinds that travelled on connections, in the order in which they were sent
 */
export function checkReplyOrder(calls: readonly Call<unknown, unknown>[]): Violation[] {
  const violations: Violation[] = [];
  const latest = new Map<number, Call<unknown, unknown>>();
  for (const call of calls) {
    const { connection, outcome } = call;
    if (connection === null) continue;
    const before = latest.get(connection);
    const isAnswer = outcome !== "unknown" && call.ended !== null;
    if (before !== undefined && isAnswer && !isEndedBefore(before, call)) {
      violations.push({
        promise: "Order per key",
        subject: `connection ${connection}`,
        message: `a request was answered before an earlier one of its connection: ${describeCall(call)}; before it ${describeCall(before)}`,
      });
    }
    latest.set(connection, call);
  }
  return violations;
}

function isEndedBefore(before: Call<unknown, unknown>, call: Call<unknown, unknown>): boolean {
  return (
    before.outcome !== "unknown" && before.ended !== null && before.ended.tick < call.ended!.tick
  );
}
