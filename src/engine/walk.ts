/**
 * Walks over many records in bounded steps.
 *
 * A walk is a generator. Between two of its steps other requests may change any record, and segments may
 * split, grow or shrink, so a walk keeps only copies of keys from one step to the next.
 */
import type { Segment } from "./segment.ts";
import { HASH_END, type Table } from "./table.ts";
import { WALK_SEGMENT_SLOTS_MIN, WALK_STEP_SLOTS } from "./sizes.ts";

/** Work in steps. At each `yield` the caller lets other requests have a turn. */
export type Steps<Result> = Generator<void, Result>;

/** False ends the walk. */
type Visit = (segment: Segment) => boolean | void;

/**
 * Visits the records of a segment whose hashes lie from `from` on, up to `to`, where the segment ends.
 *
 * @returns the hash where it ended: before `to` to go on in the next step, from there on; null to end the walk
 */
type VisitPart = (segment: Segment, from: number, to: number) => number | null;

export class Walk {
  readonly #table: Table;
  /** Slots that this step has visited. */
  #looked = 0;

  constructor(table: Table) {
    this.#table = table;
  }

  /** Visits the segments that cover the hashes from `from` up to `to`, in their order. */
  *visit(visit: Visit, from = 0, to = HASH_END): Steps<void> {
    for (let hash = from; hash < to;) {
      if (!this.take(this.#table.segmentAt(hash))) {
        yield;
        this.#looked = 0;
        continue;
      }
      if (visit(this.#table.segmentAt(hash)) === false) return;
      hash = this.#table.hashAfter(hash);
    }
  }

  /** Visits all segments, each in as many steps as the visit wants: for visits that cost more than a look at each slot. */
  *visitParts(visit: VisitPart): Steps<void> {
    for (let from = 0; from < HASH_END;) {
      const segment = this.#table.segmentAt(from);
      const to = this.#table.hashAfter(from);
      const end = this.take(segment) ? visit(segment, from, to) : from;
      if (end === null) return;
      from = end;
      if (end === to) continue;
      yield;
      this.#looked = 0;
    }
  }

  /** Takes a segment into this step. False when the step has no room for it, unless it is the first one. */
  take({ capacity }: Segment): boolean {
    const slots = Math.max(WALK_SEGMENT_SLOTS_MIN, capacity);
    if (this.#looked > 0 && this.#looked + slots > WALK_STEP_SLOTS) return false;
    this.#looked += slots;
    return true;
  }
}
