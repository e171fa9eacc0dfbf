/**
 * Reservations: an estimate is charged once and settled once, with whatever call. Each becomes a charge of its limit, and a gift of
 * what its settlement gave back.
 */
import type { LimitResult } from "../../../src/wire/edge/limit.ts";
import type { MsSpan } from "../../support/models/span.ts";
import { describeCall, isAnswered, spanOf, type Violation } from "./history.ts";
import { noteInexact, type LimitTrack } from "./limit-track.ts";
import type { LimitCall, LimitOperation, LimitOutcome, LimitTerms } from "./limits.ts";

/** How long a reservation may be settled unless it says so itself: docs/rate-limits.md. */
const TTL_MS = 60_000;

interface Reservation {
  readonly key: string;
  readonly cost: number;
  /** When it was made: from the first of its calls to the first answer. */
  span: MsSpan;
  isKnown: boolean;
  readonly ttlMs: number;
  readonly result: LimitResult | null;
  readonly by: string;
  /** The one that was answered first, or else the first one. */
  madeBy: LimitCall;
  readonly calls: LimitCall[];
  /** Calls that have settled it, or may have. */
  readonly settlements: LimitCall[];
}

/**
 * Notes the reservations of some calls as charges of their limits.
 *
 * @returns what contradicts that a reservation lasts as long as its TTL, and is settled once
 */
export function checkReservations(
  calls: readonly LimitCall[],
  trackOf: (key: string) => LimitTrack,
  terms: LimitTerms,
): Violation[] {
  const reservations = new Map<string, Reservation>();
  const violations: Violation[] = [];
  for (const call of calls) {
    const { operation, outcome } = call;
    if (outcome === "refused") continue;
    if (operation.name === "reserve") noteReserve(call, operation, reservations);
    if (operation.name !== "settle") continue;
    const reservation = reservations.get(`${operation.key} ${operation.id}`);
    if (reservation === undefined) continue;
    reservation.calls.push(call);
    if (!isAnswered(call) || call.outcome.isEnded !== true) reservation.settlements.push(call);
    else if (isOpenFor(call, reservation, terms)) {
      const message = `${describeCall(call)} found it ended, but ${reservation.by} had reserved it for ${reservation.ttlMs} ms`;
      violations.push({ promise: "Limits", subject: operation.key, message });
    }
  }
  const changesOf = Map.groupBy(
    calls.filter(({ operation, outcome }) => outcome !== "refused" && operation.name !== "peek"),
    ({ operation }) => (operation.name === "limitAll" ? null : operation.key),
  );
  for (const reservation of reservations.values()) {
    const { key } = reservation;
    const others = [
      ...(changesOf.get(key) ?? []),
      ...(changesOf.get(null) ?? []).filter(isAbout(key)),
    ];
    const late = lateCalls(reservation, terms);
    const settled = late.length === 0 ? settledViolation(reservation) : null;
    if (settled !== null) violations.push(settled);
    noteCharge(reservation, { late, others }, trackOf(key));
  }
  return violations;
}

const isAbout =
  (key: string) =>
  ({ operation }: LimitCall): boolean =>
    operation.name === "limitAll" && operation.entries.some((entry) => entry.key === key);

type Reserve = Extract<LimitOperation, { name: "reserve" }>;

function noteReserve(
  call: LimitCall,
  { key, id, cost, ttlMs = TTL_MS }: Reserve,
  reservations: Map<string, Reservation>,
): void {
  const answer = isAnswered(call) ? call.outcome : null;
  if (answer?.success === false) return;
  const name = `${key} ${id}`;
  const known = reservations.get(name);
  if (known === undefined) {
    reservations.set(name, {
      key,
      cost,
      span: spanOf(call),
      isKnown: answer !== null,
      ttlMs,
      result: answer?.results?.[0] ?? null,
      by: describeCall(call),
      madeBy: call,
      calls: [call],
      settlements: [],
    });
    return;
  }
  known.calls.push(call);
  if (known.isKnown) return;
  const { fromMs, toMs } = known.span;
  known.span = {
    fromMs,
    toMs: answer === null ? Math.max(toMs, spanOf(call).toMs) : call.ended!.ms,
  };
  if (answer === null) return;
  known.isKnown = true;
  known.madeBy = call;
}

