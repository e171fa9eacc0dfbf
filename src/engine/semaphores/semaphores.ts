/**
 * Distributed semaphores: they say how much of a resource is in use, and who holds how much.
 *
 * Semaphores and holdings are records: they are journalled, restored and budgeted like all others. After
 * every call the consumption of a semaphore is the sum of the amounts of its holdings. A lease gives back what it holds
 * at its end, exact to the millisecond: every method expires leases first.
 *
 * Every method takes a reading of the platform's clock, milliseconds since the epoch. What it returns is in the
 * shard's time (`ShardClock`), except `deadlineMs`, for which an alarm is set. Source: yrmcds protocol reference,
 * "Packet specifications", "End of a connection" and "Statistics".
 */
import type { SemaphoreOverview } from "../../wire/overview.ts";
import { NAME_BYTES_MAX, Status } from "../../wire/yrmcds/protocol.ts";
import type { HashKey } from "../hash.ts";
import type { Records } from "../records.ts";
import { HASH_END } from "../table.ts";
import { Walk } from "../walk.ts";
import { leaseHolder } from "./holder.ts";
import type { ConnectionPage } from "./holdings.ts";
import { SemaphoreRecords } from "./semaphore-records.ts";

/** Returned instead of a consumption when there is no such semaphore. */
export const ABSENT = -1;

/** The outcome of acquiring a lease. */
export interface LeaseOutcome {
  /** `success`, `invalidArguments`, `resourceNotAvailable` or `outOfMemory`. */
  status: Status;
  /** When the lease ends, milliseconds since the epoch; null without success. */
  endsAtMs: number | null;
}

/** The figures of a shard for Stats. */
export interface SemaphoreFigures extends SemaphoreOverview {
  /** Semaphores that existed at the start or were added since. */
  totalObjects: number;
  /** Rounds of collection since the start, and how long they took. */
  collections: number;
  lastCollectionMicroseconds: number;
  totalCollectionMicroseconds: number;
}

/** How much of a resource is in use. */
export interface SemaphoreEntry {
  consumption: number;
  /** The largest consumption in this interval. */
  maximum: number;
}

/** An Acquire of a connection, as its frame says it; a Release has no maximum. */
export interface AcquireRequest {
  /** Where the name begins. */
  readonly nameAt: number;
  readonly nameBytes: number;
  /** 1 to 2^32 - 1; 0 for a Release that gives nothing back. */
  readonly resources: number;
  /** That the consumption may reach: `resources` to 2^32 - 1. */
  readonly maximum: number;
}

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

export class Semaphores {
  readonly #records: Records;
  readonly #stored: SemaphoreRecords;
  readonly #intervalMs: number;
  #collections = 0;
  #lastCollectionMicroseconds = 0;
  #totalCollectionMicroseconds = 0;

  /**
   * @param hashKey 64 random bits
   * @param intervalMs `consumption_stats.interval`: maxima are taken over it, and a semaphore without a holder is
   * collected after it
   */
  constructor(records: Records, hashKey: HashKey, intervalMs: number) {
    this.#records = records;
    this.#stored = new SemaphoreRecords(records, hashKey);
    this.#intervalMs = intervalMs;
  }

  /** The records of semaphores and holdings: for their way to another shard. */
  get stored(): SemaphoreRecords {
    return this.#stored;
  }

  /** Says that records of semaphores or holdings have been restored. */
  noteRestored(): void {
    this.#stored.noteRestored();
  }

  /** Moves the clock, and gives back what leases held that have ended by now. Returns their number. */
  expire(nowMs: number): number {
    const records = this.#records;
    records.advance(nowMs);
    if (records.commit.isExhausted && records.commit.isEmpty) records.forgetImages();
    this.#stored.ensureIndex();
    const { ends } = this.#stored.holdings;
    let ended = 0;
    for (; ends.deadlineMs <= records.nowMs; ended++) {
      this.#giveBack(ends.firstRow, ends.deadlineMs);
    }
    return ended;
  }

