/**
 * Limits: what clients were granted is within the bound of the strategy over every interval, and what a limit says is left follows
 * from what was charged: no charge is lost, and none is made twice.
 *
 * Each call becomes charges and gifts: units that left a limit, or came back to it, at some moment of a span of true time.
 */
import {
  configurationOf,
  type LimitResult,
  type LimitStrategy,
} from "../../../src/wire/edge/limit.ts";
import { lifeMsMaxOf } from "../../support/simulation/judges.ts";
import type { MsSpan } from "../../support/models/span.ts";
import type { ClockHistory } from "./clocks.ts";
import {
  describeCall,
  isAnswered,
  spanOf,
  type Call,
  type Moment,
  type Violation,
} from "./history.ts";
import { checkSameAnswers } from "./idempotency.ts";
import { boundViolation, figureViolation } from "./limit-bounds.ts";
import { refusalViolation } from "./limit-refusals.ts";
import { withoutRepetitions } from "./limit-repetitions.ts";
import { emptyTrack, noteInexact, type LimitTrack } from "./limit-track.ts";
import { type Activity, ObjectTime } from "./object-time.ts";
import { asFarAsKept } from "./relaxed-calls.ts";
import { checkReservations } from "./reservations.ts";

/** A limit of one caller: the name and key of it, in any form that is the same throughout a run. */
interface OfLimit {
  readonly key: string;
}

export type LimitOperation = OfLimit &
  (
    | {
        readonly name: "limit" | "refund";
        readonly cost: number;
        readonly once?: string;
        readonly isRelaxed?: boolean;
      }
    | { readonly name: "peek" | "reset" }
    | {
        readonly name: "reserve";
        readonly id: string;
        readonly cost: number;
        readonly ttlMs?: number;
      }
    | { readonly name: "settle"; readonly id: string; readonly cost: number }
    /** An answer of a limiter with `local`. Its outcome has figures where the limiter asked the server, and else none. */
    | { readonly name: "local"; readonly cost: number; readonly leaseMs: number }
    /** `key` is the key of the first entry. */
    | { readonly name: "limitAll"; readonly entries: readonly LimitAllPart[] }
  );

export interface LimitAllPart extends OfLimit {
  readonly cost: number;
  readonly isShadow?: boolean;
}

/** The result of a call. A refused limit is an answer, not a refused call. */
export interface LimitOutcome {
  readonly success: boolean;
  /** What the limit says; of `limitAll` what each entry says. Absent where the answer has no figures. */
  readonly results?: readonly LimitResult[];
  /** Of `settle`. */
  readonly settled?: number;
  /** Of `settle`: there is no such reservation any more. */
  readonly isEnded?: boolean;
}

/** Of all limits that it is about. */
export const keysOf = (operation: LimitOperation): string[] =>
  operation.name === "limitAll" ? operation.entries.map(({ key }) => key) : [operation.key];

export type LimitCall = Call<LimitOperation, LimitOutcome>;

export interface LimitTerms {
  readonly clocks: ClockHistory;
  readonly objectOf: (key: string) => string;
  /**
   * Whether a split had begun by a moment that gives keys of one object to several: each of them charges its own part of a
   * `limitAll` then. It never does unless given.
   */
  readonly areParted?: (keys: readonly string[], by: Moment) => boolean;
  readonly strategyOf: (key: string) => LimitStrategy;
  /** How long answers are kept under idempotency keys, at least and at most: deployments may change it. */
  readonly answersKept: MsSpan;
  /**
   * Whether an object may have refused its part of a `limitAll` with an error when others had charged theirs: it had no room, or
   * ran a release without the call.
   */
  readonly mayRefusePart?: (object: string) => boolean;
  /** Whether the object of a key lost writes of relaxed calls that it executed between two moments of true time. */
  readonly hasLostRelaxed: (key: string, executed: MsSpan) => boolean;
  /** All calls are, whatever they ask for. */
  readonly areRelaxed?: boolean;
  /**
   * What a refused `limitAll` had charged is given back before it is answered: nothing goes wrong in the run, and shards have room
   * for open charges.
   */
  readonly returnsAll?: boolean;
}

