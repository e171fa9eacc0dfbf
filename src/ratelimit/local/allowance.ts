/**
 * The allowance of one key in this isolate: units that were drawn, and what the shard said last. It sends nothing and has no
 * timers. The time is an argument: by the wall clock (`nowMs`) and by one that never goes back (`monotonicMs`).
 *
 * Every unit was charged before it came here. So whatever is forgotten here is lost, and never admitted twice.
 */
import type { DrawRequest, DrawResult, DrawReturn } from "../../wire/edge/draw.ts";
import type { LimitRequest } from "../../wire/edge/limits.ts";
import { decisionOf, withUnits, type RateLimitResult } from "../result.ts";
import { limitMinOf } from "../strategies.ts";
import { Demand } from "./demand.ts";
import { Draws, type Draw } from "./draws.ts";

/** Whose allowance it is. */
export type Target = Pick<LimitRequest, "name" | "key" | "strategy">;

/** How an allowance lives. */
export interface Lease {
  /** What the shard is asked for, ms. */
  readonly leaseMs: number;
  /** The longest life of units, ms. */
  readonly termMs: number;
}

/** A message to the shard, and the moment at which it is sent: the life of the units that it draws counts from there. */
export interface Ask {
  readonly request: DrawRequest;
  readonly cost: number;
  readonly sentMs: number;
  readonly monotonicSentMs: number;
  /** Refunds and resets of the key, and steps back of the clock, before it. */
  readonly changes: number;
}

/** What is refused here: what the shard refused, or anything before it wants to be asked again. Times are by the clock that never goes back. */
interface Refusal {
  readonly cost: number;
  readonly decision: RateLimitResult;
  readonly untilMs: number;
  /** Until then the key is asked about by one message at a time. */
  readonly aloneUntilMs: number;
  /** When the cost would be granted, as far as the shard knew. */
  readonly retryAtMs: number;
}

/** An allowance of fewer calls is not refilled ahead. */
const REFILL_CALLS_MIN = 4;
/** Units are drawn ahead when the rest lasts for this share of a term, or for two round trips: late enough to draw few times. */
const LOW_SHARE_MIN = 0.1;
/** The share of a long round trip that counts on, when the next one is shorter. */
const ROUND_TRIP_DECAY = 0.8;
/** An answer that takes longer than this many round trips, and longer than `ANSWER_MS_MIN`, is most likely lost. */
const ANSWER_ROUND_TRIPS = 4;
const ANSWER_MS_MIN = 100;
/** A shard knows a draw for so many of its lives. */
const LIVES = 2;

export class Allowance {
  readonly #target: Target;
  readonly #lease: Lease;
  readonly #draws = new Draws();
  readonly #demand: Demand;
  /** A greater cost is never granted, and the shard alone says so: no wait of a refusal helps it. */
  readonly #costMax: number;
  /** Units that were here after the last draw. */
  #full = 0;
  /** Units that last until a refill is back. */
  #low = 0;
  #roundTripMs = 0;
  #grant: RateLimitResult | null = null;
  #refusal: Refusal | null = null;
  /** The draw that others don't repeat while it is under way. */
  #leading: Ask | null = null;
  #changes = 0;
  /** Requests that were decided here since the last message. */
  #grants = 0;
  #refusals = 0;

  constructor(target: Target, lease: Lease) {
    this.#target = target;
    this.#lease = lease;
    this.#demand = new Demand(lease.termMs);
    this.#costMax = limitMinOf(target.strategy);
  }

  /** Grants or refuses a cost; null where the shard must be asked. The hot path: it takes times in positions. */
  decide(cost: number, nowMs: number, monotonicMs: number): RateLimitResult | null {
    this.#demand.note(cost, monotonicMs);
    return this.retry(cost, nowMs, monotonicMs);
  }

