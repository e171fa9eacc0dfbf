/**
 * What a request does to the one record under its key, and what its answer says: dialects 7.3, edge and 2, in the plainest
 * words. Written from the protocol's text, not from the engine, so that the two can disagree.
 *
 * When a request was executed is known as a span, and what follows from that time is as uncertain. So a request has several
 * outcomes where a record may have expired, or not.
 */
import type { MsSpan } from "./span.ts";

/** When a record ends: `left` after a moment that lies in `since`. */
export interface End {
  readonly since: MsSpan;
  readonly left: MsSpan;
}

export type RecordState =
  | { readonly kind: "counter"; readonly quota: bigint; readonly unit: number; readonly end: End }
  | { readonly kind: "buffer"; readonly value: string; readonly unit: number; readonly end: End }
  | null;

/** Units are those of 7.3: 1 ns, 2 µs, 3 ms, 4 s, 5 min, 6 h. Any other is refused. */
export interface Ttl {
  readonly count: bigint | number;
  readonly unit: number;
}

export type ChangeOf = "patch" | "increase" | "decrease";

/** What is asked of a record. Values have one character a byte. */
export type RecordOperation = Asked &
  (
    | { readonly name: "insert"; readonly quota: bigint; readonly ttl: Ttl }
    | { readonly name: "increment"; readonly by: bigint; readonly ttl: Ttl }
    | { readonly name: "change"; readonly change: ChangeOf; readonly amount: bigint }
    /** `unit` of the edge dialect; in the others the amount is in the record's own unit. */
    | {
        readonly name: "expire";
        readonly change: ChangeOf;
        readonly amount: bigint | number;
        readonly unit?: number;
      }
    | { readonly name: "purge" | "query" | "get" }
    | { readonly name: "set"; readonly value: string; readonly ttl: Ttl }
    | {
        readonly name: "compareAndSet";
        readonly expected: string | null;
        readonly value: string | null;
        /** 0 ms where the record is removed: what is on the wire is compared under an idempotency key. */
        readonly ttl: Ttl;
      }
  );

interface Asked {
  readonly key: string;
  /** `throttr`: 7.3; `pairs`: dialect 2, with its units as those of 7.3. Keys of pairs are keys of their own. */
  readonly dialect: "throttr" | "edge" | "pairs";
  /** Of quotas and sizes on the wire; 8 unless given. */
  readonly valueBytes?: 1 | 2 | 4 | 8;
  /** Idempotency key. */
  readonly once?: string;
}

/** What an answer shows of a record; what is not given, it does not show. */
export interface ShownRecord {
  readonly kind?: "counter" | "buffer";
  readonly quota?: bigint;
  readonly value?: string;
  readonly unit?: number;
  /** What is left of its life, in ms. See `leftOfTtl` and `leftOfMs`. */
  readonly left?: MsSpan;
}

/** What an answer says; what is not given, it does not say. */
export interface RecordAnswer {
  /** Status 01, or applied. */
  readonly success?: boolean;
  /** Of a read, after a change, or why there was none; null where it says that there is no record. */
  readonly record?: ShownRecord | null;
  /** The error that the record is the reason for: `kind_mismatch`, `quota_overflow`. */
  readonly code?: string;
}

/** One thing that may come of a request. */
export interface Outcome {
  readonly state: RecordState;
  readonly answer: ModelAnswer;
}

/** An answer with all that it may show. */
export interface ModelAnswer {
  readonly success: boolean;
  readonly record: (Required<Pick<ShownRecord, "kind" | "unit" | "left">> & ShownRecord) | null;
  readonly code: string | null;
}

const MISMATCH = "kind_mismatch";
const OVERFLOW = "quota_overflow";

/** How much time of the server may have passed between two moments. */
export type Elapsed = (since: MsSpan, at: MsSpan) => MsSpan;

const UNITS_MS = [0, 1e-6, 1e-3, 1, 1e3, 60e3, 3600e3];
const U64_MAX = (1n << 64n) - 1n;
/** Times end with the u64 range of nanoseconds, in the year 2554. Longer lives than this end near it. */
const LONGEST_MS = 1.6e13;
const FAR: MsSpan = { fromMs: LONGEST_MS, toMs: Infinity };
/** Answers round to a nanosecond and to a millisecond, and the model to a double. */
const ROUNDING_MS = 1e-2;

