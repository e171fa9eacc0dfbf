/**
 * The commands of the edge dialect on semaphores: callers without a connection hold resources by leases.
 *
 * Each command may be repeated: the same lease is acquired once, and renewed from then on. A lease is
 * found by its semaphore and its id together, so a caller without the right to name a semaphore can't reach what others
 * hold of it. Formats: `wire/edge/command.ts`.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import {
  Command,
  LEASE_ID_BYTES,
  LEASE_TTL_MS_MAX,
  RESTORED_LEASE_MS_MAX,
  RestorePolicy,
  TTL_BYTES,
  U32_MAX,
} from "../wire/edge/command.ts";
import { writeApplied, writeLease } from "../wire/edge/outcome.ts";
import { Status } from "../wire/yrmcds/protocol.ts";
import type { CommandFrame } from "./command-frame.ts";
import type { Records } from "./records.ts";
import { policyInvalid, Refusal, SHARD_FULL } from "./refusal.ts";
import { Leases } from "./semaphores/leases.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { U64 } from "./time.ts";

/** Bytes of body, by command. */
const BODY_BYTES: Readonly<Record<number, number>> = {
  [Command.acquire]: LEASE_ID_BYTES + 4 + 4 + TTL_BYTES,
  [Command.renew]: LEASE_ID_BYTES + TTL_BYTES,
  [Command.release]: LEASE_ID_BYTES,
  [Command.semaphore]: 0,
  [Command.restoreLease]: 1 + LEASE_ID_BYTES + 4 + 8,
};

const RESOURCES_ZERO = `resources_invalid: expected 1 to ${U32_MAX}, got 0`;

/** Commands on semaphores that a shard answers. */
export const SEMAPHORE_COMMANDS: readonly number[] = Object.keys(BODY_BYTES).map(Number);

export class SemaphoreCommands {
  readonly #records: Records;
  readonly #semaphores: Semaphores;
  readonly #leases: Leases;
  readonly #out: ByteWriter;
  readonly #time = new U64();
  readonly #left = new U64();

  constructor(records: Records, semaphores: Semaphores, out: ByteWriter) {
    this.#records = records;
    this.#semaphores = semaphores;
    this.#leases = new Leases(semaphores);
    this.#out = out;
  }

  /**
   * Executes one of `SEMAPHORE_COMMANDS` and writes the body of its reply.
   *
   * @throws Refusal when nothing has been acquired, renewed or released
   */
  execute(frame: CommandFrame): void {
    const { type, bytes, at, keyBytes } = frame;
    frame.need(BODY_BYTES[type]!);
    if (keyBytes === 0) throw new Refusal("name_invalid: expected 1 to 255 bytes, got 0");
    if (type === Command.semaphore) return this.#inspect(frame);
    if (type === Command.restoreLease) return this.#restore(frame);
    frame.take(LEASE_ID_BYTES);
    const leaseId = bytes.subarray(at, at + LEASE_ID_BYTES);
    if (type === Command.acquire) return this.#acquire(frame, leaseId);
    if (type === Command.renew) return this.#renew(frame, leaseId);
    return this.#release(frame, leaseId);
  }

  #acquire(frame: CommandFrame, leaseId: Uint8Array): void {
    const { view } = frame;
    const resources = view.getUint32(frame.take(4), true);
    const maximum = view.getUint32(frame.take(4), true);
    if (resources === 0) throw new Refusal(RESOURCES_ZERO);
    if (maximum < resources) {
      throw new Refusal(
        `maximum_invalid: expected ${resources} (the resources) to ${U32_MAX}, got ${maximum}`,
      );
    }
    const name = nameOf(frame);
    const ttlMs = this.#takeTtlMs(frame);
    const { status, endsAtMs } = this.#leases.acquire(
      { name, resources, maximum, ttlMs, leaseId },
      this.#records.clock.realMs,
    );
    if (status === Status.outOfMemory) throw new Refusal(SHARD_FULL);
    if (status === Status.invalidArguments) {
      throw new Refusal("lease_conflict: the lease holds another number of resources");
    }
    this.#writeLease(resources, endsAtMs);
  }

  #renew(frame: CommandFrame, leaseId: Uint8Array): void {
    const { realMs } = this.#records.clock;
    const held = this.#leases.renew(nameOf(frame), leaseId, this.#takeTtlMs(frame), realMs);
    this.#writeLease(held?.resources ?? 0, held?.endsAtMs ?? null);
  }

  #release(frame: CommandFrame, leaseId: Uint8Array): void {
    const { realMs } = this.#records.clock;
    writeApplied(this.#out, this.#leases.release(nameOf(frame), leaseId, realMs));
  }

  #restore(frame: CommandFrame): void {
    const { bytes, view } = frame;
    const { clock } = this.#records;
    const policy = frame.takeU8();
    if (policy > RestorePolicy.replace) throw new Refusal(policyInvalid(policy));
    const idAt = frame.take(LEASE_ID_BYTES);
    const leaseId = bytes.subarray(idAt, idAt + LEASE_ID_BYTES);
    const resources = view.getUint32(frame.take(4), true);
    if (resources === 0) throw new Refusal(RESOURCES_ZERO);
    const endAt = frame.take(8);
    const end = this.#time.set(view.getUint32(endAt + 4, true), view.getUint32(endAt, true));
    const leftMs = end.toMsCeil() - clock.realMs;
    if (leftMs > RESTORED_LEASE_MS_MAX) {
      throw new Refusal(
        `expires_at_ms_invalid: expected an end at most ${RESTORED_LEASE_MS_MAX} ms from now, got ${leftMs}`,
      );
    }
    const lease = {
      name: nameOf(frame),
      leaseId,
      resources,
      endsAtMs: this.#records.fromReal(end).toMsCeil(),
    };
    const isReplacing = policy === RestorePolicy.replace;
    this.#out.u8(this.#leases.restore(lease, isReplacing, clock.realMs));
  }

  #inspect({ bytes, keyAt, keyBytes }: CommandFrame): void {
    const out = this.#out;
    const entry = this.#semaphores.entry(bytes, keyAt, keyBytes, this.#records.clock.realMs);
    writeApplied(out, entry !== null);
    if (entry === null) return;
    out.u32(entry.consumption);
    out.u32(entry.maximum);
  }

  /** Reads a TTL, and rounds it up. */
  #takeTtlMs(frame: CommandFrame): number {
    frame.takeTtl(this.#time);
    const ttlMs = this.#time.toMsCeil();
    if (ttlMs >= 1 && ttlMs <= LEASE_TTL_MS_MAX) return ttlMs;
    throw new Refusal(
      `ttl_invalid: expected 1 to ${LEASE_TTL_MS_MAX} ms for a lease, got ${ttlMs}`,
    );
  }

  /** @param endsAtMs null where there is no lease */
  #writeLease(resources: number, endsAtMs: number | null): void {
    const out = this.#out;
    writeApplied(out, endsAtMs !== null);
    if (endsAtMs === null) return;
    const { realNow } = this.#records;
    const expires = this.#records.toReal(this.#time.setMs(endsAtMs));
    const left = this.#left.set(expires.high, expires.low).subtract(realNow.high, realNow.low);
    writeLease(out, resources, expires, left);
  }
}

/** Name of the semaphore that a command is about. */
function nameOf({ bytes, keyAt, keyBytes }: CommandFrame): Uint8Array {
  return bytes.subarray(keyAt, keyAt + keyBytes);
}