  /** As `decide`, for a cost that was asked for before. */
  retry(cost: number, nowMs: number, monotonicMs: number): RateLimitResult | null {
    if (this.#draws.spend(cost, nowMs, monotonicMs)) {
      this.#grants++;
      return withUnits(this.#grant!, this.#draws.left, true);
    }
    return this.#refusal === null ? null : this.#refuse(this.#refusal, cost, monotonicMs);
  }

  /** True where units should be drawn ahead, so that later requests need not wait. */
  isLow(cost: number, monotonicMs: number): boolean {
    return (
      this.#draws.left <= this.#low &&
      this.#draws.left * 2 <= this.#full &&
      this.#full >= REFILL_CALLS_MIN * cost &&
      !this.isLed(monotonicMs) &&
      (this.#refusal === null || monotonicMs >= this.#refusal.untilMs)
    );
  }

  /**
   * A message for a cost that can't be decided here. It gives back what is left, and draws anew; while another one does
   * that, it asks for the cost only.
   */
  ask(cost: number, nowMs: number, monotonicMs: number): Ask {
    if (this.isLed(monotonicMs)) return this.#message({ cost }, nowMs, monotonicMs);
    const wanted = this.#demand.perTerm(monotonicMs);
    return this.#lead({ cost, wanted, returns: this.takeAll(monotonicMs) }, nowMs, monotonicMs);
  }

  /** A message that draws what is missing, ahead. */
  refill(nowMs: number, monotonicMs: number): Ask {
    const wanted = Math.max(0, this.#demand.perTerm(monotonicMs) - this.#draws.left);
    const returns = this.#draws.takeEnded(monotonicMs);
    return this.#lead({ cost: 0, wanted, returns }, nowMs, monotonicMs);
  }

  /**
   * A message that gives back what is left; null where nothing is.
   *
   * @param draw that has ended; all of them unless given
   */
  giveBack(nowMs: number, monotonicMs: number, draw?: Draw): Ask | null {
    this.#draws.end(draw);
    // A key in use gives back with its next message, which is soon.
    if (draw !== undefined && this.#draws.left > 0) return null;
    const returns = this.#draws.takeEnded(monotonicMs);
    return returns.length === 0 ? null : this.#message({ cost: 0, returns }, nowMs, monotonicMs);
  }

  /** Takes all units, to give them back: they are forgotten here, whatever becomes of the message. */
  takeAll(monotonicMs: number): DrawReturn[] {
    this.#draws.end();
    return this.#draws.takeEnded(monotonicMs);
  }

  /**
   * Takes in the answer to a message.
   *
   * @returns what the message's caller is answered, and the draw whose units are here now
   */
  answer(
    ask: Ask,
    drawn: DrawResult,
    monotonicMs: number,
  ): { readonly result: RateLimitResult; readonly draw: Draw | null } {
    const { cost, changes } = ask;
    const { leaseMs, termMs } = this.#lease;
    const pauseMs = upTo(leaseMs, drawn.pauseMs);
    const draw = drawnUnits(ask, drawn, termMs);
    const isUpToDate = changes === this.#changes;
    if (draw !== null) {
      if (isUpToDate) this.#draws.add(draw);
      else this.#draws.addEnded(draw);
    }
    this.#noteRoundTrip(monotonicMs - ask.monotonicSentMs, monotonicMs);
    const decision = decisionOf(drawn);
    const { success, retryAfterMs } = decision;
    if (success) {
      this.#grant = decision;
      if (isUpToDate) this.#refusal = null;
    }
    // A retry before the pause is over would be refused here.
    const waitMs = success ? pauseMs : retryAfterMs && Math.max(retryAfterMs, pauseMs);
    if (waitMs && isUpToDate) {
      // Units that others give back may be granted before the time that the shard knew.
      const heldMs = Math.max(Math.min(waitMs, termMs), pauseMs);
      const untilMs = monotonicMs + heldMs;
      this.#refusal = {
        cost: Math.max(1, success ? 1 : cost),
        decision: success ? usedUp(decision, ask.sentMs + waitMs) : decision,
        untilMs,
        aloneUntilMs: untilMs + pauseMs,
        retryAtMs: monotonicMs + waitMs,
      };
    }
    const result = success
      ? withUnits(decision, this.#draws.left, false)
      : { ...decision, retryAfterMs: waitMs };
    return { result, draw };
  }

  #noteRoundTrip(roundTripMs: number, monotonicMs: number): void {
    this.#roundTripMs = Math.max(roundTripMs, this.#roundTripMs * ROUND_TRIP_DECAY);
    const share = Math.max(LOW_SHARE_MIN, (2 * this.#roundTripMs) / this.#lease.termMs);
    this.#low = this.#demand.perTerm(monotonicMs) * share;
  }

  /** Ends a message that was answered, or has failed: units that a lost answer had are lost. */
  finish(ask: Ask): void {
    if (this.#leading !== ask) return;
    this.#leading = null;
    this.#full = this.#draws.left;
  }

  /** The clock went back: nothing knows its age any more, also what is on its way. */
  end(): void {
    this.#changes++;
    this.#draws.end();
    this.#demand.forget();
    this.#refusal = null;
    this.#leading = null;
  }

  /** The key was refunded: a refusal is out of date, also one that is on its way. */
  noteRefund(): void {
    this.#changes++;
    this.#refusal = null;
  }

  /** The key was reset: it is full again, and units from before would come on top. */
  noteReset(): void {
    this.noteRefund();
    this.#draws.clear();
  }

  #refuse(
    { cost: refusedCost, decision, untilMs, aloneUntilMs, retryAtMs }: Refusal,
    cost: number,
    monotonicMs: number,
  ): RateLimitResult | null {
    if (cost < refusedCost || cost > this.#costMax || monotonicMs >= aloneUntilMs) return null;
    if (monotonicMs >= untilMs && !this.isLed(monotonicMs)) return null;
    this.#refusals++;
    const retryAfterMs = Math.max(1, Math.ceil(retryAtMs - monotonicMs));
    return { ...decision, retryAfterMs, local: true };
  }

  /** A leading draw is under way, and its answer may still come: that of a request that was cancelled does not. */
  isLed(monotonicMs: number): boolean {
    if (this.#leading === null) return false;
    const known = Math.max(ANSWER_MS_MIN, ANSWER_ROUND_TRIPS * this.#roundTripMs);
    const awaitedMs = this.#roundTripMs === 0 ? Infinity : known;
    return monotonicMs < this.#leading.monotonicSentMs + Math.min(awaitedMs, this.#lease.termMs);
  }

  #lead(
    asked: Pick<DrawRequest, "cost" | "wanted" | "returns">,
    nowMs: number,
    monotonicMs: number,
  ): Ask {
    this.#leading = this.#message(asked, nowMs, monotonicMs);
    return this.#leading;
  }

  #message(
    asked: Pick<DrawRequest, "cost" | "wanted" | "returns">,
    nowMs: number,
    monotonicMs: number,
  ): Ask {
    const request = {
      ...this.#target,
      ...asked,
      leaseMs: this.#lease.leaseMs,
      granted: this.#grants,
      refused: this.#refusals,
    };
    this.#grants = 0;
    this.#refusals = 0;
    const { cost = 0 } = asked;
    return { request, cost, sentMs: nowMs, monotonicSentMs: monotonicMs, changes: this.#changes };
  }
}

/** Units beyond the cost that a message has drawn; null where none came, or a number that cannot be one of units. */
function drawnUnits(
  { cost, sentMs, monotonicSentMs }: Ask,
  { draw, units, lifeMs: saidMs }: DrawResult,
  termMs: number,
): Draw | null {
  if (draw === null || units <= cost || !Number.isSafeInteger(units)) return null;
  const lifeMs = upTo(termMs, saidMs);
  return {
    number: draw,
    left: units - cost,
    endMs: sentMs + lifeMs,
    monotonicEndMs: monotonicSentMs + lifeMs,
    forgottenMs: monotonicSentMs + LIVES * lifeMs,
  };
}

/**
 * A grant that was short, as the refusal of those that come before the pause is over: nothing is left here.
 *
 * @param reset when the pause is over, ms since the epoch
 */
function usedUp({ quotas, ...decision }: RateLimitResult, reset: number): RateLimitResult {
  const refused = Object.entries(quotas).map(
    ([name, quota]) => [name, { ...quota, allowed: false, remaining: 0 }] as const,
  );
  return {
    ...decision,
    success: false,
    remaining: 0,
    reset,
    quotas: Object.fromEntries(refused),
  };
}

/** A time that the server has said, held to what it may be: one that is too long, or NaN, would hold for good. */
const upTo = (maxMs: number, saidMs: number): number => (saidMs > 0 ? Math.min(saidMs, maxMs) : 0);
