/**
 * Idempotency keys: within `IDEMPOTENCY_TTL_MS` a call with a key is applied once on a record, and each repetition gets the answer
 * of the first. The kept answers are a part of a record's state, so that a repetition is judged in the order of all calls. That
 * known answers are the same is judged by itself, as it needs no order.
 */
import {
  agrees,
  leftAt,
  type Elapsed,
  type End,
  type ModelAnswer,
  type RecordAnswer,
} from "../../support/models/record.ts";
import type { MsSpan } from "../../support/models/span.ts";
import { describeCall, isAnswered, type Call, type Violation } from "./history.ts";

/** The answer that is kept for an idempotency key on one record. */
export interface KeptAnswer {
  readonly once: string;
  /** What was asked. */
  readonly text: string;
  readonly answer: ModelAnswer;
  readonly end: End;
}

/** Answers that are longer on the wire are not kept; they have changed nothing. */
const VALUE_BYTES_KEPT = 900;
const CONFLICT = "idempotency_conflict";
const LOST = "answer_lost";
/** The one error that is the answer of a call: its reply has the record. */
const OVERFLOW = "quota_overflow";

/** Whether the answer of a call is kept: surely, perhaps, or not, as an error has changed nothing. */
export function isKept({ code, record }: ModelAnswer): boolean | "perhaps" {
  if (code === "kind_mismatch") return false;
  return (record?.value?.length ?? 0) > VALUE_BYTES_KEPT ? "perhaps" : true;
}

/** Whether a call that was answered like that has a row for its answer: it wrote one, or found that of the first call. */
export function keepsRow({ code, record }: RecordAnswer): boolean | "perhaps" {
  if (code !== undefined) return code === OVERFLOW;
  return (record?.value?.length ?? 0) > VALUE_BYTES_KEPT ? "perhaps" : true;
}

/** Whether a kept answer is still there: surely, perhaps, or not. */
export function isStillKept(
  { end }: KeptAnswer,
  at: MsSpan,
  elapsed: Elapsed,
): boolean | "perhaps" {
  const { fromMs, toMs } = leftAt(end, at, elapsed);
  if (fromMs > 0) return true;
  return toMs > 0 ? "perhaps" : false;
}

/** Whether an answer is the one that a repetition gets. */
export function repeats(kept: KeptAnswer, text: string, outcome: RecordAnswer | null): boolean {
  if (outcome === null) return true;
  if (kept.text !== text) return outcome.code === CONFLICT;
  return outcome.code === LOST || agrees(kept.answer, outcome);
}

/** What a call asks, apart from its idempotency key. */
export function textOf(operation: { readonly once?: string }): string {
  return JSON.stringify({ ...operation, once: undefined }, plainly);
}

/** The name of an answer: equal for equal answers. */
export const answerText = (answer: unknown): string => JSON.stringify(answer, plainly);

const plainly = (_: string, value: unknown): unknown =>
  typeof value === "bigint" ? `${value}n` : value === Infinity ? "Infinity" : value;

/** A call of any kind that may have an idempotency key. */
export interface Onceable {
  readonly key: string;
  readonly once?: string;
}

/** What a check of answers needs to know of the server. */
export interface AnswerTerms {
  readonly ttlMs: number;
  /** How much of the time of a key's object may have passed. */
  readonly elapsed: (key: string, since: MsSpan, at: MsSpan) => MsSpan;
}

/** What is known of the answer of an idempotency key on one record. */
interface Known<Operation, Outcome> {
  /** Since when the answer may have been kept: any earlier call under the key may have been the first, also one that got none. */
  readonly sinceMs: number;
  /** A call that was answered; null before there is one. */
  call: Call<Operation, Outcome> | null;
}

/**
 * Answers that should be the same, and are not: of calls with one idempotency key on one record and over one kind of door, the
 * later of which was surely executed before the answer of the first one was forgotten.
 */
export function checkSameAnswers<Operation extends Onceable, Outcome>(
  calls: readonly Call<Operation, Outcome>[],
  { ttlMs, elapsed }: AnswerTerms,
): Violation[] {
  const violations: Violation[] = [];
  const all = new Map<string, Known<Operation, Outcome>>();
  for (const call of calls) {
    const { key, once } = call.operation;
    if (once === undefined) continue;
    const name = JSON.stringify([key, once]);
    let known = all.get(name);
    if (known === undefined) all.set(name, (known = { sinceMs: call.begun.ms, call: null }));
    if (!isAnswered(call) || isNotKept(call.outcome)) continue;
    const kept = known.call;
    if (kept === null) {
      known.call = call;
      continue;
    }
    const since = { fromMs: known.sinceMs, toMs: kept.ended!.ms };
    const at = { fromMs: call.begun.ms, toMs: call.ended.ms };
    if (elapsed(key, since, at).toMs >= ttlMs) known.call = call;
    else if (kept.door === call.door && textOf(kept.operation) === textOf(call.operation)) {
      if (answerText(kept.outcome) === answerText(call.outcome)) continue;
      violations.push({
        promise: "Idempotency keys",
        subject: key,
        message:
          `a repeated call was not answered as the first one: ${once} was answered ${answerText(kept.outcome)}` +
          ` (${describeCall(kept)}), and then ${answerText(call.outcome)} (${describeCall(call)})`,
      });
    }
  }
  return violations;
}

/** Errors and long values are not kept. */
export function isNotKept(outcome: unknown): boolean {
  if (typeof outcome !== "object" || outcome === null) return false;
  const { code, record } = outcome as RecordAnswer;
  return code !== undefined || (record?.value?.length ?? 0) > VALUE_BYTES_KEPT;
}
