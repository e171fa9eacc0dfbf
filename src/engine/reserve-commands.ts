/**
 * The commands RESERVE and SETTLE: an estimate is charged at once, and corrected when the real cost is known.
 *
 * Both may come twice, as their replies can be lost: an id is charged once, and settled once. Bytes:
 * `wire/edge/reservations.ts`.
 */
import { binaryString, type ByteWriter } from "../wire/bytes.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import {
  RESERVATION_ID_BYTES,
  RESERVE_TTL_MS_MAX,
  RESERVE_TTL_MS_MIN,
} from "../wire/edge/reservation-bounds.ts";
import { checkAmount } from "../wire/ratelimit/configuration.ts";
import type { ChargeParts } from "./charge-parts.ts";
import type { CommandFrame } from "./command-frame.ts";
import { storedChargeBytes } from "./key-charges.ts";
import { CONFIGURATION_BYTES_MAX } from "./limiters.ts";
import type { Limiter, StoredDecision } from "./ratelimit/limiter.ts";
import { realDecision } from "./real-decision.ts";
import { Refusal, SHARD_FULL } from "./refusal.ts";
import { NS_PER_MS } from "./time.ts";

/** What a RESERVE has decided, for the figures of the limit. */
export interface ReserveCount {
  readonly isAllowed: boolean;
  /** Hash of the key of the state. */
  readonly hash: number;
}

export class ReserveCommands {
  readonly #parts: ChargeParts;
  readonly #out: ByteWriter;

  constructor(parts: ChargeParts, out: ByteWriter) {
    this.#parts = parts;
    this.#out = out;
  }

  /**
   * Executes a RESERVE and writes the body of its reply.
   *
   * @returns null for one that had been executed before, which decides nothing
   * @throws Refusal, RateLimitError or StateError when nothing was charged
   */
  reserve(frame: CommandFrame): ReserveCount | null {
    const { records, states, limiters, ledger, reservations } = this.#parts;
    const id = takeId(frame, 4 + 8);
    const ttlMs = frame.view.getUint32(frame.take(4), true);
    if (ttlMs < RESERVE_TTL_MS_MIN || ttlMs > RESERVE_TTL_MS_MAX) {
      throw new Refusal(
        `ttl_invalid: expected ${RESERVE_TTL_MS_MIN} to ${RESERVE_TTL_MS_MAX} ms, got ${ttlMs}`,
      );
    }
    const cost = checkAmount(frame.view.getFloat64(frame.take(8), true), "cost", "cost_invalid");
    const limiter = limiters.of(frame.bytes, frame.at, frame.end);
    const before = reservations.find(frame, id);
    const nowNs = records.now.toBig();
    const { key } = frame;
    const stored = states.find(frame);
    if (before !== null) {
      if (before.units !== cost) throw new Refusal(conflict(before.units, cost));
      this.#write(granted(limiter.peek(stored, nowNs)));
      return null;
    }
    const { hash } = records.table;
    ledger.cut(key, stored, limiter, nowNs);
    const decision = limiter.limit(stored, nowNs, cost);
    if (decision.state === null) {
      if (stored !== null) records.countRead();
    } else {
      const endNs = nowNs + BigInt(ttlMs) * NS_PER_MS;
      this.#open(frame, id, decision, { units: cost, charged: decision.state, endNs });
    }
    this.#write(decision);
    return { isAllowed: decision.allowed, hash };
  }

