/**
 * The commands on rate limits: LIMIT, PEEK and REFUND. DRAW is in `draw-commands.ts`, RESERVE and SETTLE are in
 * `reserve-commands.ts`.
 *
 * A limit's state is a buffer under the key of the command, in the text format of the Throttr rate limit library. The
 * configuration comes with every command, so nothing of it is stored.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import { Command } from "../wire/edge/command.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import { isComposite } from "../wire/ratelimit/binary.ts";
import { withoutSuffix } from "../wire/ratelimit/keys.ts";
import type { ChargeLedger } from "./charge-ledger.ts";
import type { CommandFrame } from "./command-frame.ts";
import { DrawCommands } from "./draw-commands.ts";
import type { LimitFigures } from "./limit-figures.ts";
import { LimitStates } from "./limit-states.ts";
import { CONFIGURATION_BYTES_MAX, type Limiters } from "./limiters.ts";
import { realDecision } from "./real-decision.ts";
import type { Records } from "./records.ts";
import type { Reservations } from "./reservations.ts";
import { ReserveCommands } from "./reserve-commands.ts";

/** What the commands on limits work with beside the records. */
export interface LimitParts {
  /** Counts decisions; null: nothing is counted. */
  readonly figures: LimitFigures | null;
  /** What was charged and may be given back. */
  readonly ledger: ChargeLedger;
  readonly limiters: Limiters;
  /** The charges of the ledger that are stored. */
  readonly reservations: Reservations;
}

export class LimitCommands {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #limiters: Limiters;
  readonly #states: LimitStates;
  readonly #ledger: ChargeLedger;
  readonly #reservations: Reservations;
  readonly #draws: DrawCommands;
  readonly #reserves: ReserveCommands;
  readonly #figures: LimitFigures | null;

  constructor(
    records: Records,
    out: ByteWriter,
    { figures, ledger, limiters, reservations }: LimitParts,
  ) {
    this.#records = records;
    this.#out = out;
    this.#figures = figures;
    this.#states = new LimitStates(records);
    this.#ledger = ledger;
    this.#limiters = limiters;
    this.#reservations = reservations;
    const parts = { records, states: this.#states, limiters, ledger, reservations };
    this.#draws = new DrawCommands(parts, out);
    this.#reserves = new ReserveCommands(parts, out);
  }

  /**
   * Executes a LIMIT, PEEK, REFUND, DRAW, RESERVE or SETTLE and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was changed
   */
  execute(frame: CommandFrame): void {
    this.#reservations.ensureLedger();
    switch (frame.type) {
      case Command.draw:
        return this.#draw(frame);
      case Command.reserve:
        return this.#reserve(frame);
      case Command.settle:
        return this.#reserves.settle(frame);
      default:
        return this.#decide(frame);
    }
  }

  #decide(frame: CommandFrame): void {
    const isPeek = frame.type === Command.peek;
    const costBytes = isPeek ? 0 : 8;
    frame.need(costBytes, costBytes + CONFIGURATION_BYTES_MAX);
    const costAt = frame.take(costBytes);
    const cost = isPeek ? 1 : frame.view.getFloat64(costAt, true);
    const limiter = this.#limiters.of(frame.bytes, frame.at, frame.end);
    const records = this.#records;
    const stored = this.#states.find(frame);
    const { hash } = records.table;
    const nowNs = records.now.toBig();
    // The key is made into a text only while there are open charges at all.
    const key = this.#ledger.isEmpty ? null : frame.key;
    // A PEEK leaves the rights alone: its caller may only read, and may bring another configuration.
    if (key !== null && !isPeek) this.#ledger.cut(key, stored, limiter, nowNs);
    const decision =
      frame.type === Command.limit
        ? limiter.limit(stored, nowNs, cost)
        : isPeek
          ? limiter.peek(stored, nowNs)
          : limiter.refund(stored, nowNs, cost);
    if (decision.state === null) {
      if (stored !== null) records.countRead();
    } else {
      const { state, ttlNs } = decision;
      const endNs = key === null ? 0n : this.#ledger.stateEndNs(key);
      if (frame.type === Command.refund) this.#states.storeGivenBack(frame, state, ttlNs, endNs);
      else this.#states.store(frame, state, ttlNs, endNs);
      if (key !== null) this.#reservations.noteState(frame, key, state);
    }
    if (frame.type === Command.limit) this.#countDecisions(frame, decision.allowed, hash, 1);
    writeDecision(this.#out, realDecision(records, decision));
  }

  /** Requests that the caller has decided from its allowance are counted like those that are decided here. */
  #draw(frame: CommandFrame): void {
    const { isAllowed, cost, granted, refused, hash } = this.#draws.execute(frame);
    const isDecision = cost > 0;
    this.#countDecisions(frame, true, hash, granted + (isDecision && isAllowed ? 1 : 0));
    this.#countDecisions(frame, false, hash, refused + (isDecision && !isAllowed ? 1 : 0));
    const { bytes, keyAt, keyBytes } = frame;
    if (granted + refused > 0) {
      this.#figures?.countLocal(granted + refused, bytes, keyAt, keyBytes);
    }
  }

  /** A reservation counts as one decision; settling it does not count. */
  #reserve(frame: CommandFrame): void {
    const count = this.#reserves.reserve(frame);
    if (count !== null) this.#countDecisions(frame, count.isAllowed, count.hash, 1);
  }

  /** A LIMIT, DRAW or RESERVE has failed, before it was executed or while it was. */
  countError({ bytes, keyAt, keyBytes }: CommandFrame): void {
    this.#figures?.countError(bytes, keyAt, keyBytes);
  }

  /** People know a key without the end that marks the state of a composite. */
  #countDecisions(frame: CommandFrame, isAllowed: boolean, hash: number, times: number): void {
    if (times === 0) return;
    const { bytes, keyAt, keyBytes, at } = frame;
    const length = isComposite(bytes, at) ? withoutSuffix(bytes, keyAt, keyBytes) : keyBytes;
    this.#figures?.countDecisions(isAllowed, times, hash, bytes, keyAt, length);
  }
}
