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
import type { ChargeParts } from "./charge-parts.ts";
import type { CommandFrame } from "./command-frame.ts";
import { giveBack } from "./given-back.ts";
import { CONFIGURATION_BYTES_MAX } from "./limiters.ts";
import type { Drawn, Limiter } from "./ratelimit/limiter.ts";
import { realDecision } from "./real-decision.ts";
import { Refusal } from "./refusal.ts";
import { NS_PER_MS } from "./time.ts";

/** Units may be given back until their draw is this many lives old: the message takes a while. */
const LIVES = 2n;

/**
 * Most decisions of each kind that one message reports. An isolate reports within the life of its units, and a million a second is
 * more than it decides in practice. Any writer can claim any number, and the figures are those of the whole namespace.
 */
const REPORTED_MAX = LEASE_MS_MAX * 1000;

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

export class DrawCommands {
  readonly #parts: ChargeParts;
  readonly #out: ByteWriter;

  constructor(parts: ChargeParts, out: ByteWriter) {
    this.#parts = parts;
    this.#out = out;
  }

  /**
   * Executes a DRAW and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was drawn. Where the shard has no room to draw, what the returns name
   *   was given back all the same.
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
    const granted = Math.min(takeAmount(frame, "granted"), REPORTED_MAX);
    const refused = Math.min(takeAmount(frame, "refused"), REPORTED_MAX);
    const returnsAt = takeReturns(frame);
    const returnsEnd = frame.at;
    const { records, states, limiters, ledger, reservations } = this.#parts;
    const limiter = limiters.of(frame.bytes, frame.at, frame.end);
    const { key } = frame;
    const nowNs = records.now.toBig();
    const before = states.find(frame);
    const { hash } = records.table;
    ledger.cut(key, before, limiter, nowNs);
    const returned = this.#takeReturns(frame, { at: returnsAt, end: returnsEnd }, limiter, before);
    const drawn = limiter.draw(returned, nowNs, { cost, wanted });
    const { decision, units } = drawn;
    // Behind returns, the mark of the key may be the current record.
    if (returnsEnd > returnsAt) states.find(frame);
    if (decision.state !== null) {
      states.store(frame, decision.state, decision.ttlNs, ledger.stateEndNs(key));
      reservations.noteState(frame, key, decision.state);
    } else if (returned !== null && returned === before) records.countRead();
    const state = decision.state ?? returned;
    const leaseNs = BigInt(leaseMs) * NS_PER_MS;
    // No wait helps a cost above the limit, so its caller gets no pause.
    const isNever = !decision.allowed && decision.retryAfterNs === null;
    const got = { isRefused: !decision.allowed, isShort: units < wanted, pauseNsMax: leaseNs };
    const pauseNs = isNever ? 0n : ledger.pauseNs(key, state, got, nowNs);
    this.#write(key, state, drawn, { leaseNs, pauseNs }, nowNs);
    const isAllowed = units >= cost && (cost === 0 || decision.allowed);
    return { isAllowed, cost, granted, refused, hash };
  }

  /**
   * Gives back what returns name, as far as their draws are known.
   *
   * @param state what is stored
   * @returns what is stored then
   */
  #takeReturns(
    frame: CommandFrame,
    { at: from, end }: { readonly at: number; readonly end: number },
    limiter: Limiter,
    state: string | null,
  ): string | null {
    const { view, bytes, keyAt, keyBytes, key } = frame;
    const limit = { bytes, keyAt, keyBytes, key, limiter };
    let returned = state;
    for (let at = from; at < end; at += DRAW_RETURN_BYTES) {
      const charge = { id: view.getFloat64(at, true), units: view.getFloat64(at + 8, true) };
      returned = giveBack(this.#parts, limit, returned, charge) ?? returned;
    }
    return returned;
  }

  #write(
    key: string,
    state: string | null,
    { decision, units, lifeNs: longestNs }: Drawn,
    { leaseNs, pauseNs }: { readonly leaseNs: bigint; readonly pauseNs: bigint },
    nowNs: bigint,
  ): void {
    const lifeNs = longestNs < leaseNs ? longestNs : leaseNs;
    writeDecision(this.#out, realDecision(this.#parts.records, decision));
    writeDrawn(this.#out, {
      units,
      draw: units === 0 ? 0 : this.#open(key, state!, units, nowNs + LIVES * lifeNs, nowNs),
      lifeNs,
      pauseNs,
    });
  }

  #open(key: string, state: string, units: number, endNs: bigint, nowNs: bigint): number {
    const { ledger } = this.#parts;
    const id = ledger.nextNumber();
    ledger.open(key, state, { id, units, charged: state, endNs }, nowNs);
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