  /**
   * Stores a charge that was granted, and the reservation.
   *
   * @throws Refusal when there is no room; nothing was stored then
   */
  #open(
    frame: CommandFrame,
    id: Uint8Array,
    { ttlNs }: StoredDecision,
    charge: { readonly units: number; readonly charged: string; readonly endNs: bigint },
  ): void {
    const { records, states, ledger, reservations } = this.#parts;
    const { key } = frame;
    const { charged, endNs } = charge;
    const place = ledger.nextPlace(key);
    const heldNs = ledger.stateEndNs(key);
    // The stored mark of reservations that have ended may be gone.
    const isFirst = ledger.mark(key) === null;
    if (
      !records.space.hasRoom(storedChargeBytes(charge)) ||
      !reservations.add(frame, id, charge, place)
    ) {
      throw new Refusal(SHARD_FULL);
    }
    try {
      if (isFirst && !reservations.addMark(frame, charge)) throw new Refusal(SHARD_FULL);
      states.find(frame);
      states.store(frame, charged, ttlNs, endNs > heldNs ? endNs : heldNs);
    } catch (error) {
      if (isFirst) reservations.removeMark(frame);
      reservations.remove(frame, id);
      throw error;
    }
    ledger.open(key, charged, { ...charge, id: nameOf(id), place }, records.now.toBig());
    reservations.storeMark(frame, key);
  }

  /**
   * Executes a SETTLE and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was settled
   */
  settle(frame: CommandFrame): void {
    const { records, states, limiters, reservations } = this.#parts;
    const id = takeId(frame, 8);
    const cost = frame.view.getFloat64(frame.take(8), true);
    if (!Number.isSafeInteger(cost) || cost < 0) {
      const range = `0 to ${Number.MAX_SAFE_INTEGER}`;
      throw new Refusal(`cost_invalid: cost: expected an integer from ${range}, got ${cost}`);
    }
    const limiter = limiters.of(frame.bytes, frame.at, frame.end);
    const stored = states.find(frame);
    const reservation = reservations.find(frame, id);
    if (reservation === null) throw new Refusal(ENDED);
    const { settled, units } = reservation;
    const state =
      settled === null ? this.#settle(frame, id, limiter, stored, cost - units) : stored;
    const decision = limiter.peek(state, records.now.toBig());
    if (settled === null) reservations.settle(frame, id, cost);
    this.#write(decision);
    this.#out.f64(settled ?? cost);
  }

  /**
   * Charges a difference, or gives it back, and ends the charge.
   *
   * @returns what is stored then
   */
  #settle(
    frame: CommandFrame,
    id: Uint8Array,
    limiter: Limiter,
    stored: string | null,
    by: number,
  ): string | null {
    const { records, states, ledger, reservations } = this.#parts;
    const { key } = frame;
    const nowNs = records.now.toBig();
    ledger.cut(key, stored, limiter, nowNs);
    const open = ledger.find(key, stored, nameOf(id), nowNs);
    if (open === null || stored === null) return stored;
    const changed = limiter.settle(stored, nowNs, by, open);
    const state = changed?.state ?? stored;
    if (changed !== null) {
      states.find(frame);
      states.storeGivenBack(frame, state, changed.ttlNs, ledger.stateEndNs(key));
    }
    ledger.close(key, stored, { id: nameOf(id), units: 0 }, nowNs);
    reservations.noteState(frame, key, state);
    return state;
  }

  #write(decision: StoredDecision): void {
    writeDecision(this.#out, realDecision(this.#parts.records, decision));
  }
}

const ENDED =
  "reservation_ended: the reservation does not exist, or its TTL is over: what it charged stays charged";

const conflict = (units: number, cost: number): string =>
  `reservation_conflict: the reservation ID is in use for a reservation of ${units} units, not ${cost}: use another ID`;

/** The name of a charge in the ledger. */
const nameOf = (id: Uint8Array): string => binaryString(id, 0, id.length);

/**
 * Takes the id of a reservation, which begins the body.
 *
 * @param bytes of the fields behind it
 * @throws Refusal
 */
function takeId(frame: CommandFrame, bytes: number): Uint8Array {
  frame.need(RESERVATION_ID_BYTES + bytes, RESERVATION_ID_BYTES + bytes + CONFIGURATION_BYTES_MAX);
  const at = frame.take(RESERVATION_ID_BYTES);
  const id = frame.bytes.subarray(at, at + RESERVATION_ID_BYTES);
  if (id.every((byte) => byte === 0)) {
    throw new Refusal("reservation_invalid: expected an ID other than 16 zero bytes");
  }
  return id;
}

/** A decision that was a grant before, with the figures of now. */
function granted(decision: StoredDecision): StoredDecision {
  return {
    ...decision,
    allowed: true,
    retryAfterNs: 0n,
    quotas: decision.quotas.map((quota) => ({ ...quota, allowed: true })),
  };
}
