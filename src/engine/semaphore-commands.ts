/**
 * The commands of the edge dialect on semaphores: who has no connection holds resources by leases.
 *
 * Each may be sent again as it is: the same lease is acquired once, and renewed from then on. A lease is
 * found by its semaphore and its id together, so whoever may not name a semaphore can't reach what others
 * hold of it. Formats: `wire/edge/command.ts`.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import {
  Command,
  LEASE_ID_BYTES,
  LEASE_TTL_MS_MAX,
  TTL_BYTES,
  U32_MAX,
} from "../wire/edge/command.ts";
import { Status } from "../wire/yrmcds/protocol.ts";
import type { Records } from "./records.ts";
import { Refusal, SHARD_FULL, unitInvalid } from "./refusal.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { U64, unitNs } from "./time.ts";

/** Fields of an ACQUIRE, behind the lease's id. */
const RESOURCES_AT = LEASE_ID_BYTES;
const MAXIMUM_AT = RESOURCES_AT + 4;

/** Bytes of body, by command. */
const BODY_BYTES: Readonly<Record<number, number>> = {
  [Command.acquire]: MAXIMUM_AT + 4 + TTL_BYTES,
  [Command.renew]: LEASE_ID_BYTES + TTL_BYTES,
  [Command.release]: LEASE_ID_BYTES,
  [Command.semaphore]: 0,
};

/** Commands on semaphores that a shard answers. */
export const SEMAPHORE_COMMANDS: readonly number[] = Object.keys(BODY_BYTES).map(Number);

/** Where a request has the name of a semaphore. */
export interface NamePlace {
  readonly at: number;
  readonly length: number;
}

export class SemaphoreCommands {
  readonly #records: Records;
  readonly #semaphores: Semaphores;
  readonly #out: ByteWriter;
  readonly #time = new U64();

  constructor(records: Records, semaphores: Semaphores, out: ByteWriter) {
    this.#records = records;
    this.#semaphores = semaphores;
    this.#out = out;
  }

  /**
   * Executes a command, one of `SEMAPHORE_COMMANDS`, whose body is `bytes[at, end)`, and writes the body
   * of its reply.
   *
   * @throws Refusal when nothing has been acquired, renewed or released
   */
  execute(
    type: number,
    bytes: Uint8Array,
    view: DataView,
    name: NamePlace,
    at: number,
    end: number,
  ): void {
    if (end - at !== BODY_BYTES[type]) {
      throw new Refusal(
        `body_invalid: ${BODY_BYTES[type]} bytes of body are expected, there are ${end - at}`,
      );
    }
    if (name.length === 0) {
      throw new Refusal("name_invalid: 1 to 255 bytes are expected, got 0");
    }
    if (type === Command.semaphore) return this.#tell(bytes, name);
    const leaseId = bytes.subarray(at, at + LEASE_ID_BYTES);
    if (type === Command.acquire) return this.#acquire(bytes, view, name, leaseId, at);
    if (type === Command.renew) return this.#renew(bytes, view, name, leaseId, at + LEASE_ID_BYTES);
    return this.#release(bytes, name, leaseId);
  }

  #acquire(
    bytes: Uint8Array,
    view: DataView,
    { at: nameAt, length }: NamePlace,
    leaseId: Uint8Array,
    at: number,
  ): void {
    const resources = view.getUint32(at + RESOURCES_AT, true);
    const maximum = view.getUint32(at + MAXIMUM_AT, true);
    if (resources === 0) {
      throw new Refusal(`resources_invalid: 1 to ${U32_MAX} are possible, got 0`);
    }
    if (maximum < resources) {
      throw new Refusal(
        `maximum_invalid: ${resources} (the resources) to ${U32_MAX} are possible, got ${maximum}`,
      );
    }
    const ttlMs = this.#ttlMsAt(bytes, view, at + MAXIMUM_AT + 4);
    const { status, endsAtMs } = this.#semaphores.acquireLease(
      bytes.subarray(nameAt, nameAt + length),
      resources,
      maximum,
      ttlMs,
      leaseId,
      this.#records.clock.realMs,
    );
    if (status === Status.outOfMemory) throw new Refusal(SHARD_FULL);
    if (status === Status.invalidArguments) {
      throw new Refusal(
        "lease_conflict: the id is that of a lease of another semaphore, or of other resources",
      );
    }
    this.#writeLease(resources, endsAtMs);
  }

  #renew(
    bytes: Uint8Array,
    view: DataView,
    name: NamePlace,
    leaseId: Uint8Array,
    ttlAt: number,
  ): void {
    const nowMs = this.#records.clock.realMs;
    const ttlMs = this.#ttlMsAt(bytes, view, ttlAt);
    const resources = this.#amount(bytes, name, leaseId);
    const endsAtMs = resources === 0 ? null : this.#semaphores.renew(leaseId, ttlMs, nowMs);
    this.#writeLease(resources, endsAtMs);
  }

  #release(bytes: Uint8Array, name: NamePlace, leaseId: Uint8Array): void {
    const nowMs = this.#records.clock.realMs;
    const isHeld = this.#amount(bytes, name, leaseId) > 0;
    this.#out.u8(isHeld && this.#semaphores.releaseLease(leaseId, nowMs) ? 1 : 0);
  }

  #tell(bytes: Uint8Array, { at, length }: NamePlace): void {
    const out = this.#out;
    const entry = this.#semaphores.entry(bytes, at, length, this.#records.clock.realMs);
    out.u8(entry === null ? 0 : 1);
    if (entry === null) return;
    out.u32(entry.consumption);
    out.u32(entry.maximum);
  }

  /** What a lease holds of the semaphore; 0 when there is no such lease of it, or no more. */
  #amount(bytes: Uint8Array, { at, length }: NamePlace, leaseId: Uint8Array): number {
    return this.#semaphores.leaseAmount(bytes, at, length, leaseId, this.#records.clock.realMs);
  }

  /** Reads a TTL, and rounds it up. */
  #ttlMsAt(bytes: Uint8Array, view: DataView, at: number): number {
    const unit = unitNs(bytes[at]!);
    if (unit === 0) throw new Refusal(unitInvalid(bytes[at]!));
    const low = view.getUint32(at + 1, true);
    const high = view.getUint32(at + 5, true);
    const ttlMs = this.#time.setDuration(high, low, unit).toMsCeil();
    if (ttlMs >= 1 && ttlMs <= LEASE_TTL_MS_MAX) return ttlMs;
    throw new Refusal(
      `ttl_invalid: 1 to ${LEASE_TTL_MS_MAX} ms are possible for a lease, got ${ttlMs}`,
    );
  }

  /** @param endsAtMs null where there is no lease */
  #writeLease(resources: number, endsAtMs: number | null): void {
    const out = this.#out;
    out.u8(endsAtMs === null ? 0 : 1);
    if (endsAtMs === null) return;
    const { realNow } = this.#records;
    const ends = this.#records.toReal(this.#time.setMs(endsAtMs));
    out.u32(resources);
    out.u32(ends.low);
    out.u32(ends.high);
    const left = ends.subtract(realNow.high, realNow.low);
    out.u32(left.low);
    out.u32(left.high);
  }
}
