/** States of rate limits, as the buffers that they are stored in. */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { Records } from "./records.ts";
import { assertKind, Refusal, SHARD_FULL } from "./refusal.ts";
import { EXPIRES_HIGH, EXPIRES_LOW, Kind, LOW } from "./segment.ts";
import { U64 } from "./time.ts";

/** TTL type of states, as LIST shows it. */
const SECONDS = 4;
/** No limiter writes a longer state. */
const STATE_BYTES_MAX = 4096;

/** Where the key of a state lies. */
export interface StateKey {
  readonly bytes: Uint8Array;
  readonly keyAt: number;
  readonly keyBytes: number;
}

/** A state as it is stored. */
export interface StoredState {
  readonly state: string;
  readonly expires: U64;
}

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
  find({ bytes, keyAt, keyBytes }: StateKey): string | null {
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

  /**
   * Stores a state under the key that the last `find` has looked up.
   *
   * @param endNs until when it must be there: reservations are settled with it
   * @throws Refusal when the shard has no room; nothing was stored then
   */
  store(key: StateKey, state: string, ttlNs: bigint, endNs = 0n): void {
    const ttlEndNs = this.#records.now.toBig() + ttlNs;
    this.#expires.setBig(ttlEndNs > endNs ? ttlEndNs : endNs);
    this.#storeUntil(key, state, this.#expires);
  }

  /** As `store`, for a state that is there and units that go back to it: a full shard takes it as well. */
  storeGivenBack(key: StateKey, state: string, ttlNs: bigint, endNs: bigint): void {
    this.#records.space.neverRefusing(() => this.store(key, state, ttlNs, endNs));
  }

  /**
   * As `find`, with the end of the state.
   *
   * @throws Refusal for a record that can't be a state
   */
  findStored(key: StateKey): StoredState | null {
    const state = this.find(key);
    if (state === null) return null;
    const { segment, slot } = this.#records;
    const { slots } = segment;
    const expires = new U64().set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!);
    return { state, expires };
  }

  /** Puts back what was stored a moment ago, in the record that is there, also in a full shard; null for nothing. */
  putBack(key: StateKey, before: StoredState | null): void {
    const isThere = this.find(key) !== null;
    if (before !== null) {
      const { state, expires } = before;
      this.#records.space.neverRefusing(() => this.#storeUntil(key, state, expires));
    } else if (isThere) this.#records.remove();
  }

  #storeUntil({ bytes, keyAt, keyBytes }: StateKey, state: string, expires: U64): void {
    const records = this.#records;
    const scratch = this.#scratch;
    scratch.reset();
    scratch.copy(bytes, keyAt, keyAt + keyBytes);
    const stateAt = scratch.reserve(state.length);
    for (let i = 0; i < state.length; i++) scratch.bytes[stateAt + i] = state.charCodeAt(i);
    if (!records.setBufferFrom(scratch, Keyspace.throttr, keyBytes, SECONDS, expires)) {
      throw new Refusal(SHARD_FULL);
    }
    records.countWrite();
  }
}