/**
 * Calls that may have come when the reservation had ended: each may have made another one. A call that was given up may be the
 * first that was sent, as it may be executed after those that repeat it.
 */
function lateCalls(
  { key, span, ttlMs, madeBy, calls }: Reservation,
  { clocks, objectOf }: LimitTerms,
): LimitCall[] {
  const object = objectOf(key);
  return calls.filter(
    (call) =>
      call !== madeBy &&
      call.operation.name === "reserve" &&
      clocks.elapsed(object, span, spanOf(call)).toMs >= ttlMs,
  );
}

/** Whether a reservation was there for sure all the while that a call to settle it lasted. */
function isOpenFor(
  call: LimitCall,
  { key, span, isKnown, ttlMs }: Reservation,
  { clocks, objectOf }: LimitTerms,
): boolean {
  if (!isKnown || span.toMs >= call.begun.ms) return false;
  return clocks.elapsed(objectOf(key), span, spanOf(call)).toMs < ttlMs;
}

/** The first settlement counts: all answers say the same, and it is what one of the calls asked for. */
function settledViolation({ key, by, settlements }: Reservation): Violation | null {
  const asked = new Set(settlements.map(costOf));
  const answered = settlements.filter(isSettledBy);
  const [first] = answered;
  const wrong = answered.find(
    ({ outcome: { settled } }) => settled !== first!.outcome.settled || !asked.has(settled!),
  );
  if (wrong === undefined) return null;
  const message =
    `what ${by} had reserved was settled with ${first!.outcome.settled} (${describeCall(first!)}),` +
    ` and with ${wrong.outcome.settled} (${describeCall(wrong)})`;
  return { promise: "Limits", subject: key, message };
}

function noteCharge(
  { cost, span, isKnown, result, by, calls, settlements }: Reservation,
  { late, others }: { readonly late: readonly LimitCall[]; readonly others: readonly LimitCall[] },
  track: LimitTrack,
): void {
  const costs = settlements.map(settledCostOf);
  // A debt changes what is left in ways that these checks leave out.
  for (const call of settlements)
    if (settledCostOf(call) > cost) noteInexact(track, spanOf(call).fromMs);
  // Without an answer any of the calls may have settled it, at any time.
  const said = late.length === 0 ? settlements.filter(isSettledBy) : [];
  const [first] = said;
  const leastSettled = Math.min(cost, ...(first === undefined ? costs : [first.outcome.settled!]));
  const spans = settlements.map(spanOf);
  if (leastSettled < cost) {
    const fromMs = Math.min(...spans.map((each) => each.fromMs));
    const toMs =
      first === undefined
        ? Math.max(...spans.map((each) => each.toMs))
        : Math.min(...said.map(({ ended }) => ended!.ms));
    // Where there may have been others of its name, the settlement may have been one of theirs.
    const charged = late.length === 0 ? { charged: span } : {};
    const units = cost - leastSettled;
    track.gifts.push({ span: { fromMs, toMs }, units, isFreeOfCharge: false, ...charged });
  }
  const common = { most: cost, result, by };
  for (const call of late)
    track.charges.push({ ...common, span: spanOf(call), least: 0, result: null });
  const answered = settlements.find(isAnswered);
  if (isKnown && late.length === 0 && answered !== undefined) {
    // Alone, it leaves the limit as if the real cost had been charged at first.
    const whole = { fromMs: span.fromMs, toMs: answered.ended!.ms };
    if (others.every((call) => calls.includes(call) || !meets(spanOf(call), whole))) {
      track.charges.push({ ...common, span: whole, least: leastSettled, mostAfter: leastSettled });
      return;
    }
  }
  track.charges.push({ ...common, span, least: isKnown ? leastSettled : 0 });
}

const costOf = ({ operation }: LimitCall): number =>
  (operation as Extract<LimitOperation, { name: "settle" }>).cost;

/** A settlement that failed in its caller has no cost. */
const isSettledBy = (call: LimitCall): call is LimitCall & { outcome: LimitOutcome } =>
  isAnswered(call) && typeof call.outcome.settled === "number";

const settledCostOf = (call: LimitCall): number =>
  (isAnswered(call) ? call.outcome.settled : null) ?? costOf(call);

const meets = (a: MsSpan, b: MsSpan): boolean => a.fromMs <= b.toMs && b.fromMs <= a.toMs;