export const unitMs = (unit: number): number => UNITS_MS[unit] ?? 0;

/** The largest number that a field of so many bytes can say. */
export const valueMax = (valueBytes = 8): bigint => (1n << BigInt(8 * valueBytes)) - 1n;

/** What a TTL in a reply of 7.3 or dialect 2 says of the time left: that less 1 ns, rounded down, or at least the largest number. */
export function leftOfTtl(count: bigint, unit: number, valueBytes = 8): MsSpan {
  const fromMs = Number(count) * unitMs(unit);
  const toMs = count === valueMax(valueBytes) ? Infinity : Number(count + 1n) * unitMs(unit);
  return { fromMs, toMs };
}

/** What milliseconds that are rounded up say of the time left. */
export const leftOfMs = (ttlMs: number): MsSpan => ({ fromMs: ttlMs - 1, toMs: ttlMs });

/** All that may come of a request that is executed at some moment of a span. */
export function execute(
  state: RecordState,
  operation: RecordOperation,
  at: MsSpan,
  elapsed: Elapsed,
): readonly Outcome[] {
  return living(state, at, elapsed).flatMap((live) => executeOn(live, operation, at, elapsed));
}

/** The record that a request may find: it has expired, or not. */
export function living(state: RecordState, at: MsSpan, elapsed: Elapsed): readonly RecordState[] {
  if (state === null) return [null];
  const { fromMs, toMs } = leftAt(state.end, at, elapsed);
  if (fromMs > 0) return [state];
  return toMs > 0 ? [state, null] : [null];
}

export function leftAt({ since, left }: End, at: MsSpan, elapsed: Elapsed): MsSpan {
  const passed = elapsed(since, at);
  return { fromMs: left.fromMs - passed.toMs, toMs: left.toMs - passed.fromMs };
}

/** As `execute`, on a record of which it is known that it has not expired. */
export function executeOn(
  state: RecordState,
  operation: RecordOperation,
  at: MsSpan,
  elapsed: Elapsed,
): readonly Outcome[] {
  const { dialect, valueBytes } = operation;
  const shown = (record: RecordState): ModelAnswer["record"] => showOf(record, at, elapsed);
  const answer = (success: boolean, after: RecordState): Outcome[] => [
    { state: after, answer: { success, record: shown(after), code: null } },
  ];
  // Dialects without error codes say no more than that it failed.
  const error = (code: string): Outcome[] => [
    { state, answer: { success: false, record: null, code: dialect === "edge" ? code : null } },
  ];
  switch (operation.name) {
    case "query":
      if (state?.kind === "buffer") return error(MISMATCH);
      return [reading(state, shown(state), valueBytes)];
    case "get":
      if (state?.kind === "counter") return error(MISMATCH);
      if (state !== null && BigInt(state.value.length) > valueMax(valueBytes))
        return answer(false, state).map(hidden);
      return [reading(state, shown(state), valueBytes)];
    case "purge":
      return answer(state !== null, null);
    case "insert": {
      const { quota, ttl } = operation;
      const isFree = state === null || dialect === "pairs";
      if (unitMs(ttl.unit) === 0 || !isFree) return answer(false, state);
      return answer(true, made({ kind: "counter", quota }, ttl, at));
    }
    case "set": {
      const { value, ttl } = operation;
      if (state?.kind === "counter") return error(MISMATCH);
      if (unitMs(ttl.unit) === 0) return answer(false, state);
      return answer(true, made({ kind: "buffer", value }, ttl, at));
    }
    case "increment": {
      const { by, ttl } = operation;
      if (state?.kind === "buffer") return error(MISMATCH);
      if (state === null) return answer(true, made({ kind: "counter", quota: by }, ttl, at));
      const quota = state.quota + by;
      if (quota <= U64_MAX) return answer(true, { ...state, quota });
      return [{ state, answer: { success: false, record: shown(state), code: OVERFLOW } }];
    }
    case "change": {
      if (state?.kind === "buffer") return error(MISMATCH);
      if (state === null) return answer(false, null);
      const quota = quotaAfter(state.quota, operation);
      return quota === null ? answer(false, state) : answer(true, { ...state, quota });
    }
    case "expire": {
      if (state === null) return answer(false, null);
      const { change, amount, unit = state.unit } = operation;
      const byMs = Number(amount) * unitMs(unit);
      const end = endAfter(state.end, change, byMs, at);
      return living(end === null ? null : { ...state, end }, at, elapsed).flatMap((after) =>
        answer(true, after),
      );
    }
    case "compareAndSet": {
      const { expected, value, ttl } = operation;
      if (state?.kind === "counter") return error(MISMATCH);
      if ((state?.value ?? null) !== expected) return answer(false, state);
      return answer(true, value === null ? null : made({ kind: "buffer", value }, ttl, at));
    }
  }
}

