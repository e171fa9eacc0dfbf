/**
 * The command DRAW: an allowance of a rate limit, which a caller spends without asking for each unit.
 *
 * Units are charged before the caller gets them. So a crash of the caller or of this shard, or a lost message, can lose
 * units, and never makes a caller spend more than was charged.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import {
  DRAW_FIELDS_BYTES,
  DRAW_RETURN_BYTES,
  DRAW_RETURNS_MAX,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
  writeDrawn,
} from "../wire/edge/drawn.ts";
import type { ChargeLedger } from "./charge-ledger.ts";
import type { ChargeParts } from "./charge-parts.ts";
import type { CommandFrame } from "./command-frame.ts";
import type { LimitStates } from "./limit-states.ts";
import { CONFIGURATION_BYTES_MAX, type Limiters } from "./limiters.ts";
import type { Drawn, Limiter } from "./ratelimit/limiter.ts";
import { realDecision } from "./real-decision.ts";
import type { Records } from "./records.ts";
import { Refusal } from "./refusal.ts";
import type { Reservations } from "./reservations.ts";
import { NS_PER_MS } from "./time.ts";

/** Units may be given back until their draw is this many lives old: the message takes a while. */
const LIVES = 2n;

/** What a draw has decided, and requests that the caller has decided by itself since its last one. */
export interface DrawCounts {
  readonly isAllowed: boolean;
  /** 0 for a message that only draws ahead or gives back. */
  readonly cost: number;
  readonly granted: number;
  readonly refused: number;
  /** Hash of the key of the state. */
  readonly hash: number;
}

/** The state of the key while the command runs, with what is still to be stored of it. */
interface Working {
  state: string | null;
  ttlNs: bigint;
  isChanged: boolean;
}

export class DrawCommands {
  readonly #records: Records;
  readonly #states: LimitStates;
  readonly #limiters: Limiters;
  readonly #ledger: ChargeLedger;
  readonly #reservations: Reservations;
  readonly #out: ByteWriter;

  constructor({ records, states, limiters, ledger, reservations }: ChargeParts, out: ByteWriter) {
    this.#records = records;
    this.#states = states;
    this.#limiters = limiters;
    this.#ledger = ledger;
    this.#reservations = reservations;
    this.#out = out;
  }

  /**
   * Executes a DRAW and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was drawn, and what the returns name stays charged
   */
  execute(frame: CommandFrame): DrawCounts {
    frame.need(
      DRAW_FIELDS_BYTES,
      DRAW_FIELDS_BYTES + DRAW_RETURNS_MAX * DRAW_RETURN_BYTES + CONFIGURATION_BYTES_MAX,
    );
    const leaseMs = frame.view.getUint16(frame.take(2), true);
    if (leaseMs < LEASE_MS_MIN || leaseMs > LEASE_MS_MAX) {
      throw drawInvalid("leaseMs", `${LEASE_MS_MIN} to ${LEASE_MS_MAX}`, leaseMs);
    }
    const wanted = takeAmount(frame, "wanted");
    const cost = takeAmount(frame, "cost");
    const granted = takeAmount(frame, "granted");
    const refused = takeAmount(frame, "refused");
    const returnsAt = takeReturns(frame);
    const returnsEnd = frame.at;
    const limiter = this.#limiters.of(frame.bytes, frame.at, frame.end);
    const { key } = frame;
    const nowNs = this.#records.now.toBig();
    const before = this.#states.find(frame);
    const working = { state: before, ttlNs: 0n, isChanged: false };
    const { hash } = this.#records.table;
    this.#ledger.cut(key, working.state, limiter, nowNs);
    for (let at = returnsAt; at < returnsEnd; at += DRAW_RETURN_BYTES) {
      this.#giveBack(frame, at, limiter, working);
    }
    const drawn = limiter.draw(working.state, nowNs, { cost, wanted });
    const { decision, units } = drawn;
    if (decision.state !== null) {
      Object.assign(working, { state: decision.state, ttlNs: decision.ttlNs, isChanged: true });
    }
    if (working.isChanged) {
      this.#store(frame, before, working.state!, working.ttlNs);
      this.#reservations.noteState(frame, key, working.state!);
    } else if (working.state !== null) this.#records.countRead();
    const leaseNs = BigInt(leaseMs) * NS_PER_MS;
    // No wait helps a cost above the limit, so its caller gets no pause.
    const isNever = !decision.allowed && decision.retryAfterNs === null;
    const got = { isRefused: !decision.allowed, isShort: units < wanted, pauseNsMax: leaseNs };
    const pauseNs = isNever ? 0n : this.#ledger.pauseNs(key, working.state, got, nowNs);
    this.#write(key, working.state, drawn, { leaseNs, pauseNs }, nowNs);
    const isAllowed = units >= cost && (cost === 0 || decision.allowed);
    return { isAllowed, cost, granted, refused, hash };
  }

