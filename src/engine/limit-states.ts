/** States of rate limits, as the buffers that they are stored in. */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { CommandFrame } from "./command-frame.ts";
import type { Records } from "./records.ts";
import { assertKind, Refusal, SHARD_FULL } from "./refusal.ts";
import { Kind, LOW } from "./segment.ts";
import { U64 } from "./time.ts";

/** TTL type of states, as LIST shows it. */
const SECONDS = 4;
/** No limiter writes a longer state. */
const STATE_BYTES_MAX = 4096;

export class LimitStates {
  readonly #records: Records;
  /** The key, and the state behind it. */
  readonly #scratch = new ByteWriter(256);
  readonly #expires = new U64();

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * The state under the key of a command, which becomes the current record; null where no record exists.
   *
   * @throws Refusal for a record that can't be a state
   */
  find({ bytes, keyAt, keyBytes }: CommandFrame): string | null {
    const kind = this.#records.find(Keyspace.throttr, bytes, keyAt, keyBytes);
    if (kind === 0) return null;
    assertKind(kind, Kind.buffer);
    const { segment, slot } = this.#records;
    const length = segment.slots[slot + LOW]!;
    if (length > STATE_BYTES_MAX) {
      throw new Refusal(
        `state_invalid: the buffer has ${length} bytes, but a state has at most ${STATE_BYTES_MAX}`,
      );
    }
    return binaryString(segment.arena, segment.valueAt(slot), length);
  }

  /** @throws Refusal when the shard has no room; nothing was stored then */
  store({ bytes, keyAt, keyBytes }: CommandFrame, state: string, ttlNs: bigint): void {
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