/** The answer says that there is no such record, though there is one. */
function hidden({ state, answer }: Outcome): Outcome {
  return { state, answer: { ...answer, record: null } };
}

function reading(state: RecordState, record: ModelAnswer["record"], valueBytes?: number): Outcome {
  const max = valueMax(valueBytes);
  const isTooLarge = record?.quota !== undefined && record.quota > max;
  const shown = isTooLarge ? { ...record, quota: max } : record;
  return { state, answer: { success: state !== null, record: shown, code: null } };
}

function showOf(record: RecordState, at: MsSpan, elapsed: Elapsed): ModelAnswer["record"] {
  if (record === null) return null;
  const { kind, unit, end } = record;
  const left = leftAt(end, at, elapsed);
  return kind === "counter"
    ? { kind, unit, left, quota: record.quota }
    : { kind, unit, left, value: record.value };
}

type Made =
  | { readonly kind: "counter"; readonly quota: bigint }
  | { readonly kind: "buffer"; readonly value: string };

function made(what: Made, { count, unit }: Ttl, at: MsSpan): RecordState {
  const ms = Number(count) * unitMs(unit);
  return ms === 0 ? null : { ...what, unit, end: endIn(ms, at) };
}

function endIn(ms: number, since: MsSpan): End {
  return { since, left: ms >= LONGEST_MS ? FAR : { fromMs: ms, toMs: ms } };
}

/** Null for an end that has come for certain. */
function endAfter({ since, left }: End, change: ChangeOf, byMs: number, at: MsSpan): End | null {
  if (change === "patch") return byMs === 0 ? null : endIn(byMs, at);
  const by = change === "increase" ? byMs : -byMs;
  // Of an end beyond the range it is known that at least the longest life is left.
  const fromMs = Math.min(left.fromMs + by, LONGEST_MS);
  const toMs = left.toMs + by >= LONGEST_MS ? Infinity : left.toMs + by;
  return { since, left: { fromMs, toMs } };
}

type Change = Extract<RecordOperation, { name: "change" }>;

/** Null where it would leave the range, which changes nothing. */
function quotaAfter(quota: bigint, { change, amount, dialect, valueBytes }: Change): bigint | null {
  if (change === "patch") return amount;
  if (change === "increase") return quota + amount > valueMax(valueBytes) ? null : quota + amount;
  if (quota >= amount) return quota - amount;
  return dialect === "pairs" ? 0n : null;
}

/** Whether an answer can be the one that the model expects. */
export function agrees(expected: ModelAnswer, { success, record, code }: RecordAnswer): boolean {
  if (code === undefined ? expected.code === MISMATCH : code !== expected.code) return false;
  if (success !== undefined && success !== expected.success) return false;
  if (record === undefined) return true;
  if (record === null || expected.record === null) return record === expected.record;
  return showsSame(expected.record, record);
}

function showsSame(expected: NonNullable<ModelAnswer["record"]>, shown: ShownRecord): boolean {
  const { kind, quota, value, unit, left } = shown;
  if (kind !== undefined && kind !== expected.kind) return false;
  if (quota !== undefined && quota !== expected.quota) return false;
  if (value !== undefined && value !== expected.value) return false;
  if (unit !== undefined && unit !== expected.unit) return false;
  return left === undefined || intersection(expected.left, left) !== null;
}

