/**
 * The commands on rate limits: LIMIT, PEEK and REFUND.
 *
 * A limit's state is a buffer under the key of the command, in the text format of the Throttr rate limit library. The
 * configuration comes with every command, so nothing of it is stored.
 */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import { Command } from "../wire/edge/command.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { isComposite } from "../wire/ratelimit/binary.ts";
import { withoutSuffix } from "../wire/ratelimit/keys.ts";
import type { CommandFrame } from "./command-frame.ts";
import type { LimitFigures } from "./limit-figures.ts";
import { Limiters } from "./limiters.ts";
import { realDecision } from "./real-decision.ts";
import type { Records } from "./records.ts";
import { assertKind, Refusal, SHARD_FULL } from "./refusal.ts";
import { Kind, LOW } from "./segment.ts";
import { U64 } from "./time.ts";

/** TTL type of states, as LIST shows it. */
const SECONDS = 4;
/** No limiter writes a longer state. */
const STATE_BYTES_MAX = 4096;
/** No configuration of a limiter is longer: eight quotas with the longest names, and a bucket, stay below. */
const CONFIGURATION_BYTES_MAX = 1024;

export class LimitCommands {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #limiters = new Limiters();
  /** The key, and the state behind it. */
  readonly #scratch = new ByteWriter(256);
  readonly #expires = new U64();
  readonly #figures: LimitFigures | null;

  /** @param figures counts decisions; null: nothing is counted */
  constructor(records: Records, out: ByteWriter, figures: LimitFigures | null) {
    this.#records = records;
    this.#out = out;
    this.#figures = figures;
  }

  /**
   * Executes a LIMIT, PEEK or REFUND and writes the body of its reply.
   *
   * @throws Refusal, RateLimitError or StateError when nothing was granted or refunded
   */
  execute(frame: CommandFrame): void {
    const isPeek = frame.type === Command.peek;
    const costBytes = isPeek ? 0 : 8;
    frame.need(costBytes, costBytes + CONFIGURATION_BYTES_MAX);
    const costAt = frame.take(costBytes);
    const cost = isPeek ? 1 : frame.view.getFloat64(costAt, true);
    const limiter = this.#limiters.of(frame.bytes, frame.at, frame.end);
    const records = this.#records;
    const kind = records.find(Keyspace.throttr, frame.bytes, frame.keyAt, frame.keyBytes);
    const { hash } = records.table;
    if (kind !== 0) assertKind(kind, Kind.buffer);
    const stored = kind === 0 ? null : this.#state();
    const nowNs = records.now.toBig();
    const decision =
      frame.type === Command.limit
        ? limiter.limit(stored, nowNs, cost)
        : isPeek
          ? limiter.peek(stored, nowNs)
          : limiter.refund(stored, nowNs, cost);
    if (decision.state === null) {
      if (kind !== 0) records.countRead();
    } else {
      this.#store(frame, decision.state, decision.ttlNs);
    }
    if (frame.type === Command.limit) this.#countDecision(frame, decision.allowed, hash);
    writeDecision(
      this.#out,
      records.clock.lagMs === 0 ? decision : realDecision(records, decision),
    );
  }

  /** A LIMIT has failed, before it was executed or while it was. */
  countError({ bytes, keyAt, keyBytes }: CommandFrame): void {
    this.#figures?.countError(bytes, keyAt, keyBytes);
  }

  /** People know a key without the end that marks the state of a composite. */
  #countDecision(frame: CommandFrame, isAllowed: boolean, hash: number): void {
    const { bytes, keyAt, keyBytes, at } = frame;
    const length = isComposite(bytes, at) ? withoutSuffix(bytes, keyAt, keyBytes) : keyBytes;
    this.#figures?.countDecision(isAllowed, hash, bytes, keyAt, length);
  }

  /** The text of the current record. */
  #state(): string {
    const { segment, slot } = this.#records;
    const length = segment.slots[slot + LOW]!;
    if (length > STATE_BYTES_MAX) {
      throw new Refusal(
        `state_invalid: the buffer has ${length} bytes, but a state has at most ${STATE_BYTES_MAX}`,
      );
    }
    return binaryString(segment.arena, segment.valueAt(slot), length);
  }

  #store({ bytes, keyAt, keyBytes }: CommandFrame, state: string, ttlNs: bigint): void {
    const records = this.#records;
    const scratch = this.#scratch;
    scratch.reset();
    scratch.copy(bytes, keyAt, keyAt + keyBytes);
    const stateAt = scratch.reserve(state.length);
    for (let i = 0; i < state.length; i++) scratch.bytes[stateAt + i] = state.charCodeAt(i);
    this.#expires.setBig(ttlNs).add(records.now.high, records.now.low);
    if (!records.setBufferFrom(scratch, Keyspace.throttr, keyBytes, SECONDS, this.#expires)) {
      throw new Refusal(SHARD_FULL);
    }
    records.countWrite();
  }
}