/** Clocks of isolates are a little faster or slower than others. */
const DRIFT = 1e-3;
/** A shard may give back what a refused `limitAll` had charged this much later. */
const CANCEL_MS = 15_000;

/** @param made in the order in which they began */
export function checkLimits(made: readonly LimitCall[], terms: LimitTerms): Violation[] {
  const calls = terms.areRelaxed === true ? made.map((call) => keptOf(call, terms)) : made;
  const tracks = new Map<string, LimitTrack>();
  const trackOf = (key: string): LimitTrack => {
    let track = tracks.get(key);
    if (track === undefined) tracks.set(key, (track = emptyTrack()));
    return track;
  };
  for (const call of withoutRepetitions(calls, terms)) noteCall(call, trackOf, terms);
  const violations = [
    ...checkReservations(calls, trackOf, terms),
    ...checkSameAnswers(calls.filter(isKept), {
      ttlMs: terms.answersKept.fromMs,
      elapsed: (key, since, at) => terms.clocks.elapsed(terms.objectOf(key), since, at),
    }),
  ];
  const timeOf = timesOf(calls, terms);
  for (const [key, track] of tracks) {
    const configuration = configurationOf(terms.strategyOf(key));
    const object = terms.objectOf(key);
    const time = timeOf(object);
    const message =
      boundViolation(configuration, track, terms.clocks, object) ??
      figureViolation(configuration, track, time) ??
      refusalViolation(configuration, track, time);
    if (message !== null) violations.push({ promise: "Limits", subject: key, message });
  }
  return violations;
}

/** The call, as far as no crash may have taken back what it did. Units that an isolate has drawn may be lost with their charge. */
function keptOf(call: LimitCall, { hasLostRelaxed }: LimitTerms): LimitCall {
  const { operation } = call;
  const hasLost = (executed: MsSpan): boolean =>
    operation.name === "local" || keysOf(operation).some((key) => hasLostRelaxed(key, executed));
  return asFarAsKept(call, hasLost);
}

/** Whether the answer is kept under an idempotency key for certain: a crash may take back a relaxed one. */
const isKept = ({ operation }: LimitCall): boolean =>
  operation.name === "limit" && operation.isRelaxed !== true;

/** The time of each object, by its name. */
function timesOf(
  calls: readonly LimitCall[],
  { clocks, objectOf, areRelaxed = false }: LimitTerms,
): (object: string) => ObjectTime {
  const times = new Map<string, ObjectTime>();
  const byObject = Map.groupBy(
    calls.flatMap((call) => executionsOf(call, objectOf)),
    ({ object }) => object,
  );
  return (object) => {
    let time = times.get(object);
    if (time === undefined) {
      const executions = byObject.get(object) ?? [];
      const activity: Activity = {
        readings: executions.map(({ span }) => span),
        rows: areRelaxed ? [] : executions.filter(({ hasRow }) => hasRow).map(({ span }) => span),
      };
      times.set(object, (time = new ObjectTime(clocks, object, activity)));
    }
    return time;
  };
}

interface Execution {
  readonly object: string;
  readonly span: MsSpan;
  /** The object wrote a row for it. */
  readonly hasRow: boolean;
}

/** Where a call was surely executed. A repeated one may have been executed before; a second copy answers relaxed ones. */
function executionsOf(call: LimitCall, objectOf: (key: string) => string): Execution[] {
  const { operation } = call;
  if (!isAnswered(call)) return [];
  const span = spanOf(call);
  const isCharged = call.outcome.success;
  switch (operation.name) {
    case "limit":
      if (operation.isRelaxed === true || operation.once !== undefined) return [];
      return [{ object: objectOf(operation.key), span, hasRow: isCharged }];
    case "peek":
      return [{ object: objectOf(operation.key), span, hasRow: false }];
    case "limitAll": {
      if (!isCharged) return [];
      const charged = operation.entries.filter(({ isShadow = false }) => !isShadow);
      return charged.map(({ key }) => ({ object: objectOf(key), span, hasRow: true }));
    }
    default:
      return [];
  }
}