/** What is known of a record when an answer has shown what is left of its life: the tighter of the two. */
export function sharpened(
  state: RecordState,
  answer: RecordAnswer,
  at: MsSpan,
  elapsed: Elapsed,
): RecordState {
  const shown = answer.record?.left;
  if (state === null || shown === undefined) return state;
  const { end } = state;
  const left = intersection(leftAt(end, at, elapsed), shown);
  if (left === null || widthOf(left) + widthOf(at) >= widthOf(end.left) + widthOf(end.since))
    return state;
  return { ...state, end: { since: at, left } };
}

const widthOf = ({ fromMs, toMs }: MsSpan): number => (toMs === fromMs ? 0 : toMs - fromMs);

function intersection(a: MsSpan, b: MsSpan): MsSpan | null {
  const fromMs = Math.max(a.fromMs, b.fromMs);
  const toMs = Math.min(a.toMs, b.toMs);
  if (fromMs <= toMs) return { fromMs, toMs };
  return fromMs - toMs <= ROUNDING_MS ? { fromMs: toMs, toMs: fromMs } : null;
}

/** Short enough for a message, exact enough to compare. */
export function describeRecord(record: ShownRecord | null): string {
  if (record === null) return "no record";
  const { kind, quota, value, unit, left } = record;
  const what = quota !== undefined ? `${quota}` : value !== undefined ? shortened(value) : "";
  const name =
    kind ?? (quota !== undefined ? "counter" : value !== undefined ? "buffer" : "record");
  const time = left === undefined ? "" : `, ${spanText(left)} left`;
  return `${name} ${what}`.trim() + (unit === undefined ? "" : ` in unit ${unit}`) + time;
}

/** A record as it is at some moment of a span. */
export function describeState(state: RecordState, at: MsSpan, elapsed: Elapsed): string {
  return describeRecord(state === null ? null : { ...state, left: leftAt(state.end, at, elapsed) });
}

export function spanText({ fromMs, toMs }: MsSpan): string {
  if (fromMs >= LONGEST_MS || toMs === Infinity) return `more than ${msText(fromMs)}`;
  return toMs - fromMs < ROUNDING_MS ? msText(fromMs) : `${msText(fromMs)} to ${msText(toMs)}`;
}

const msText = (ms: number): string => `${Number(ms.toFixed(3))} ms`;

const VALUE_CHARACTERS_MAX = 24;

function shortened(value: string): string {
  const text = JSON.stringify(value.slice(0, VALUE_CHARACTERS_MAX));
  return value.length > VALUE_CHARACTERS_MAX ? `${text}… (${value.length} bytes)` : text;
}

export function describeAnswer({ success, record, code }: RecordAnswer | ModelAnswer): string {
  if (code !== undefined && code !== null) return code;
  const parts = [
    ...(success === undefined ? [] : [success ? "success" : "failure"]),
    ...(record === undefined ? [] : [describeRecord(record)]),
  ];
  return parts.join(", ");
}

/** As a person would write it. */
export function describeOperation(operation: RecordOperation): string {
  const { name, dialect, once } = operation;
  const ofKey = once === undefined ? "" : ` once as ${JSON.stringify(once)}`;
  return `${name.toUpperCase()}${argumentsOf(operation)} (${dialect}${ofKey})`;
}

function argumentsOf(operation: RecordOperation): string {
  const ttl = ({ count, unit }: Ttl): string => `for ${count} of unit ${unit}`;
  const text = (value: string | null): string => (value === null ? "nothing" : shortened(value));
  switch (operation.name) {
    case "insert":
      return ` ${operation.quota} ${ttl(operation.ttl)}`;
    case "increment":
      return ` by ${operation.by} ${ttl(operation.ttl)}`;
    case "change":
      return ` quota, ${operation.change} ${operation.amount}`;
    case "expire":
      return ` TTL, ${operation.change} ${operation.amount} of unit ${operation.unit ?? "its own"}`;
    case "set":
      return ` ${text(operation.value)} ${ttl(operation.ttl)}`;
    case "compareAndSet":
      return ` ${text(operation.expected)} to ${text(operation.value)}`;
    default:
      return "";
  }
}
