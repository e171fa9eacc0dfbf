/**
 * Ownership: the records of a shard that splits, as it copies a part of its range, gives it away and forgets it; and of the
 * shard that adopts the part.
 *
 * The order of a split, and what a crash of either shard leaves, is the business of the objects. Here is only what becomes
 * of records.
 */
import { binaryBytes } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { isIn, widthOf, type Range } from "../wire/range.ts";
import type { ChargeLedger } from "./charge-ledger.ts";
import type { HashKey } from "./hash.ts";
import { RangeCopy } from "./range-copy.ts";
import { RecordPlace } from "./record-place.ts";
import type { Records } from "./records.ts";
import type { Recovery } from "./recovery.ts";
import type { Reservations } from "./reservations.ts";
import { hasExpired, META, SLOT_WORDS, type Segment } from "./segment.ts";
import { placeOfRecord } from "./segment-place.ts";
import type { Semaphores } from "./semaphores/semaphores.ts";
import { SIZE_CLASSES } from "./size-choice.ts";
import { HASH_END } from "./table.ts";
import { Walk, type Steps } from "./walk.ts";

/** What records are made into, or stands beside them. */
export interface OwnershipParts {
  readonly semaphores: Semaphores;
  readonly reservations: Reservations;
  readonly ledger: ChargeLedger;
  readonly recovery: Recovery;
}

export class Ownership {
  /** The copy under way; null when none is. */
  copy: RangeCopy | null = null;
  readonly #records: Records;
  readonly #parts: OwnershipParts;

  constructor(records: Records, parts: OwnershipParts) {
    this.#records = records;
    this.#parts = parts;
  }

  /**
   * Begins to copy a part of the range: from now on the images of every commit go along.
   *
   * @param seed of the placement
   * @throws Error while another copy is under way, or what was given away is not forgotten
   */
  copyRange(range: Range, seed: HashKey): RangeCopy {
    const { stored } = this.#parts.semaphores;
    if (this.copy !== null) throw new Error("ownership: a copy is under way");
    if (this.isForgetting) throw new Error("ownership: given records are not forgotten yet");
    this.#records.space.isStretched = true;
    this.copy = new RangeCopy(this.#records, stored, new RecordPlace(seed), range);
    return this.copy;
  }

  /** Ends the copy without effect. */
  giveUp(): void {
    this.#endCopy();
    this.#records.space.isStretched = false;
  }

  /**
   * Gives the copied range away: its records are absent at once. The copy must be complete, the last commit among it.
   *
   * @param seed as of `copyRange`
   */
  giveAway(seed: HashKey): void {
    const { copy } = this;
    if (copy === null || !copy.isTaken || !this.#records.commit.isEmpty) {
      throw new Error("ownership: the copy is not complete");
    }
    const { semaphores, ledger } = this.#parts;
    const place = new RecordPlace(seed);
    this.#records.table.isForgetting = true;
    this.#endCopy();
    semaphores.stored.noteGiven();
    ledger.forgetKeys((key) =>
      isIn(copy.range, place.hashOf(Keyspace.throttr, binaryBytes(key), 0, key.length)),
    );
  }

  #endCopy(): void {
    this.copy = null;
    this.#parts.semaphores.stored.forgetPlaces();
  }

  /** Records that were given away are not dropped yet. */
  get isForgetting(): boolean {
    return this.#records.table.isForgetting;
  }

  /**
   * Drops given records of a bounded part of the table, without tombstones: starts leave them out by their place.
   *
   * @param cursor 0 at first, then what the last step returned
   * @returns null when all are dropped
   */
  forgetStep(cursor: number): number | null {
    const { table, now, space } = this.#records;
    if (!table.isForgetting) return null;
    // The index has to know the numbers of given semaphores before their records are gone: see `Numbers.retire`.
    this.#parts.semaphores.stored.ensureIndex();
    const isGiven = ({ slots }: Segment, slot: number): boolean =>
      table.isGiven(slots[slot + META]!);
    const walk = new Walk(table);
    let hash = cursor;
    while (hash < HASH_END && walk.take(table.segmentAt(hash))) {
      if (table.removeWhere(hash, isGiven) > 0) table.sweep(hash, now);
      hash = table.hashAfter(hash);
    }
    if (hash < HASH_END) return hash;
    table.isForgetting = false;
    space.isStretched = false;
    return null;
  }

  /**
   * Before rows are restored that may have records of a range that was given away: they are left out.
   *
   * @param own range of the shard
   * @param seed of the placement
   */
  restoreOnly(own: Range, seed: HashKey): void {
    this.#parts.recovery.restoreOnly(own, new RecordPlace(seed));
  }

  /** After such rows were restored. */
  endRestore(): void {
    this.#parts.semaphores.stored.dropOrphans();
  }

  /** No row on disk has records that were given away: the generation in force began after that. */
  noteNoneStored(): void {
    this.#parts.semaphores.stored.freeRetiredNumbers();
  }

  /** Applies a row of a copied range, and the usage of its records, whatever the budget. */
  adopt(row: Uint8Array, usage: Uint8Array): void {
    this.#parts.recovery.restore(row, usage);
  }

  /**
   * The clock goes on from a time of the shard that has given the range, if it is behind: what has expired there stays
   * expired.
   *
   * @param shardMs by the other shard's clock
   */
  followClock(shardMs: number): void {
    const { nowMs, clock } = this.#records;
    if (nowMs < shardMs) this.#records.restoreClock(shardMs, clock.realMs);
  }

  /**
   * Drops all that was adopted, and the time of its rows: the other shard's clock may have been set back since, and the
   * records of its next attempt would seem to have expired.
   *
   * @param hashKey seed of the table from now on, as the other shard's: places in its order are places in this one's
   */
  clear(hashKey: HashKey): void {
    const { semaphores, reservations, recovery } = this.#parts;
    this.#records.clear(hashKey);
    this.#records.dropLag();
    recovery.forgetRows();
    semaphores.noteRestored();
    reservations.noteRestored();
  }

  /**
   * Bytes of the records of a range in `SIZE_CLASSES` equal parts of it, for `middleBySize`.
   *
   * @param seed of the placement
   */
  *weigh(range: Range, seed: HashKey): Steps<Float64Array> {
    const { table, now } = this.#records;
    const { stored } = this.#parts.semaphores;
    const place = new RecordPlace(seed);
    const sums = new Float64Array(SIZE_CLASSES);
    const width = widthOf(range);
    yield* new Walk(table).visit((segment) => {
      const { slots } = segment;
      for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
        const meta = slots[slot + META]!;
        if (meta === 0 || hasExpired(slots, slot, now) || table.isGiven(meta)) continue;
        const hash = placeOfRecord(segment, slot, place, stored);
        if (!isIn(range, hash)) continue;
        const index = Math.floor(((hash - range.from) * SIZE_CLASSES) / width);
        sums[index]! += SLOT_WORDS * 4 + segment.arenaBytesOf(slot);
      }
    });
    if (this.copy === null) stored.forgetPlaces();
    return sums;
  }
}
