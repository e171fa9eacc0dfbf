/**
 * The commands on rate limits: LIMIT, PEEK and REFUND. DRAW is in `draw-commands.ts`.
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

/** What the commands on limits work with beside the records. */
export interface LimitParts {
  /** Counts decisions; null: nothing is counted. */
  readonly figures: LimitFigures | null;
  /** What was charged and may be given back. */
  readonly ledger: ChargeLedger;
  readonly limiters: Limiters;
}

export class LimitCommands {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #limiters: Limiters;
  readonly #states: LimitStates;
  readonly #ledger: ChargeLedger;
  readonly #draws: DrawCommands;
  readonly #figures: LimitFigures | null;

  constructor(records: Records, out: ByteWriter, { figures, ledger, limiters }: LimitParts) {
    this.#records = records;
    this.#out = out;
    this.#figures = figures;
    this.#states = new LimitStates(records);
    this.#ledger = ledger;
    this.#limiters = limiters;
    this.#draws = new DrawCommands({ records, states: this.#states, limiters, ledger }, out);
  }

  /**
   * Executes a LIMIT, PEEK, REFUND or DRAW and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was granted or refunded
   */
  execute(frame: CommandFrame): void {
    if (frame.type === Command.draw) return this.#draw(frame);
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
    if (key !== null) this.#ledger.cut(key, stored, limiter, nowNs);
    const decision =
      frame.type === Command.limit
        ? limiter.limit(stored, nowNs, cost)
        : isPeek
          ? limiter.peek(stored, nowNs)
          : limiter.refund(stored, nowNs, cost);
    if (decision.state === null) {
      if (stored !== null) records.countRead();
    } else {
      this.#states.store(frame, decision.state, decision.ttlNs);
      if (key !== null) this.#ledger.noteState(key, decision.state);
    }
    if (frame.type === Command.limit) this.#countDecisions(frame, decision.allowed, hash, 1);
    writeDecision(
      this.#out,
      records.clock.lagMs === 0 ? decision : realDecision(records, decision),
    );
  }

  /** Requests that the caller has decided from its allowance are counted like those that are decided here. */
  #draw(frame: CommandFrame): void {
    const { isAllowed, cost, granted, refused } = this.#draws.execute(frame);
    const { hash } = this.#records.table;
    const isDecision = cost > 0;
    this.#countDecisions(frame, true, hash, granted + (isDecision && isAllowed ? 1 : 0));
    this.#countDecisions(frame, false, hash, refused + (isDecision && !isAllowed ? 1 : 0));
    const { bytes, keyAt, keyBytes } = frame;
    if (granted + refused > 0) {
      this.#figures?.countLocal(granted + refused, bytes, keyAt, keyBytes);
    }
  }

  /** A LIMIT or DRAW has failed, before it was executed or while it was. */
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
