/** Steps of callers on one limit: a shard takes them, and each answer is compared with the model of reservations. */
import assert from "node:assert/strict";
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { ReservationModel, type Held } from "../models/reservations.ts";
import { ReservingShard } from "./reserving-shard.ts";

export type ReservationStep =
  | { readonly do: "limit" | "refund"; readonly cost: number }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "reserve"; readonly cost: number; readonly ttlMs: number }
  | { readonly do: "settle"; readonly which: number; readonly cost: number }
  | { readonly do: "restart" | "snapshot" | "reset" };

interface Reservation {
  readonly id: string;
  readonly endMs: number;
  readonly held: readonly Held[];
  readonly grudged: readonly Held[];
  settled: number | null;
  isOfReset: boolean;
}

/** Reservations that are settled: older ones have mostly ended. */
const LATEST = 6;

/** A shard, with the model of it and the model of a shard that gives nothing back. */
export class ReservationRun {
  readonly shard: ReservingShard;
  readonly model: ReservationModel;
  readonly least: ReservationModel;
  readonly #hasBucket: boolean;
  readonly #reservations: Reservation[] = [];
  /** All that the shard has answered. */
  readonly answers: unknown[] = [];
  readonly #restarts: boolean;

  constructor(strategy: LimitStrategy, restarts: boolean) {
    this.shard = new ReservingShard(strategy);
    this.model = new ReservationModel(strategy);
    this.least = new ReservationModel(strategy, true);
    this.#hasBucket = !strategy.strategy.endsWith("window");
    this.#restarts = restarts;
  }

  take(next: ReservationStep): void {
    const { shard, model, least } = this;
    const { nowMs } = shard;
    switch (next.do) {
      case "wait":
        shard.nowMs += next.ms;
        break;
      case "restart":
        if (this.#restarts) shard.restart();
        break;
      case "snapshot":
        if (this.#restarts) shard.snapshot();
        break;
      case "reset":
        shard.reset();
        model.reset();
        least.reset();
        for (const reservation of this.#reservations) reservation.isOfReset = true;
        break;
      case "refund":
        shard.refund(next.cost);
        model.refund(nowMs, next.cost);
        least.refund(nowMs, next.cost);
        break;
      case "limit": {
        const { success } = this.#noted(shard.limit(next.cost));
        this.#checkDecision(success, next.cost);
        if (!success) break;
        model.charge(nowMs, next.cost);
        least.charge(nowMs, next.cost);
        break;
      }
      case "reserve": {
        const { success, id } = this.#noted(shard.reserve(next.cost, next.ttlMs));
        this.#checkDecision(success, next.cost);
        if (!success) break;
        this.#reservations.push({
          id: id!,
          endMs: nowMs + next.ttlMs,
          held: model.charge(nowMs, next.cost),
          grudged: least.charge(nowMs, next.cost),
          settled: null,
          isOfReset: false,
        });
        break;
      }
      case "settle":
        this.#settle(this.#reservations.at(-1 - (next.which % LATEST)), next.cost);
    }
    this.#checkRemaining();
  }

  #settle(reservation: Reservation | undefined, cost: number): void {
    if (reservation === undefined) return;
    const { shard, model, least } = this;
    const { nowMs } = shard;
    const { id, endMs, settled } = reservation;
    if (settled === null && nowMs >= endMs) {
      assert.throws(() => shard.settle(id, cost), /reservation_ended/);
      return;
    }
    // A settled one is forgotten some time after its end.
    if (settled !== null && nowMs >= endMs) return;
    const answer = this.#noted(shard.settle(id, cost));
    assert.equal(answer.settled, settled ?? cost);
    if (settled !== null) return;
    reservation.settled = cost;
    if (reservation.isOfReset) return;
    model.settle(nowMs, reservation.held, cost);
    least.settle(nowMs, reservation.grudged, cost);
  }

  #noted<Answer>(answer: Answer): Answer {
    this.answers.push(answer);
    return answer;
  }

  /** What is granted, the strategy grants of the settled costs. Windows are exact. */
  #checkDecision(success: boolean, cost: number): void {
    const { nowMs } = this.shard;
    const judge = success || !this.#hasBucket ? this.model : this.least;
    assert.equal(judge.has(nowMs, cost), success, `a cost of ${cost}`);
  }

  #checkRemaining(): void {
    const { nowMs } = this.shard;
    const { remaining } = this.#noted(this.shard.peek());
    const most = this.model.remaining(nowMs);
    const least = this.#hasBucket ? this.least.remaining(nowMs) : most;
    assert.ok(least <= remaining && remaining <= most, `${least} <= ${remaining} <= ${most}`);
  }
}