  /**
   * The deadline, as of the last reading of the clock: when the next lease ends, or a collection is due. Milliseconds
   * since the epoch by the platform's clock; Infinity when nothing is due.
   */
  get deadlineMs(): number {
    this.#stored.ensureIndex();
    const { semaphores, holdings } = this.#stored;
    const collectAtMs =
      semaphores === 0 ? Infinity : this.#boundary(this.#records.nowMs) + this.#intervalMs;
    return this.toRealMs(Math.min(holdings.ends.deadlineMs, collectAtMs));
  }

  /** Takes a reading of the platform's clock and gives the shard's time: for intervals, as it never goes back. */
  readClock(realMs: number): number {
    this.#records.advance(realMs);
    return this.#records.nowMs;
  }

  /** When the platform's clock shows a time of the shard. */
  toRealMs(ms: number): number {
    return this.#records.toRealMs(ms);
  }

  /** True when a connection holds anything. */
  get hasConnections(): boolean {
    this.#stored.ensureIndex();
    const { holdings } = this.#stored;
    return holdings.count > holdings.ends.count;
  }

  /** Consumption of the semaphore whose name is `bytes[at, at + length)`, or `ABSENT`. */
  get(bytes: Uint8Array, at: number, length: number, nowMs: number): number {
    this.expire(nowMs);
    return this.#stored.find(bytes, at, length) ? this.#stored.consumption : ABSENT;
  }

  /** The entry in Dump of the semaphore whose name is `bytes[at, at + length)`; null when there is none. */
  entry(bytes: Uint8Array, at: number, length: number, nowMs: number): SemaphoreEntry | null {
    this.expire(nowMs);
    const stored = this.#stored;
    if (!stored.find(bytes, at, length)) return null;
    const { consumption } = stored;
    const isOfInterval = stored.updatedAtMs >= this.#boundary(this.#records.nowMs);
    return { consumption, maximum: isOfInterval ? stored.maximum : consumption };
  }

  /** Number of the semaphore whose name is `bytes[at, at + length)`; 0 when there is none. */
  numberOf(bytes: Uint8Array, at: number, length: number, nowMs: number): number {
    this.expire(nowMs);
    return this.#stored.find(bytes, at, length) ? this.#stored.number : 0;
  }