function noteCall(call: LimitCall, trackOf: (key: string) => LimitTrack, terms: LimitTerms): void {
  const { operation } = call;
  const span = spanOf(call);
  if (call.outcome === "refused") {
    if (operation.name !== "limitAll") return;
    // What other shards charged before one refused comes back.
    const { entries } = operation;
    if (!entries.some(({ key }) => terms.mayRefusePart?.(terms.objectOf(key)) === true)) return;
    const refused = { span, ended: call.ended, answer: { success: false }, by: describeCall(call) };
    noteLimitAll(entries, refused, trackOf, terms);
    return;
  }
  const answer = isAnswered(call) ? call.outcome : null;
  const track = trackOf(operation.key);
  const by = describeCall(call);
  switch (operation.name) {
    case "limit": {
      const { cost, isRelaxed = false } = operation;
      if (isRelaxed) noteInexact(track, span.fromMs);
      const isLost = isRelaxed && terms.hasLostRelaxed(operation.key, span);
      if (answer?.success === false) break;
      const least = answer === null || isLost ? 0 : cost;
      track.charges.push({ span, least, most: cost, result: answer?.results?.[0] ?? null, by });
      break;
    }
    case "local": {
      const { cost, leaseMs } = operation;
      noteInexact(track, span.fromMs);
      if (answer?.success !== true) return;
      const result = answer.results?.[0] ?? null;
      const lifeMsMax = lifeMsMaxOf(configurationOf(terms.strategyOf(operation.key)));
      const lifeMs = Math.min(leaseMs, lifeMsMax) * (1 + DRIFT) + 1;
      // Without a call, the units were drawn before, at most a life ago.
      const charged = result === null ? { ...span, fromMs: span.fromMs - lifeMs } : span;
      track.charges.push({ span: charged, least: cost, most: cost, result, by });
      return;
    }
    case "refund":
      track.gifts.push({ span, units: operation.cost, isFreeOfCharge: true });
      return;
    case "reset":
      track.gifts.push({ span, units: Infinity, isFreeOfCharge: true });
      return;
    case "limitAll":
      noteLimitAll(operation.entries, { span, ended: call.ended, answer, by }, trackOf, terms);
      return;
    case "reserve":
    case "settle":
      // `reservations.ts` has them.
      return;
    case "peek":
      break;
  }
  const result = answer?.results?.[0];
  if (result !== undefined && !("once" in operation && operation.once !== undefined)) {
    const asked = operation.name === "limit" ? operation.cost : 1;
    const cost = operation.name === "limit" && result.success ? asked : 0;
    track.figures.push({ span, cost, asked, result, by });
  }
}

function noteLimitAll(
  entries: readonly LimitAllPart[],
  call: {
    readonly span: MsSpan;
    readonly ended: Moment | null;
    readonly answer: LimitOutcome | null;
    readonly by: string;
  },
  trackOf: (key: string) => LimitTrack,
  { objectOf, areParted = () => false, returnsAll = false }: LimitTerms,
): void {
  const { span, ended, answer, by } = call;
  const isRefused = answer?.success === false;
  const keys = entries.map(({ key }) => key);
  // One object charges all or none in one step.
  if (isRefused && new Set(keys.map(objectOf)).size === 1 && !areParted(keys, ended!)) return;
  const isReturned = isRefused && returnsAll;
  const open = isReturned ? span : { fromMs: span.fromMs, toMs: span.toMs + CANCEL_MS };
  for (const [i, { key, cost, isShadow = false }] of entries.entries()) {
    const track = trackOf(key);
    const result = answer?.results?.[i] ?? null;
    if (answer?.success === true && (!isShadow || result?.success === true)) {
      track.charges.push({ span, least: cost, most: cost, result, by });
      continue;
    }
    const mostAfter = isReturned ? 0 : cost;
    track.charges.push({ span: open, least: 0, most: cost, mostAfter, result, by });
    // What is charged in one shard before another refuses comes back.
    track.gifts.push({ span: open, units: cost, isFreeOfCharge: false, charged: open });
  }
}