  /** @throws Refusal when the shard has no room; what is left open belongs to the state before then, as that one is stored */
  #store(frame: CommandFrame, before: string | null, state: string, ttlNs: bigint): void {
    const { key } = frame;
    try {
      this.#states.store(frame, state, ttlNs, this.#ledger.stateEndNs(key));
    } catch (error) {
      if (before !== null) this.#ledger.noteState(key, before);
      throw error;
    }
  }

  /** Gives back what the return at `at` names, if the draw is known. */
  #giveBack({ view, key }: CommandFrame, at: number, limiter: Limiter, working: Working): void {
    const nowNs = this.#records.now.toBig();
    const id = view.getFloat64(at, true);
    const units = view.getFloat64(at + 8, true);
    const closed = this.#ledger.close(key, working.state, { id, units }, nowNs);
    if (closed === null || working.state === null || closed.units === 0) return;
    const given = limiter.giveBack(working.state, nowNs, closed);
    if (given === null) return;
    Object.assign(working, { ...given, isChanged: true });
    this.#ledger.noteState(key, given.state);
  }

  #write(
    key: string,
    state: string | null,
    { decision, units, lifeNs: longestNs }: Drawn,
    { leaseNs, pauseNs }: { readonly leaseNs: bigint; readonly pauseNs: bigint },
    nowNs: bigint,
  ): void {
    const lifeNs = longestNs < leaseNs ? longestNs : leaseNs;
    writeDecision(this.#out, realDecision(this.#records, decision));
    writeDrawn(this.#out, {
      units,
      draw: units === 0 ? 0 : this.#open(key, state!, units, nowNs + LIVES * lifeNs, nowNs),
      lifeNs,
      pauseNs,
    });
  }

  #open(key: string, state: string, units: number, endNs: bigint, nowNs: bigint): number {
    const id = this.#ledger.nextNumber();
    this.#ledger.open(key, state, { id, units, charged: state, endNs }, nowNs);
    return id;
  }
}

const drawInvalid = (field: string, expected: string, got: number): Refusal =>
  new Refusal(`draw_invalid: ${field}: expected ${expected}, got ${got}`);

/** @throws Refusal */
function takeAmount(frame: CommandFrame, field: string): number {
  const amount = frame.view.getFloat64(frame.take(8), true);
  if (Number.isSafeInteger(amount) && amount >= 0) return amount;
  throw drawInvalid(field, `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`, amount);
}

/**
 * Checks the returns, and passes them.
 *
 * @returns where they begin
 * @throws Refusal
 */
function takeReturns(frame: CommandFrame): number {
  const count = frame.takeU8();
  if (count > DRAW_RETURNS_MAX) {
    throw drawInvalid("returns", `at most ${DRAW_RETURNS_MAX}`, count);
  }
  const bytes = count * DRAW_RETURN_BYTES;
  frame.need(bytes, bytes + CONFIGURATION_BYTES_MAX);
  const at = frame.at;
  for (let i = 0; i < count; i++) {
    takeAmount(frame, "draw");
    takeAmount(frame, "units");
  }
  return at;
}