  /** The amount that a lease holds of the semaphore whose name is `bytes[at, at + length)`; 0 for nothing. */
  leaseAmount(
    bytes: Uint8Array,
    at: number,
    length: number,
    leaseId: Uint8Array,
    nowMs: number,
  ): number {
    this.expire(nowMs);
    if (!this.#stored.find(bytes, at, length)) return 0;
    this.#stored.setHolder(leaseHolder(leaseId));
    return this.#stored.findAmount();
  }

  /**
   * Acquires resources for a connection.
   *
   * @param bytes what the request has the name in
   * @returns `success`, or `resourceNotAvailable` or `outOfMemory`, which change nothing
   */
  acquire(bytes: Uint8Array, request: AcquireRequest, holder: Uint8Array, nowMs: number): Status {
    this.expire(nowMs);
    this.#stored.setHolder(holder);
    const { nameAt, nameBytes, resources, maximum } = request;
    return this.#acquire(bytes, nameAt, nameBytes, resources, maximum, 0);
  }

  /**
   * Gives back resources that a connection holds.
   *
   * @param bytes what the request has the name in
   * @returns `success`, or `notFound` or `notAcquired`, which change nothing
   */
  release(
    bytes: Uint8Array,
    { nameAt, nameBytes, resources }: Omit<AcquireRequest, "maximum">,
    holder: Uint8Array,
    nowMs: number,
  ): Status {
    this.expire(nowMs);
    if (!this.#stored.find(bytes, nameAt, nameBytes)) return Status.notFound;
    this.#stored.setHolder(holder);
    const amount = this.#stored.findAmount();
    if (amount === 0 || resources > amount) return Status.notAcquired;
    this.#stored.setAmount(amount - resources);
    this.#released(resources, this.#records.nowMs);
    return Status.success;
  }

  /** Gives back all that a holder holds, because it has ended. Returns the number of semaphores that it held. */
  releaseAll(holder: Uint8Array, nowMs: number): number {
    this.expire(nowMs);
    const { holdings } = this.#stored;
    let released = 0;
    for (let row = holdings.firstOf(holder), next = 0; row !== 0; row = next, released++) {
      next = holdings.next(row);
      this.#giveBack(row, this.#records.nowMs);
    }
    return released;
  }

  /**
   * Acquires resources of a semaphore until a lease is released or ends. Acquiring a lease that exists, with the same
   * name and resources, renews it, so a call whose answer was lost may be repeated. With others the arguments are
   * invalid.
   *
   * @throws RangeError `ttl_invalid` or `holder_id` when the time or the id is not possible
   */
  acquireLease(
    { name, resources, maximum, ttlMs, leaseId }: LeaseRequest,
    nowMs: number,
  ): LeaseOutcome {
    this.expire(nowMs);
    const endsAtMs = this.#endAfter(ttlMs);
    const holder = leaseHolder(leaseId);
    const isValid = resources > 0 && maximum >= resources && isU32(resources) && isU32(maximum);
    if (!isValid || name.length === 0 || name.length > NAME_BYTES_MAX) {
      return { status: Status.invalidArguments, endsAtMs: null };
    }
    this.#stored.setHolder(holder);
    const row = this.#stored.holdings.firstOf(holder);
    const status =
      row === 0
        ? this.#acquire(name, 0, name.length, resources, maximum, endsAtMs)
        : this.#acquireAgain(row, name, resources, endsAtMs);
    return { status, endsAtMs: status === Status.success ? endsAtMs : null };
  }

  #acquireAgain(row: number, name: Uint8Array, resources: number, endsAtMs: number): Status {
    const isSame =
      this.#stored.find(name, 0, name.length) && this.#stored.findAmount() === resources;
    if (!isSame) return Status.invalidArguments;
    this.#stored.setEnd(row, endsAtMs);
    return Status.success;
  }

  /**
   * Lets a lease end `ttlMs` from now. Returns when, milliseconds since the epoch; null when there is no
   * such lease, or it has ended.
   *
   * @throws RangeError as `acquireLease`
   */
  renew(leaseId: Uint8Array, ttlMs: number, nowMs: number): number | null {
    this.expire(nowMs);
    const endsAtMs = this.#endAfter(ttlMs);
    const row = this.#stored.holdings.firstOf(leaseHolder(leaseId));
    if (row === 0) return null;
    this.#stored.setEnd(row, endsAtMs);
    return endsAtMs;
  }

  /**
   * Gives back what a lease holds. False when there is no such lease, or it has ended.
   *
   * @throws RangeError when the id is not possible
   */
  releaseLease(leaseId: Uint8Array, nowMs: number): boolean {
    return this.releaseAll(leaseHolder(leaseId), nowMs) > 0;
  }

  /**
   * A step of a collection: removes semaphores that have no holder and have not changed in this interval.
   *
   * @param cursor 0 at first, then what the last step returned
   * @param isUrgent all semaphores without a holder are removed, and their maxima with them
   * @returns how many were removed, and where to go on: null when all have been visited
   */
  collectStep(
    cursor: number,
    nowMs: number,
    isUrgent = false,
  ): { collected: number; cursor: number | null } {
    this.expire(nowMs);
    const { table, nowMs: presentMs } = this.#records;
    const boundaryMs = isUrgent ? Infinity : this.#boundary(presentMs);
    let collected = 0;
    let hash = cursor;
    const walk = new Walk(table);
    while (hash < HASH_END && walk.take(table.segmentAt(hash))) {
      collected += this.#stored.removeIdle(hash, boundaryMs);
      hash = table.hashAfter(hash);
    }
    if (hash < HASH_END) return { collected, cursor: hash };
    this.#stored.trimIndex();
    return { collected, cursor: null };
  }

  /** Counts a collection that has come to its end, and what it took. */
  noteCollection(microseconds: number): void {
    this.#collections++;
    this.#lastCollectionMicroseconds = microseconds;
    this.#totalCollectionMicroseconds += microseconds;
  }

  /** When the next collection is due, ms by the shard's clock; null as long as there are no semaphores. */
  collectionDeadlineMs(nowMs: number): number | null {
    this.expire(nowMs);
    if (this.#stored.semaphores === 0) return null;
    return this.#boundary(this.#records.nowMs) + this.#intervalMs;
  }

  /** Some connections that hold anything: see `Holdings.connections`. */
  connections(cursor: number, connectionsMax: number, nowMs: number): ConnectionPage {
    this.expire(nowMs);
    return this.#stored.holdings.connections(cursor, connectionsMax);
  }

  /** Counts of what the shard holds now. */
  figures(nowMs: number): SemaphoreFigures {
    this.expire(nowMs);
    const { semaphores, semaphoresSeen, holdings, bytes } = this.#stored;
    return {
      objects: semaphores,
      totalObjects: semaphoresSeen,
      holdings: holdings.count,
      holders: holdings.holders,
      usedBytes: bytes,
      collections: this.#collections,
      lastCollectionMicroseconds: this.#lastCollectionMicroseconds,
      totalCollectionMicroseconds: this.#totalCollectionMicroseconds,
    };
  }

  /**
   * Acquires for the current holder of `SemaphoreRecords`.
   *
   * @param endsAtMs of a lease
   */
  #acquire(
    bytes: Uint8Array,
    at: number,
    length: number,
    resources: number,
    maximum: number,
    endsAtMs: number,
  ): Status {
    const stored = this.#stored;
    const isThere = stored.find(bytes, at, length);
    const before = isThere ? stored.consumption : 0;
    // Numbers hold the sum of two u32 exactly.
    const consumption = before + resources;
    if (consumption > maximum) return Status.resourceNotAvailable;
    if (!isThere && !stored.add(bytes, at, length)) return Status.outOfMemory;
    const amount = stored.findAmount();
    if (amount > 0) {
      stored.setAmount(amount + resources);
    } else if (!stored.addHolding(resources, endsAtMs)) {
      if (!isThere) stored.takeBack(length);
      return Status.outOfMemory;
    }
    stored.seek();
    const { nowMs } = this.#records;
    const isOfInterval = isThere && stored.updatedAtMs >= this.#boundary(nowMs);
    const maximumSeen = isOfInterval ? Math.max(stored.maximum, consumption) : consumption;
    stored.write(consumption, maximumSeen, nowMs);
    return Status.success;
  }

  /** Gives back all of a holding at a time: now, or at the end of the lease. */
  #giveBack(row: number, atMs: number): void {
    const amount = this.#stored.seekAmount(row);
    this.#stored.setAmount(0);
    this.#released(amount, atMs);
  }

  /** Writes that resources of the current semaphore were given back at a time. */
  #released(resources: number, atMs: number): void {
    const stored = this.#stored;
    stored.seek();
    const { consumption } = stored;
    const isOfInterval = stored.updatedAtMs >= this.#boundary(atMs);
    stored.write(consumption - resources, isOfInterval ? stored.maximum : consumption, atMs);
  }

  #endAfter(ttlMs: number): number {
    const endsAtMs = this.#records.nowMs + ttlMs;
    if (!Number.isSafeInteger(ttlMs) || ttlMs < 1 || !Number.isSafeInteger(endsAtMs)) {
      throw new RangeError(
        `ttl_invalid: ttlMs: expected a whole number of milliseconds, 1 or more, got ${ttlMs}`,
      );
    }
    return endsAtMs;
  }

  /** First millisecond of the present interval. */
  get intervalStartMs(): number {
    return this.#boundary(this.#records.nowMs);
  }

  /** First millisecond of the interval that a time point is in. */
  #boundary(atMs: number): number {
    return Math.floor(atMs / this.#intervalMs) * this.#intervalMs;
  }
}

function isU32(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}
