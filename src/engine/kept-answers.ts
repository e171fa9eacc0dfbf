/**
 * Kept answers: a command with an idempotency key is applied once, however often it arrives.
 *
 * The first answer is kept beside the record, as a buffer in a keyspace of its own and in the same commit:
 *
 *     key   = idempotency key size u8, idempotency key, key of the command
 *     value = fingerprint of the command 8, its reply
 *
 * An error has changed nothing, and is not kept.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { IDEMPOTENCY_KEY_BYTES_MAX } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { CommandFrame } from "./command-frame.ts";
import { hashBytes, type HashKey } from "./hash.ts";
import type { Records } from "./records.ts";
import { Refusal, SHARD_FULL } from "./refusal.ts";
import { LOW } from "./segment.ts";
import { U64, unitNs } from "./time.ts";

/** TTL type of kept answers, as LIST shows it. */
const MILLISECONDS = 3;
/**
 * Longer answers are those of commands that have changed nothing. They are not kept: the command may be executed
 * again.
 */
const ANSWER_BYTES_MAX = 1024;

const FINGERPRINT_BYTES = 8;
/** Part of what is stored: an answer must be found to be that of the same request. */
const FINGERPRINT_KEYS: readonly HashKey[] = [
  { low: 0x243f6a88, high: 0x85a308d3 },
  { low: 0x13198a2e, high: 0x03707344 },
];

export class KeptAnswers {
  readonly #records: Records;
  readonly #out: ByteWriter;
  readonly #ttlMs: number;
  /** Key and value of the record that keeps the answer. */
  readonly #kept = new ByteWriter(256);
  readonly #expires = new U64();

  /** @param ttlMs how long an answer is kept */
  constructor(records: Records, out: ByteWriter, ttlMs: number) {
    this.#records = records;
    this.#out = out;
    this.#ttlMs = ttlMs;
  }

  /**
   * Writes the kept answer to the command, or executes it and keeps its answer.
   *
   * @param answer executes the command and writes its answer
   * @throws Refusal when nothing was applied: the idempotency key is invalid, came with another command before, or
   * there is no room for an answer
   */
  answerOnce(frame: CommandFrame, answer: () => void): void {
    frame.need(1, Infinity);
    const idBytes = frame.takeU8();
    if (idBytes < 1 || idBytes > IDEMPOTENCY_KEY_BYTES_MAX) {
      throw new Refusal(
        `idempotency_key_invalid: expected 1 to ${IDEMPOTENCY_KEY_BYTES_MAX} bytes, got ${idBytes}`,
      );
    }
    frame.need(idBytes, Infinity);
    const keyBytes = this.#writeKey(frame, idBytes);
    if (this.#find(keyBytes)) return this.#repeat(keyBytes);
    // Before the command is executed: if there is no room for its answer then, it is still known to have been applied.
    if (!this.#set(keyBytes)) throw new Refusal(SHARD_FULL);
    const start = this.#out.length;
    try {
      answer();
    } catch (error) {
      if (this.#find(keyBytes)) this.#records.remove();
      throw error;
    }
    this.#keep(keyBytes, start);
  }

  /** Writes key and fingerprint, and passes the idempotency key in the frame; returns the bytes of the key. */
  #writeKey(frame: CommandFrame, idBytes: number): number {
    const kept = this.#kept;
    const idAt = frame.take(idBytes);
    kept.reset();
    kept.u8(idBytes);
    kept.copy(frame.bytes, idAt, idAt + idBytes);
    kept.copy(frame.bytes, frame.keyAt, frame.keyAt + frame.keyBytes);
    const keyBytes = kept.length;
    for (const key of FINGERPRINT_KEYS) {
      const body = hashBytes(key, 0, frame.bytes, frame.at, frame.bytesLeft);
      kept.u32((body ^ (frame.type * 0x9e3779b1)) >>> 0);
    }
    return keyBytes;
  }

  #find(keyBytes: number): boolean {
    return this.#records.find(Keyspace.answers, this.#kept.bytes, 0, keyBytes) !== 0;
  }

  #repeat(keyBytes: number): void {
    const { segment, slot } = this.#records;
    const at = segment.valueAt(slot);
    const length = segment.slots[slot + LOW]!;
    for (let i = 0; i < FINGERPRINT_BYTES; i++) {
      if (segment.arena[at + i] === this.#kept.bytes[keyBytes + i]) continue;
      throw new Refusal(
        "idempotency_conflict: the idempotency key was already used for a different call on this key",
      );
    }
    if (length === FINGERPRINT_BYTES) {
      throw new Refusal(
        "answer_lost: the call was applied before, but its answer could not be stored",
      );
    }
    this.#out.copy(segment.arena, at + FINGERPRINT_BYTES, at + length);
  }

  /** Keeps the answer that begins at `start` of what was written. */
  #keep(keyBytes: number, start: number): void {
    if (!this.#find(keyBytes)) return;
    if (this.#out.length - start > ANSWER_BYTES_MAX) {
      this.#records.remove();
      return;
    }
    this.#kept.copy(this.#out.bytes, start, this.#out.length);
    // Where there is no room, the record that was set before the command says that the answer is lost.
    this.#set(keyBytes);
  }

  #set(keyBytes: number): boolean {
    const { now } = this.#records;
    this.#expires.setDuration(0, this.#ttlMs, unitNs(MILLISECONDS)).add(now.high, now.low);
    return this.#records.setBufferFrom(
      this.#kept,
      Keyspace.answers,
      keyBytes,
      MILLISECONDS,
      this.#expires,
    );
  }
}
