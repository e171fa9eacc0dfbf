/**
 * Leases: holdings with an end, for callers without a connection.
 *
 * A lease is found by its semaphore and its ID together. So it does not matter which shards semaphores lie in: one ID
 * may hold resources of several semaphores, each until an end of its own. `Semaphores` has what leases share with
 * connections, and ends leases that are over.
 */
import { RestoreOutcome, U32_MAX } from "../../wire/edge/command.ts";
import { NAME_BYTES_MAX, Status } from "../../wire/yrmcds/protocol.ts";
import { Refusal, SHARD_FULL } from "../refusal.ts";
import { leaseHolder } from "./holder.ts";
import type { Semaphores } from "./semaphores.ts";

/** A lease that is asked for. */
export interface LeaseRequest {
  /** 1 to 65,535 bytes. */
  readonly name: Uint8Array;
  /** 1 to 2^32 - 1. */
  readonly resources: number;
  /** That the consumption may reach: `resources` to 2^32 - 1. */
  readonly maximum: number;
  /** From now to the end of the lease, 1 or more. */
  readonly ttlMs: number;
  /** 16 bytes. */
  readonly leaseId: Uint8Array;
}

/** A lease that is put back as it was elsewhere. */
export interface StoredLease {
  /** 1 to 65,535 bytes. */
  readonly name: Uint8Array;
  /** 16 bytes. */
  readonly leaseId: Uint8Array;
  /** 1 to 2^32 - 1. */
  readonly resources: number;
  /** In ms since the epoch, by the shard's time. */
  readonly endsAtMs: number;
}

/** The outcome of acquiring a lease. */
export interface LeaseOutcome {
  /** `success`, `invalidArguments`, `resourceNotAvailable` or `outOfMemory`. */
  status: Status;
  /** When the lease ends, in ms since the epoch by the shard's time; null without success. */
  endsAtMs: number | null;
}

/** A lease that is held. */
export interface HeldLease {
  readonly resources: number;
  /** In ms since the epoch, by the shard's time. */
  readonly endsAtMs: number;
}

/** Every method takes a reading of the platform's clock, in ms since the epoch, and ends leases first. */
export class Leases {
  readonly #semaphores: Semaphores;

  constructor(semaphores: Semaphores) {
    this.#semaphores = semaphores;
  }

  /**
   * Acquires resources of a semaphore until the lease is released or ends. Acquiring a lease again with the same
   * resources renews it, so a call whose answer was lost may be repeated. With others the arguments are invalid.
   *
   * @throws RangeError `ttl_invalid`, or `holder` when the ID has not 16 bytes
   */
  acquire(request: LeaseRequest, nowMs: number): LeaseOutcome {
    const { name, resources, maximum, ttlMs, leaseId } = request;
    const endsAtMs = this.#endAfter(ttlMs, nowMs);
    const isValid = resources > 0 && maximum >= resources && isU32(resources) && isU32(maximum);
    if (!isValid || name.length === 0 || name.length > NAME_BYTES_MAX) {
      return { status: Status.invalidArguments, endsAtMs: null };
    }
    const held = this.find(name, leaseId, nowMs);
    if (held === null) {
      const status = this.#semaphores.hold(name, 0, name.length, resources, maximum, endsAtMs);
      return { status, endsAtMs: status === Status.success ? endsAtMs : null };
    }
    if (held.resources !== resources) return { status: Status.invalidArguments, endsAtMs: null };
    this.#semaphores.stored.setEnd(endsAtMs);
    return { status: Status.success, endsAtMs };
  }

  /**
   * Lets a lease end `ttlMs` from now; null if there is no such lease, or it has ended.
   *
   * @throws RangeError as `acquire`
   */
  renew(name: Uint8Array, leaseId: Uint8Array, ttlMs: number, nowMs: number): HeldLease | null {
    const endsAtMs = this.#endAfter(ttlMs, nowMs);
    const held = this.find(name, leaseId, nowMs);
    if (held === null) return null;
    this.#semaphores.stored.setEnd(endsAtMs);
    return { resources: held.resources, endsAtMs };
  }

  /**
   * Gives back what a lease holds. False if there is no such lease, or it has ended.
   *
   * @throws RangeError when the ID has not 16 bytes
   */
  release(name: Uint8Array, leaseId: Uint8Array, nowMs: number): boolean {
    if (this.find(name, leaseId, nowMs) === null) return false;
    this.#semaphores.giveBack(this.#semaphores.stored.row, this.#semaphores.readClock(nowMs));
    return true;
  }

  /**
   * Puts a lease back as it was, whatever is in use: the caller does not know which maximum it was acquired with. Putting it
   * back again leaves what doing it once does.
   *
   * @param isReplacing a live lease of the same semaphore and ID takes the resources and the end; else it stays as it is
   * @returns one of `RestoreOutcome`
   * @throws Refusal when there is no room, or more would be in use than 32 bits hold: nothing has been changed
   */
  restore(lease: StoredLease, isReplacing: boolean, nowMs: number): number {
    const { name, leaseId, resources, endsAtMs } = lease;
    const semaphores = this.#semaphores;
    const held = this.find(name, leaseId, nowMs);
    if (endsAtMs <= semaphores.readClock(nowMs)) return RestoreOutcome.expired;
    if (held === null) {
      const status = semaphores.hold(name, 0, name.length, resources, U32_MAX, endsAtMs);
      if (status === Status.resourceNotAvailable) throw new Refusal(TOO_MUCH);
      if (status === Status.outOfMemory) throw new Refusal(SHARD_FULL);
      return RestoreOutcome.restored;
    }
    if (!isReplacing) return RestoreOutcome.kept;
    const others = semaphores.get(name, 0, name.length, nowMs) - held.resources;
    if (others + resources > U32_MAX) throw new Refusal(TOO_MUCH);
    this.find(name, leaseId, nowMs);
    semaphores.stored.setEnd(endsAtMs);
    semaphores.setAmount(held.resources, resources);
    return RestoreOutcome.restored;
  }

  /** A lease, whose holding is the current record then; null if there is no such lease, or it has ended. */
  find(name: Uint8Array, leaseId: Uint8Array, nowMs: number): HeldLease | null {
    const { stored } = this.#semaphores;
    this.#semaphores.expire(nowMs);
    stored.setHolder(leaseHolder(leaseId));
    const resources = stored.find(name, 0, name.length) ? stored.findAmount() : 0;
    return resources === 0 ? null : { resources, endsAtMs: stored.endsAtMs };
  }

  #endAfter(ttlMs: number, nowMs: number): number {
    const endsAtMs = this.#semaphores.readClock(nowMs) + ttlMs;
    if (Number.isSafeInteger(ttlMs) && ttlMs >= 1 && Number.isSafeInteger(endsAtMs))
      return endsAtMs;
    throw new RangeError(
      `ttl_invalid: ttlMs: expected a whole number of milliseconds, 1 or more, got ${ttlMs}`,
    );
  }
}

const TOO_MUCH = `resources_invalid: expected at most ${U32_MAX} in use together`;

function isU32(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}
