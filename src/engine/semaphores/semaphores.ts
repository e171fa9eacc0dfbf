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
import { Status } from "../../wire/yrmcds/protocol.ts";
import type { HashKey } from "../hash.ts";
import type { Records } from "../records.ts";
import { HASH_END } from "../table.ts";
import { Walk } from "../walk.ts";
import type { ConnectionPage } from "./holdings.ts";
import { SemaphoreRecords } from "./semaphore-records.ts";
import { ENDED_LEASES_STEP } from "../sizes.ts";

/** Returned instead of a consumption when there is no such semaphore. */
export const ABSENT = -1;

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

  /**
   * Moves the clock, and gives back what leases held that have ended by now. Needs no row, like the expiry of a record: a restart
   * finds the ends in what is stored, and does the same in their order.
   */
  expire(nowMs: number): void {
    this.#advance(nowMs);
    this.#giveBackEnded(Infinity);
  }

  /**
   * As `expire`, for a bounded number of leases: many may end at once.
   *
   * @returns whether others have ended that still hold something
   */
  expireStep(nowMs: number): boolean {
    this.#advance(nowMs);
    this.#giveBackEnded(ENDED_LEASES_STEP);
    return this.#hasEndedLease;
  }

  #advance(nowMs: number): void {
    const records = this.#records;
    records.advance(nowMs);
    if (records.commit.isExhausted && records.commit.isEmpty) records.forgetImages();
    this.#stored.ensureIndex();
  }

  get #hasEndedLease(): boolean {
    return this.#stored.holdings.ends.deadlineMs <= this.#records.nowMs;
  }

  #giveBackEnded(leasesMax: number): void {
    if (!this.#hasEndedLease) return;
    const { ends } = this.#stored.holdings;
    this.#records.commit.noteImplied(() => {
      for (let leases = 0; leases < leasesMax && this.#hasEndedLease; leases++)
        this.giveBack(ends.firstRow, ends.deadlineMs);
    });
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
    return this.hold(bytes, nameAt, nameBytes, resources, maximum, 0);
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
    this.setAmount(amount, amount - resources);
    return Status.success;
  }

  /** Gives back all that a holder holds, because it has ended. Returns the number of semaphores that it held. */
  releaseAll(holder: Uint8Array, nowMs: number): number {
    this.expire(nowMs);
    const { holdings } = this.#stored;
    let released = 0;
    for (let row = holdings.firstOf(holder), next = 0; row !== 0; row = next, released++) {
      next = holdings.next(row);
      this.giveBack(row, this.#records.nowMs);
    }
    return released;
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
   * Acquires for the current holder of `SemaphoreRecords`, after `expire`.
   *
   * @param endsAtMs of a lease
   * @returns `success`, or `resourceNotAvailable` or `outOfMemory`, which change nothing
   */
  hold(
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
  giveBack(row: number, atMs: number): void {
    const amount = this.#stored.seekAmount(row);
    this.#stored.setAmount(0);
    this.#changeUse(-amount, atMs);
  }

  /** Sets the amount of the holding that is the current record, now; the consumption must fit into 32 bits. */
  setAmount(before: number, amount: number): void {
    this.#stored.setAmount(amount);
    this.#changeUse(amount - before, this.#records.nowMs);
  }

  /** Writes that the consumption of the current semaphore changed at a time. */
  #changeUse(change: number, atMs: number): void {
    const stored = this.#stored;
    stored.seek();
    const before = stored.consumption;
    const mostHeld = stored.updatedAtMs >= this.#boundary(atMs) ? stored.maximum : before;
    stored.write(before + change, Math.max(mostHeld, before + change), atMs);
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
