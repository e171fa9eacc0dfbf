/**
 * RESTORE: a record as an export has it goes back in, with its kind, unit, end and value as they were.
 *
 * Unlike INSERT and SET it says when the record ends, not how long it lives, so it does not matter how
 * long it was under way. Formats: `wire/edge/command.ts`.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { RESTORE_FIELDS_BYTES, RestoreOutcome, RestorePolicy } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { PAIR_UNITS } from "../wire/throttr/pair-units.ts";
import type { CommandFrame } from "./command-frame.ts";
import { RecordImage, writeImage } from "./image.ts";
import type { Records } from "./records.ts";
import { policyInvalid, Refusal, SHARD_FULL, unitInvalid } from "./refusal.ts";
import { Kind } from "./segment.ts";
import { U64, unitNs } from "./time.ts";

const QUOTA_BYTES = 8;

/** The fields of a record, as a request has them. */
interface Fields {
  readonly kind: Kind;
  readonly unit: number;
  readonly valueAt: number;
  readonly valueBytes: number;
}

export class Restore {
  readonly #records: Records;
  readonly #expires = new U64();
  /** The image of the record that makes room for one of the other kind. */
  readonly #former = new ByteWriter(256);
  readonly #image = new RecordImage();

  constructor(records: Records) {
    this.#records = records;
  }

  /**
   * Executes a RESTORE or RESTORE_PAIR.
   *
   * @returns one of `RestoreOutcome`
   * @throws Refusal when the body is invalid, or there is no room: nothing has been changed
   */
  execute(frame: CommandFrame, keyspace: Keyspace): number {
    const { bytes, view, at, keyAt, keyBytes } = frame;
    const records = this.#records;
    const fields = readFields(frame, keyspace);
    const policy = bytes[at]!;
    this.#expires.set(view.getUint32(at + 7, true), view.getUint32(at + 3, true));
    records.fromReal(this.#expires);
    if (this.#expires.notAfter(records.now.high, records.now.low)) return RestoreOutcome.expired;
    const found = records.find(keyspace, bytes, keyAt, keyBytes);
    if (found !== 0 && policy === RestorePolicy.keep) return RestoreOutcome.kept;
    const isPut =
      found === 0 || found === fields.kind
        ? this.#put(frame, keyspace, fields)
        : this.#exchange(frame, keyspace, fields);
    if (!isPut) throw new Refusal(SHARD_FULL);
    records.countWrite();
    return RestoreOutcome.restored;
  }

  /** Sets the current record, which is of the same kind, or adds the record if there is none. */
  #put(
    { bytes, view, keyAt, keyBytes }: CommandFrame,
    keyspace: Keyspace,
    fields: Fields,
  ): boolean {
    const { kind, unit, valueAt, valueBytes } = fields;
    const records = this.#records;
    const expires = this.#expires;
    if (kind === Kind.buffer) {
      return records.setBuffer(
        keyspace,
        bytes,
        keyAt,
        keyBytes,
        unit,
        valueAt,
        valueBytes,
        expires,
      );
    }
    const high = view.getUint32(valueAt + 4, true);
    const low = view.getUint32(valueAt, true);
    if (records.slot < 0) {
      return records.addCounter(keyspace, bytes, keyAt, keyBytes, unit, high, low, expires);
    }
    records.resetCounter(unit, high, low, expires);
    return true;
  }

  /** Replaces the current record, which is of the other kind. Where there is no room, it comes back. */
  #exchange(frame: CommandFrame, keyspace: Keyspace, fields: Fields): boolean {
    const records = this.#records;
    const former = this.#former;
    former.reset();
    writeImage(former, records.segment, records.slot);
    records.remove();
    if (this.#put(frame, keyspace, fields)) return true;
    records.restore(this.#image.read(former.bytes, former.view, 0));
    records.commit.replaced(records.segment, records.slot);
    return false;
  }
}

/** @throws Refusal */
function readFields(frame: CommandFrame, keyspace: Keyspace): Fields {
  frame.need(RESTORE_FIELDS_BYTES, Infinity);
  const { bytes, at } = frame;
  const valueBytes = frame.bytesLeft - RESTORE_FIELDS_BYTES;
  const [policy, kind, unit] = [bytes[at]!, bytes[at + 1]!, bytes[at + 2]!];
  if (policy > RestorePolicy.replace) {
    throw new Refusal(policyInvalid(policy));
  }
  if (kind !== Kind.counter && kind !== Kind.buffer) {
    throw new Refusal(`kind_invalid: expected 1 (counter) or 2 (buffer), got ${kind}`);
  }
  if (unitNs(unit) === 0) throw new Refusal(unitInvalid(unit));
  if (keyspace === Keyspace.throttrPairs) assertOfPair(kind, unit);
  if (kind === Kind.counter && valueBytes !== QUOTA_BYTES) {
    throw new Refusal(`body_invalid: expected ${QUOTA_BYTES} bytes for a quota, got ${valueBytes}`);
  }
  return { kind, unit, valueAt: at + RESTORE_FIELDS_BYTES, valueBytes };
}

/** Pairs are counters, and have the units that dialect 2 can say. */
function assertOfPair(kind: number, unit: number): void {
  if (kind !== Kind.counter) {
    throw new Refusal("kind_invalid: expected 1 (counter) because the key is a pair, got 2");
  }
  if (!PAIR_UNITS.includes(unit)) {
    throw new Refusal(
      `unit_invalid: expected 1, 3 or 4 (ns, ms, s) because the key is a pair, got ${unit}`,
    );
  }
}
